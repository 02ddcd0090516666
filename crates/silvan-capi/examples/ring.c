/* A ring all-reduce: each host sends a part of the data to the next one, 2 (n - 1) times, as soon as it has received the part
 * of the previous one.
 *
 *     ring SCENARIO BYTES [FOLDER]
 *
 * Prints the time in nanoseconds. */

#include <inttypes.h>
#include <silvan.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    silvan *network;
    uint64_t part;
    uint32_t me, hosts, steps;
} host;

static void check(silvan *network, int code) {
    if (code != SILVAN_OK) {
        fprintf(stderr, "ring: %s\n", silvan_error(network));
        exit(1);
    }
}

static void step(void *data) {
    host *self = data;
    if (self->steps == 0) {
        return;
    }
    self->steps--;
    uint32_t next = (self->me + 1) % self->hosts, previous = (self->me + self->hosts - 1) % self->hosts;
    check(self->network, silvan_recv(self->network, self->me, previous, self->part, 0, step, self));
    check(self->network, silvan_send(self->network, self->me, next, self->part, 0, 0, NULL, NULL, NULL, NULL));
}

int main(int count, char **arguments) {
    char error[500];
    if (count < 3) {
        fprintf(stderr, "usage: ring SCENARIO BYTES [FOLDER]\n");
        return 2;
    }
    silvan *network = silvan_open(arguments[1], NULL, 0, error, sizeof error);
    if (network == NULL) {
        fprintf(stderr, "ring: %s\n", error);
        return 1;
    }
    uint32_t hosts = silvan_hosts(network);
    uint64_t bytes = strtoull(arguments[2], NULL, 10);
    host *all = calloc(hosts, sizeof *all);
    for (uint32_t at = 0; at < hosts; at++) {
        all[at] = (host){network, bytes / hosts, at, hosts, 2 * (hosts - 1)};
        step(&all[at]);
    }
    check(network, silvan_run(network, SILVAN_NEVER));
    printf("%" PRIu64 ".%03" PRIu64 " ns\n", silvan_now(network) / 1000, silvan_now(network) % 1000);
    int code = silvan_close(network, count > 3 ? arguments[3] : NULL);
    free(all);
    return code;
}
