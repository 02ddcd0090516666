// The same ring all-reduce as ring.c, with closures as callbacks.
//
//     ring_cpp SCENARIO BYTES [FOLDER]

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <silvan.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// A network whose callbacks are closures.
class Network {
public:
    explicit Network(const char *scenario) {
        std::vector<char> error(500);
        handle.reset(silvan_open(scenario, nullptr, 0, error.data(), error.size()));
        if (!handle) {
            throw std::runtime_error(error.data());
        }
    }

    std::uint32_t hosts() const { return silvan_hosts(handle.get()); }
    std::uint64_t now() const { return silvan_now(handle.get()); }

    void send(std::uint32_t src, std::uint32_t dst, std::uint64_t bytes) {
        check(silvan_send(handle.get(), src, dst, bytes, 0, 0, nullptr, nullptr, nullptr, nullptr));
    }

    void receive(std::uint32_t dst, std::uint32_t src, std::uint64_t bytes, std::function<void()> arrived) {
        auto call = std::make_unique<std::function<void()>>(std::move(arrived));
        check(silvan_recv(handle.get(), dst, src, bytes, 0, invoke, call.get()));
        call.release();
    }

    void run() { check(silvan_run(handle.get(), SILVAN_NEVER)); }

    int close(const char *folder) { return silvan_close(handle.release(), folder); }

private:
    struct Close {
        void operator()(silvan *network) const { silvan_close(network, nullptr); }
    };

    // An exception must not leave a callback, so it ends the program.
    static void invoke(void *data) noexcept {
        std::unique_ptr<std::function<void()>> call(static_cast<std::function<void()> *>(data));
        (*call)();
    }

    void check(int code) const {
        if (code != SILVAN_OK) {
            throw std::runtime_error(silvan_error(handle.get()));
        }
    }

    std::unique_ptr<silvan, Close> handle;
};

/// A host of the ring.
struct Host {
    Network &network;
    std::uint64_t part;
    std::uint32_t me, next, previous, steps;

    void step() {
        if (steps-- == 0) {
            return;
        }
        network.receive(me, previous, part, [this] { step(); });
        network.send(me, next, part);
    }
};

} // namespace

int main(int count, char **arguments) try {
    if (count < 3) {
        std::fprintf(stderr, "usage: ring_cpp SCENARIO BYTES [FOLDER]\n");
        return 2;
    }
    Network network(arguments[1]);
    const std::uint32_t hosts = network.hosts();
    std::vector<Host> all;
    for (std::uint32_t at = 0; at < hosts; at++) {
        all.push_back({network, std::stoull(arguments[2]) / hosts, at, (at + 1) % hosts, (at + hosts - 1) % hosts,
                       2 * (hosts - 1)});
    }
    for (Host &host : all) {
        host.step();
    }
    network.run();
    std::printf("%llu.%03llu ns\n", static_cast<unsigned long long>(network.now() / 1000),
                static_cast<unsigned long long>(network.now() % 1000));
    return network.close(count > 3 ? arguments[3] : nullptr);
} catch (const std::exception &error) {
    std::fprintf(stderr, "ring_cpp: %s\n", error.what());
    return 1;
}
