// ASTRA-sim with a network of Silvan.
//
// Has the options of ASTRA-sim's own programs, from the parser of the checkout, and those of `add_options`. docs/astra.md
// describes them.

#include "astra-sim/common/Logging.hh"
#include "astra-sim/network_frontend/analytical/include/common/CmdLineParser.hh"
#include "astra-sim/system/Sys.hh"
#include "astra-sim/workload/Workload.hh"
#include "extern/remote_memory_backend/analytical/AnalyticalRemoteMemory.hh"
#include "network.hh"
#include <exception>
#include <fstream>
#include <iostream>
#include <json/json.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using AstraSimAnalytical::CmdLineParser;

namespace {

/// The default of ASTRA-sim for files that are optional.
const char *const NO_FILE = "empty";

void add_options(cxxopts::Options &options) {
    options.add_options()("logical-topology-configuration", "NPUs per dimension, as for ns-3 (default: one dimension)",
                          cxxopts::value<std::string>()->default_value(NO_FILE))(
        "silvan-results", "Folder for the results of the network", cxxopts::value<std::string>()->default_value(""));
}

/// ASTRA-sim ignores options that it does not know, so that a misspelled one has no effect.
void refuse_unknown(const cxxopts::Options &options, int count, char *words[]) {
    std::string known;
    for (const auto &one : options.group_help("").options) {
        known += (known.empty() ? "--" : ", --") + one.l;
    }
    for (int at = 1; at < count; at++) {
        const std::string word = words[at];
        const std::string name = word.substr(0, word.find('='));
        if (name.rfind("--", 0) == 0 && (", " + known + ",").find(", " + name + ",") == std::string::npos) {
            throw std::runtime_error("no option " + name + "; there are " + known);
        }
    }
}

/// Newer versions of ASTRA-sim write log files to a folder.
template <typename Factory>
auto start_log(const CmdLineParser &given, int)
    -> decltype(Factory::init(std::string(), std::string())) {
    return Factory::init(given.get<std::string>("logging-configuration"), given.get<std::string>("logging-folder"));
}

template <typename Factory> void start_log(const CmdLineParser &given, long) {
    Factory::init(given.get<std::string>("logging-configuration"));
}

/// The NPUs per dimension of a file such as {"logical-dims": ["8", "2"]}; all hosts in one dimension without a file.
std::vector<int> dimensions(const std::string &file, int hosts) {
    if (file == NO_FILE) {
        return {hosts};
    }
    std::ifstream input(file);
    if (!input) {
        throw std::runtime_error(file + " cannot be read; it should contain {\"logical-dims\": [\"8\", \"2\"]}");
    }
    std::vector<int> found;
    try {
        const auto content = nlohmann::json::parse(input);
        for (const auto &one : content.at("logical-dims")) {
            found.push_back(one.is_string() ? std::stoi(one.get<std::string>()) : one.get<int>());
        }
    } catch (const std::exception &error) {
        throw std::runtime_error(file + " is invalid: " + error.what() +
                                 "; it should contain {\"logical-dims\": [\"8\", \"2\"]}");
    }
    return found;
}

void run(const CmdLineParser &given) {
    silvan_astra::Network network(given.get<std::string>("network-configuration"));
    const auto npus_per_dim = dimensions(given.get<std::string>("logical-topology-configuration"), network.hosts());
    network.check_dimensions(npus_per_dim);
    const std::vector<int> queues_per_dim(npus_per_dim.size(), given.get<int>("num-queues-per-dim"));

    Analytical::AnalyticalRemoteMemory memory(given.get<std::string>("remote-memory-configuration"));
    std::vector<std::unique_ptr<silvan_astra::RankNetwork>> networks;
    // Not deleted: in some versions of ASTRA-sim, a rank cannot be deleted.
    std::vector<AstraSim::Sys *> ranks;
    for (int rank = 0; rank < network.hosts(); rank++) {
        networks.push_back(std::make_unique<silvan_astra::RankNetwork>(rank, network));
        ranks.push_back(new AstraSim::Sys(
            rank, given.get<std::string>("workload-configuration"), given.get<std::string>("comm-group-configuration"),
            given.get<std::string>("system-configuration"), &memory, networks.back().get(), npus_per_dim, queues_per_dim,
            given.get<double>("injection-scale"), given.get<double>("comm-scale"), given.get<bool>("rendezvous-protocol")));
    }
    for (AstraSim::Sys *rank : ranks) {
        rank->workload->fire();
    }
    network.run();
    network.close(given.get<std::string>("silvan-results"));
}

} // namespace

int main(int count, char *words[]) try {
    CmdLineParser parser(words[0]);
    add_options(parser.get_options());
    refuse_unknown(parser.get_options(), count, words);
    parser.parse(count, words);
    start_log<AstraSim::LoggerFactory>(parser, 0);
    run(parser);
    AstraSim::LoggerFactory::shutdown();
    return 0;
} catch (const std::exception &error) {
    std::cerr << words[0] << ": " << error.what() << std::endl;
    return 1;
}
