// A stand-in for the log of ASTRA-sim.

#pragma once

#include <string>

namespace AstraSim {

struct LoggerFactory {
    static void init(const std::string & = "empty") {}
    static void shutdown() {}
};

} // namespace AstraSim
