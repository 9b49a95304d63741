// What the management library says of a GPU: driver release, clocks, power.
#ifndef GEMMD_TESTS_BENCH_NVML_H_
#define GEMMD_TESTS_BENCH_NVML_H_

#include <string>

namespace gemmd::bench {

// "driver 580.159.03, SM 1980 of 1980 MHz, limit 700 W"; empty where the
// library is not installed. `ordinal` counts in the order of PCI.
std::string DescribeClocks(int ordinal);

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_NVML_H_
