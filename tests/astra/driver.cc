// Uses the adapter as ASTRA-sim does, and prints the time of each call.
//
//     driver SCENARIO CASE [NUMBER]

#include "network.hh"
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using silvan_astra::Network;
using silvan_astra::RankNetwork;
using Action = std::function<void()>;

constexpr std::uint64_t MIB = 1 << 20;
constexpr int TAG = 7;

/// All ranks, with closures as handlers.
struct Ranks {
    explicit Ranks(const std::string &scenario) : network(scenario) {
        for (int rank = 0; rank < network.hosts(); rank++) {
            all.push_back(std::make_unique<RankNetwork>(rank, network));
        }
    }

    int send(int from, int to, std::uint64_t bytes, Action sent = nullptr, int tag = TAG) {
        return all.at(from)->sim_send(nullptr, bytes, 0, to, tag, nullptr, sent ? call : nullptr, keep(sent));
    }

    int receive(int to, int from, std::uint64_t bytes, Action arrived, int tag = TAG) {
        return all.at(to)->sim_recv(nullptr, bytes, 0, from, tag, nullptr, call, keep(arrived));
    }

    void schedule(int rank, long double delay_ns, Action action) {
        all.at(rank)->sim_schedule({AstraSim::NS, delay_ns}, call, keep(action));
    }

    /// An action that prints a name and the time.
    Action says(const std::string &name) {
        return [this, name] { say(name); };
    }

    void say(const std::string &name) { std::printf("%s %.0Lf\n", name.c_str(), all[0]->sim_get_time().time_val); }

    void finish() {
        for (auto &rank : all) {
            rank->sim_notify_finished();
        }
    }

    Network network;
    std::vector<std::unique_ptr<RankNetwork>> all;

private:
    static void call(void *data) { (*static_cast<Action *>(data))(); }

    void *keep(Action action) {
        actions.push_back(std::make_unique<Action>(std::move(action)));
        return actions.back().get();
    }

    std::vector<std::unique_ptr<Action>> actions;
};

/// The schedule of a ring all-reduce, in which every rank waits for a part before it sends the next one.
struct Ring {
    Ring(Ranks &ranks, std::uint64_t part) : ranks(ranks), part(part), steps(ranks.all.size()) {
        for (std::size_t rank = 0; rank < steps.size(); rank++) {
            step(static_cast<int>(rank));
        }
    }

    void step(int me) {
        const int count = static_cast<int>(steps.size());
        if (steps[me] == 2 * (count - 1)) {
            ranks.all[me]->sim_notify_finished();
            return;
        }
        steps[me] += 1;
        ranks.receive(me, (me + count - 1) % count, part, [this, me] { step(me); });
        ranks.send(me, (me + 1) % count, part);
    }

    Ranks &ranks;
    std::uint64_t part;
    std::vector<int> steps;
};

void two_receives(Ranks &ranks, std::uint64_t) {
    ranks.receive(1, 0, MIB, ranks.says("first"));
    ranks.receive(1, 0, MIB, ranks.says("second"));
    ranks.send(0, 1, 2 * MIB, ranks.says("sent"));
}

void two_sends(Ranks &ranks, std::uint64_t) {
    ranks.receive(1, 0, 2 * MIB, ranks.says("both"));
    ranks.send(0, 1, MIB, ranks.says("sent"));
    ranks.send(0, 1, MIB, ranks.says("sent"));
}

void one_message(Ranks &ranks, std::uint64_t bytes) {
    ranks.receive(1, 0, bytes, ranks.says("whole"));
    ranks.send(0, 1, bytes);
}

/// Late receives, one after the other, of which the third needs bytes that arrive later.
void late(Ranks &ranks, std::uint64_t) {
    ranks.send(0, 1, 5 * MIB);
    ranks.schedule(1, 1e6L, [&ranks] {
        for (const char *name : {"first", "second", "third"}) {
            ranks.receive(1, 0, 2 * MIB, ranks.says(name));
        }
        ranks.send(0, 1, MIB);
    });
}

/// Messages with other tags, to other ranks, and in the other direction do not match.
void others(Ranks &ranks, std::uint64_t) {
    ranks.receive(1, 0, MIB, ranks.says("match"));
    ranks.send(0, 1, 2 * MIB, nullptr, TAG + 1);
    ranks.send(0, 2, 2 * MIB);
    ranks.send(1, 0, 2 * MIB);
    ranks.send(0, 1, MIB);
}

