// A launch: its clusters, one after the other in an order that the seed gives.
// They share nothing but global memory. One grid at a time in a process.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_GRID_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_GRID_H_

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "tests/emulator/machine/cluster.h"
#include "tests/emulator/machine/reports.h"

namespace gemmd::emulator {

inline void RunGrid(const Launch& launch, const std::function<void()>& kernel,
                    Reports& reports) {
  std::vector<int> order(static_cast<size_t>(launch.ctas / launch.cluster));
  std::iota(order.begin(), order.end(), 0);
  if (launch.seed != 0 && !launch.in_order) {
    std::shuffle(order.begin(), order.end(), std::minstd_rand(launch.seed));
  }
  for (const int index : order) {
    Cluster(launch, index * launch.cluster, reports).Run(kernel);
  }
}

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_GRID_H_
