// A stand-in for the options of ASTRA-sim, and for the functions of cxxopts that the adapter uses.

#pragma once

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace cxxopts {

struct Value {
    std::string text;
    std::shared_ptr<Value> default_value(const std::string &value) const { return std::make_shared<Value>(Value{value}); }
};

template <typename> std::shared_ptr<Value> value() { return std::make_shared<Value>(); }

struct Options {
    struct Detail {
        std::string l;
    };
    struct Group {
        std::vector<Detail> options;
    };
    struct Adder {
        Options &all;
        Adder operator()(const std::string &name, const std::string &, const std::shared_ptr<Value> &value) {
            all.values[name] = value->text;
            return *this;
        }
    };

    Adder add_options() { return {*this}; }

    Group group_help(const std::string &) const {
        Group group;
        for (const auto &one : values) {
            group.options.push_back({one.first});
        }
        return group;
    }

    std::map<std::string, std::string> values;
};

} // namespace cxxopts

namespace AstraSimAnalytical {

class CmdLineParser {
public:
    explicit CmdLineParser(const char *) {
        for (const char *name : {"workload", "system", "remote-memory", "network", "comm-group", "logging"}) {
            options.values[std::string(name) + "-configuration"] = "";
        }
        for (const char *name : {"num-queues-per-dim", "comm-scale", "injection-scale", "rendezvous-protocol"}) {
            options.values[name] = "1";
        }
    }

    cxxopts::Options &get_options() { return options; }

    void parse(int count, char *words[]) {
        for (int at = 1; at < count; at++) {
            const std::string word = words[at];
            const auto equals = word.find('=');
            options.values[word.substr(2, equals - 2)] = word.substr(equals + 1);
        }
    }

    template <typename T> T get(const std::string &name) const {
        std::istringstream text(options.values.at(name));
        T found{};
        text >> found;
        return found;
    }

private:
    cxxopts::Options options;
};

} // namespace AstraSimAnalytical