/// Alarms count from the time that the caller sees.
void alarms(Ranks &ranks, std::uint64_t bytes) {
    ranks.schedule(0, 10, ranks.says("early"));
    ranks.receive(1, 0, bytes, [&ranks] {
        ranks.say("arrived");
        ranks.schedule(1, 0, ranks.says("now"));
        ranks.schedule(1, 5, ranks.says("later"));
        ranks.schedule(1, 4.5L, ranks.says("fraction"));
    });
    ranks.send(0, 1, bytes);
}

/// A message goes there and back, a number of times.
void pingpong(Ranks &ranks, std::uint64_t bytes) {
    auto left = std::make_shared<int>(100);
    auto turn = std::make_shared<std::function<void(int)>>();
    *turn = [&ranks, bytes, left, again = turn.get()](int me) {
        if (*left == 0) {
            ranks.say("end");
            ranks.finish();
            return;
        }
        *left -= 1;
        ranks.receive(1 - me, me, bytes, [again, me] { (*again)(1 - me); });
        ranks.send(me, 1 - me, bytes);
    };
    (*turn)(0);
    ranks.network.run();
}

void ring(Ranks &ranks, std::uint64_t bytes) {
    Ring ring(ranks, bytes / ranks.all.size());
    ranks.network.run();
    ranks.say("end");
}

void bandwidth(Ranks &ranks, std::uint64_t) {
    std::printf("bandwidth %g\n", ranks.all[1]->get_BW_at_dimension(0));
}

void dimensions(Ranks &ranks, std::uint64_t last) {
    ranks.network.check_dimensions({2, static_cast<int>(last)});
    std::printf("fine\n");
}

/// Rank 1 waits for a second message, which no rank sends.
void waits(Ranks &ranks, std::uint64_t) {
    ranks.all[0]->sim_notify_finished();
    ranks.all[0]->sim_notify_finished();
    ranks.receive(1, 0, 100, ranks.says("first"));
    ranks.receive(1, 0, 100, ranks.says("second"));
    ranks.send(0, 1, 100);
}

void stranger(Ranks &ranks, std::uint64_t to) {
    ranks.schedule(0, 5, [&ranks, to] {
        std::printf("returns %d\n", ranks.send(0, static_cast<int>(to), 1));
        ranks.schedule(0, 5, ranks.says("too late"));
    });
}

void throws(Ranks &ranks, std::uint64_t) {
    ranks.schedule(0, 5, [] { throw std::invalid_argument("no such node"); });
}

void delay(Ranks &ranks, std::uint64_t) { ranks.schedule(0, -1, ranks.says("early")); }

void unit(Ranks &ranks, std::uint64_t) { ranks.all[0]->sim_schedule({AstraSim::US, 1}, nullptr, nullptr); }

/// Results are written although a message is under way.
void results(Ranks &ranks, std::uint64_t) {
    ranks.receive(1, 0, MIB, [&ranks] { ranks.finish(); });
    ranks.send(0, 1, MIB);
    ranks.send(2, 3, 100 * MIB);
    ranks.network.run();
    ranks.network.close("results");
}

const std::map<std::string, void (*)(Ranks &, std::uint64_t)> CASES = {
    {"two-receives", two_receives}, {"two-sends", two_sends}, {"one-message", one_message}, {"late", late},
    {"others", others}, {"alarms", alarms}, {"pingpong", pingpong}, {"ring", ring}, {"bandwidth", bandwidth},
    {"dimensions", dimensions}, {"waits", waits}, {"stranger", stranger}, {"throws", throws}, {"delay", delay},
    {"unit", unit}, {"results", results},
};

} // namespace

int main(int count, char *words[]) try {
    Ranks ranks(words[1]);
    const std::string name = words[2];
    CASES.at(name)(ranks, count > 3 ? std::stoull(words[3]) : 0);
    if (name != "waits") {
        ranks.schedule(0, 1e8L, [&ranks] { ranks.finish(); });
    }
    if (name != "results") {
        ranks.network.run();
        ranks.network.close("");
    }
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
