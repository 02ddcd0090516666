// A network of Silvan behind the network interface of ASTRA-sim.
//
// ASTRA-sim has one network object per rank. Here, all of them share one run of Silvan, whose hosts are the ranks.
//
// ASTRA-sim counts whole nanoseconds, Silvan picoseconds. A function is called at the exact time of Silvan, and the time that it
// then sees is rounded up, so nothing happens before its time, and messages in a row do not accumulate rounding errors. An
// alarm is at a whole nanosecond, because ASTRA-sim expects to see exactly the time for which it has asked.

#pragma once

#include "astra-sim/common/AstraNetworkAPI.hh"
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <silvan.h>
#include <string>
#include <vector>

namespace silvan_astra {

/// A function of ASTRA-sim.
using Handler = void (*)(void *);

/// The run of Silvan that all ranks share.
class Network {
public:
    /// Reads a scenario. Throws std::runtime_error if it is invalid.
    explicit Network(const std::string &scenario);

    int hosts() const { return static_cast<int>(silvan_hosts(handle.get())); }

    /// The time in nanoseconds, rounded up.
    std::uint64_t now_ns() const { return (silvan_now(handle.get()) + 999) / 1000; }

    /// Rate of the link on which a rank sends, GB/s.
    double bandwidth(int rank) const;

    /// Throws std::runtime_error unless the product of the dimensions is the number of hosts.
    void check_dimensions(const std::vector<int> &npus_per_dim) const;

    /// Return 0, or -1 after an error. ASTRA-sim ignores this value, so an error also ends `run`.
    int send(int from, int to, std::uint64_t bytes, int tag, Handler handler, void *data);
    int receive(int to, int from, std::uint64_t bytes, int tag, Handler handler, void *data);

    /// Calls a function after a delay in nanoseconds from the time that ASTRA-sim sees.
    void schedule(long double delay_ns, Handler handler, void *data);

    /// States that the program of a rank has ended. After the last one, `run` ends.
    void finished(int rank);

    /// Simulates until all ranks have finished. Throws std::runtime_error if they cannot finish.
    void run();

    /// Ends the run, and writes its results to a folder, unless the name is empty.
    void close(const std::string &folder);

    /// Ends `run` with an error. The first one counts.
    void fail(const std::string &text);

private:
    struct Close {
        void operator()(silvan *network) const { silvan_close(network, nullptr); }
    };

    /// A function that Silvan will call.
    struct Call {
        Network *network;
        Handler handler;
        void *data;
    };

    Call *call(Handler handler, void *data);
    int checked(int code, Call *call, const std::string &what);
    static void invoke(void *data) noexcept;
    std::string unfinished() const;

    std::unique_ptr<silvan, Close> handle;
    /// All calls, so that those that never happen are freed, and those that can be used again.
    std::deque<Call> calls;
    std::vector<Call *> unused;
    std::vector<bool> has_finished;
    std::size_t running;
    std::string failure;
};

/// The network of one rank.
class RankNetwork : public AstraSim::AstraNetworkAPI {
public:
    RankNetwork(int rank, Network &network) : AstraNetworkAPI(rank), network(network) {}

    int sim_send(void *buffer, std::uint64_t count, int type, int dst, int tag, AstraSim::sim_request *request, Handler msg_handler,
                 void *fun_arg) override;
    int sim_recv(void *buffer, std::uint64_t count, int type, int src, int tag, AstraSim::sim_request *request, Handler msg_handler,
                 void *fun_arg) override;
    void sim_schedule(AstraSim::timespec_t delta, Handler fun_ptr, void *fun_arg) override;
    AstraSim::timespec_t sim_get_time() override;
    double get_BW_at_dimension(int dim) override;
    void sim_notify_finished() override;

private:
    Network &network;
};

} // namespace silvan_astra
