/* Silvan as a library: a packet-level simulator of lossless networks that a program controls.
 *
 * The program opens a network, sends messages from host to host, and has Silvan simulate them. Silvan calls functions of the
 * program when messages have left or arrived. docs/library.md explains the functions with an example.
 *
 *   - Times are in picoseconds, sizes in bytes. Hosts are numbered from 0 in the order of the topology.
 *   - A handle belongs to one thread at a time. Different handles are independent.
 *   - Callbacks are called only inside silvan_run, in the order of time, and at one time in the order in which the program
 *     asked for them. They may use all functions with the same handle except silvan_run and silvan_close. They must not
 *     leave by an exception or longjmp.
 *   - Functions that return int return SILVAN_OK or the kind of an error, whose text is silvan_error.
 *   - After SILVAN_SCENARIO, SILVAN_DEADLOCK and SILVAN_INTERNAL, all functions return this error until silvan_close.
 */

#ifndef SILVAN_H
#define SILVAN_H

#include <stddef.h>
#include <stdint.h>

#define SILVAN_ABI_MAJOR 1
#define SILVAN_ABI_MINOR 0

#ifdef __cplusplus
extern "C" {
#endif

/* A simulated network. */
typedef struct silvan silvan;

/* A function of the program, with a value that the program chose. */
typedef void (*silvan_fn)(void *data);

enum {
    SILVAN_OK = 0,
    /* An argument is invalid. Nothing has changed. */
    SILVAN_ARGUMENT = 1,
    /* The scenario is invalid, or its network cannot continue, because a buffer overflows or a link fails. */
    SILVAN_SCENARIO = 2,
    /* Packets wait for each other, or messages will never arrive. */
    SILVAN_DEADLOCK = 3,
    /* The run has reached its duration, or a file cannot be written. */
    SILVAN_LIMIT = 4,
    /* An error of the simulator. */
    SILVAN_INTERNAL = 5,
    /* silvan_try_send: the host has no room for the message. */
    SILVAN_BUSY = 6
};

/* No time: silvan_next without a next call, silvan_run without a limit. */
#define SILVAN_NEVER UINT64_MAX

/* The version of the interface of the library: major << 16 | minor. It fits this header if the major numbers are equal and
 * its minor number is at least SILVAN_ABI_MINOR. */
uint32_t silvan_abi(void);

/* Reads a scenario file and builds its network. Settings are texts such as "seed=7", as after `silvan run --set`. If no flow,
 * pattern or job of the scenario sends, the program may send; otherwise it may if the scenario contains [external].
 *
 * Returns NULL after an error, whose text is then in `error`, shortened to `error_size` bytes including the final zero. */
silvan *silvan_open(const char *scenario, const char *const *settings, size_t settings_count, char *error, size_t error_size);

/* Number of hosts. */
uint32_t silvan_hosts(const silvan *handle);

/* Simulated time. */
uint64_t silvan_now(const silvan *handle);

/* Current rate of the link on which a host sends, Gbit/s. 0 after an error. */
double silvan_bandwidth(const silvan *handle, uint32_t host);

/* Sends a message now. `sent` is called when its last byte has left the host, and `delivered` when the receiving host has
 * drained its last byte. Either can be NULL.
 *
 * `sl` is the service level, which determines the virtual lane: 0, or a higher one if the scenario has several. Messages
 * between two hosts with the same level arrive in the order of sending. A message of 0 bytes takes as long as a control packet.
 * A message from a host to itself does not use the network and takes `host.message_overhead`. */
int silvan_send(silvan *handle, uint32_t src, uint32_t dst, uint64_t bytes, uint64_t tag, uint32_t sl, silvan_fn sent,
                void *sent_data, silvan_fn delivered, void *delivered_data);

/* Same as silvan_send, if the messages of the host that have not left completely have at most `room` bytes with this one;
 * otherwise returns SILVAN_BUSY. If no other message waits, there is room. */
int silvan_try_send(silvan *handle, uint32_t src, uint32_t dst, uint64_t bytes, uint64_t tag, uint32_t sl, uint64_t room,
                    silvan_fn sent, void *sent_data, silvan_fn delivered, void *delivered_data);

/* Receives bytes: `arrived` is called when `bytes` bytes have arrived at `dst` from `src` with this tag, in addition to those
 * that earlier receives with the same values use. Receives match bytes, not messages: two receives can share a message, and a
 * receive can need several messages. `bytes` must not be 0. */
int silvan_recv(silvan *handle, uint32_t dst, uint32_t src, uint64_t bytes, uint64_t tag, silvan_fn arrived, void *data);

/* Calls a function at a time, which must not have passed. */
int silvan_at(silvan *handle, uint64_t time, silvan_fn function, void *data);

/* A time before which there is no call, unless the program asks for one. SILVAN_NEVER if there will be no call. */
uint64_t silvan_next(const silvan *handle);

/* Simulates, and calls functions, up to a time, inclusive. Then silvan_now is this time. Returns earlier, with SILVAN_OK, after
 * silvan_stop. With SILVAN_NEVER, returns when nothing is left that could cause a call, at the time of the last call; a network
 * in which the program may not send is then simulated to its duration. */
int silvan_run(silvan *handle, uint64_t until);

/* Has silvan_run return after the callback that calls this function. Without effect outside callbacks. */
void silvan_stop(silvan *handle);

/* A quantity of the run: "events", "packet_hops" (packets on links, counted once per link), "pending_messages" (not delivered),
 * "pending_receives"; or of the host `index`: "unsent_bytes" (of messages that have not left completely), "sent_bytes",
 * "received_bytes" (of all traffic). */
int silvan_stat(const silvan *handle, const char *name, uint32_t index, double *value);

/* The text of the last error of the handle; empty if there was none. It is valid until the next call of a function. */
const char *silvan_error(const silvan *handle);

/* Ends the run, and frees the handle, whatever it returns. If `folder` is not NULL, writes the results to that folder, from
 * which `silvan show` and Python's silvan.load read them. The folder is created if necessary. Returns SILVAN_ARGUMENT without
 * freeing the handle if a callback calls this function. */
int silvan_close(silvan *handle, const char *folder);

#ifdef __cplusplus
}
#endif

#endif
