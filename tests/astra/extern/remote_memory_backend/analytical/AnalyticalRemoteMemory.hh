// A stand-in for the remote memory of ASTRA-sim.

#pragma once

#include <string>

namespace Analytical {

struct AnalyticalRemoteMemory {
    explicit AnalyticalRemoteMemory(const std::string &) {}
};

} // namespace Analytical
