// A stand-in for ASTRA-sim's network interface, so that the adapter can be tested without a checkout of ASTRA-sim: the types
// and functions that the adapter uses, with the names and types of ASTRA-sim (2025-04 to 2026-03).

#pragma once

#include <cstdint>

namespace AstraSim {

enum time_type_e { SE, MS, US, NS, FS };

struct timespec_t {
    time_type_e time_res;
    long double time_val;
};

struct sim_request;

class AstraNetworkAPI {
public:
    explicit AstraNetworkAPI(int rank) : rank(rank) {}
    virtual ~AstraNetworkAPI() = default;

    virtual int sim_send(void *, std::uint64_t, int, int, int, sim_request *, void (*)(void *), void *) = 0;
    virtual int sim_recv(void *, std::uint64_t, int, int, int, sim_request *, void (*)(void *), void *) = 0;
    virtual void sim_schedule(timespec_t, void (*)(void *), void *) = 0;
    virtual timespec_t sim_get_time() = 0;
    virtual double get_BW_at_dimension(int) = 0;
    virtual void sim_notify_finished() = 0;

    int rank;
};

} // namespace AstraSim
