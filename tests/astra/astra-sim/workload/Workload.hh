// A stand-in: a rank is its own workload.

#pragma once
