// Clients of a daemon whose kernels compute nothing: what they upload is to
// come back, and their products are to end well.
#ifndef GEMMD_TESTS_INTEGRATION_DRIVER_CROWD_H_
#define GEMMD_TESTS_INTEGRATION_DRIVER_CROWD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gemmd::testing {

// What went wrong when `clients` at a time did `rounds` things each with the
// daemon at `address`, on that device of it; "": on any. DATA_LOSS: what came
// back was not what had been sent.
std::vector<absl::Status> RunCrowd(const std::string& address, int clients,
                                   int rounds, const std::string& device = "");

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_DRIVER_CROWD_H_
