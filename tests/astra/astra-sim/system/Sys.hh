// A stand-in for a rank of ASTRA-sim: sends a message to the next rank, and has finished when it has received one.

#pragma once

#include "astra-sim/common/AstraNetworkAPI.hh"
#include "extern/remote_memory_backend/analytical/AnalyticalRemoteMemory.hh"
#include <cstdio>
#include <string>
#include <vector>

namespace AstraSim {

struct Sys {
    Sys(int id, const std::string &workload_configuration, const std::string &, const std::string &,
        Analytical::AnalyticalRemoteMemory *, AstraNetworkAPI *network, const std::vector<int> &physical_dims,
        const std::vector<int> &queues_per_dim, double, double, bool)
        : id(id), is_quiet(workload_configuration == "quiet" && id == 1), network(network) {
        for (int count : physical_dims) {
            ranks *= count;
        }
        if (id == 0) {
            std::printf("%zu dimensions, %zu with queues\n", physical_dims.size(), queues_per_dim.size());
        }
    }

    void fire() {
        network->sim_recv(nullptr, 1000, 0, (id + ranks - 1) % ranks, 0, nullptr, finish, this);
        // A rank that sends nothing keeps the next one waiting.
        if (!is_quiet) {
            network->sim_send(nullptr, 1000, 0, (id + 1) % ranks, 0, nullptr, nullptr, nullptr);
        }
    }

    static void finish(void *data) {
        auto *own = static_cast<Sys *>(data);
        std::printf("sys[%d] finished, %.0Lf cycles\n", own->id, own->network->sim_get_time().time_val);
        own->network->sim_notify_finished();
    }

    int id, ranks = 1;
    bool is_quiet;
    AstraNetworkAPI *network;
    Sys *workload = this;
};

} // namespace AstraSim
