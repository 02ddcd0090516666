// The network interface of ASTRA-sim, with the functions of silvan.h.

#include "network.hh"
#include <algorithm>
#include <cmath>
#include <exception>
#include <stdexcept>

namespace silvan_astra {

namespace {

/// More than any run lasts. Larger numbers have no whole nanoseconds as a double, or no picoseconds in 64 bits.
constexpr long double LONGEST_NS = 1e15L;

/// Silvan's receives need a byte. A message without bytes counts as one byte at both ends, so it is received as well.
std::uint64_t at_least_one(std::uint64_t bytes) { return std::max<std::uint64_t>(bytes, 1); }

std::uint32_t unsigned_of(int number) { return static_cast<std::uint32_t>(number); }

} // namespace

Network::Network(const std::string &scenario) {
    std::string error(2000, '\0');
    handle.reset(silvan_open(scenario.c_str(), nullptr, 0, &error[0], error.size()));
    if (!handle) {
        throw std::runtime_error(error.c_str());
    }
    running = silvan_hosts(handle.get());
    has_finished.assign(running, false);
}

double Network::bandwidth(int rank) const { return silvan_bandwidth(handle.get(), unsigned_of(rank)) / 8; }

void Network::check_dimensions(const std::vector<int> &npus_per_dim) const {
    long long product = 1;
    std::string text;
    for (int count : npus_per_dim) {
        if (count < 1) {
            throw std::runtime_error("a dimension has " + std::to_string(count) + " NPUs; it needs at least one");
        }
        // The number of hosts has 32 bits, so a larger product need not be exact.
        product = std::min(product * count, 1LL << 32);
        text += (text.empty() ? "" : " x ") + std::to_string(count);
    }
    if (product != hosts()) {
        throw std::runtime_error("the dimensions " + text + " have " + std::to_string(product) +
                                 " NPUs, and the network of the scenario has " + std::to_string(hosts()) +
                                 " hosts; both numbers must be equal");
    }
}

Network::Call *Network::call(Handler handler, void *data) {
    if (handler == nullptr) {
        return nullptr;
    }
    if (unused.empty()) {
        calls.emplace_back();
        unused.push_back(&calls.back());
    }
    Call *free = unused.back();
    unused.pop_back();
    *free = {this, handler, data};
    return free;
}

int Network::checked(int code, Call *call, const std::string &what) {
    if (code == SILVAN_OK) {
        return 0;
    }
    fail(what + ": " + silvan_error(handle.get()));
    if (call != nullptr) {
        unused.push_back(call);
    }
    return -1;
}

int Network::send(int from, int to, std::uint64_t bytes, int tag, Handler handler, void *data) {
    Call *sent = call(handler, data);
    int code = silvan_send(handle.get(), unsigned_of(from), unsigned_of(to), at_least_one(bytes), unsigned_of(tag), 0,
                           sent == nullptr ? nullptr : invoke, sent, nullptr, nullptr);
    return checked(code, sent,
                   "rank " + std::to_string(from) + " sends " + std::to_string(bytes) + " bytes to rank " + std::to_string(to));
}

int Network::receive(int to, int from, std::uint64_t bytes, int tag, Handler handler, void *data) {
    Call *arrived = call(handler, data);
    int code = silvan_recv(handle.get(), unsigned_of(to), unsigned_of(from), at_least_one(bytes), unsigned_of(tag),
                           arrived == nullptr ? nullptr : invoke, arrived);
    return checked(code, arrived,
                   "rank " + std::to_string(to) + " receives " + std::to_string(bytes) + " bytes from rank " +
                       std::to_string(from));
}

void Network::schedule(long double delay_ns, Handler handler, void *data) {
    if (!(delay_ns >= 0 && delay_ns < LONGEST_NS)) {
        fail("ASTRA-sim asks for a call in " + std::to_string(delay_ns) + " ns; a delay is at least 0 and below 1e15 ns");
        return;
    }
    std::uint64_t at_ns = now_ns() + static_cast<std::uint64_t>(std::ceil(delay_ns));
    Call *alarm = call(handler, data);
    checked(silvan_at(handle.get(), at_ns * 1000, alarm == nullptr ? nullptr : invoke, alarm), alarm,
            "ASTRA-sim asks for a call at " + std::to_string(at_ns) + " ns");
}

void Network::finished(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (at < has_finished.size() && !has_finished[at]) {
        has_finished[at] = true;
        running -= 1;
    }
    if (running == 0) {
        silvan_stop(handle.get());
    }
}

void Network::run() {
    // silvan_stop has no effect before the run, in which background traffic of the scenario may never end.
    if (failure.empty() && running > 0) {
        int code = silvan_run(handle.get(), SILVAN_NEVER);
        if (code != SILVAN_OK) {
            fail(silvan_error(handle.get()) + unfinished());
        } else if (running > 0) {
            fail("nothing is left to simulate" + unfinished());
        }
    }
    if (!failure.empty()) {
        throw std::runtime_error(failure);
    }
}

void Network::close(const std::string &folder) {
    if (silvan_close(handle.get(), folder.empty() ? nullptr : folder.c_str()) != SILVAN_OK) {
        handle.release();
        throw std::runtime_error("the results cannot be written to " + folder + "; name a folder that can be created");
    }
    handle.release();
}

void Network::fail(const std::string &text) {
    if (failure.empty()) {
        failure = text;
    }
    silvan_stop(handle.get());
}

void Network::invoke(void *data) noexcept {
    // The function may ask for further calls, for which this one can be used again.
    Call call = *static_cast<Call *>(data);
    call.network->unused.push_back(static_cast<Call *>(data));
    // An exception must not leave a function that Silvan calls.
    try {
        call.handler(call.data);
    } catch (const std::exception &error) {
        call.network->fail(error.what());
    } catch (...) {
        call.network->fail("a function of ASTRA-sim ended with an unknown exception");
    }
}

std::string Network::unfinished() const {
    double receives = 0;
    silvan_stat(handle.get(), "pending_receives", 0, &receives);
    const auto first = std::find(has_finished.begin(), has_finished.end(), false) - has_finished.begin();
    return "; at " + std::to_string(now_ns()) + " ns, " + std::to_string(running) + " of " + std::to_string(hosts()) +
           " ranks have not finished, the first of them rank " + std::to_string(first) +
           "; receives that wait for bytes: " + std::to_string(static_cast<std::uint64_t>(receives));
}

int RankNetwork::sim_send(void *, std::uint64_t count, int, int dst, int tag, AstraSim::sim_request *, Handler msg_handler,
                          void *fun_arg) {
    return network.send(rank, dst, count, tag, msg_handler, fun_arg);
}

int RankNetwork::sim_recv(void *, std::uint64_t count, int, int src, int tag, AstraSim::sim_request *, Handler msg_handler,
                          void *fun_arg) {
    return network.receive(rank, src, count, tag, msg_handler, fun_arg);
}

void RankNetwork::sim_schedule(AstraSim::timespec_t delta, Handler fun_ptr, void *fun_arg) {
    if (delta.time_res != AstraSim::NS) {
        network.fail("ASTRA-sim states a delay with the unit " + std::to_string(delta.time_res) + "; only NS is supported");
        return;
    }
    network.schedule(delta.time_val, fun_ptr, fun_arg);
}

AstraSim::timespec_t RankNetwork::sim_get_time() { return {AstraSim::NS, static_cast<long double>(network.now_ns())}; }

double RankNetwork::get_BW_at_dimension(int) { return network.bandwidth(rank); }

void RankNetwork::sim_notify_finished() { network.finished(rank); }

} // namespace silvan_astra
