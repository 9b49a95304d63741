// How the bytes of a matrix are shared out among several connections. Pure
// functions.
#ifndef GEMMD_CLIENTS_CPP_STRIPING_H_
#define GEMMD_CLIENTS_CPP_STRIPING_H_

#include <cstdint>
#include <vector>

#include "clients/cpp/client.h"

namespace gemmd::client {

// Consecutive lines of a tensor, and where their bytes are among those of all.
struct Stripe {
  v1::LineRange lines;
  uint64_t offset = 0;
  uint64_t bytes = 0;    // Without
  uint64_t padding = 0;  // what is between its last line and the next one.
};

// For each connection of `striping` one stripe of the `bytes` that lie as
// `layout` says. None where they go by one connection: there are too few of
// them, or they are not those of the tensor, and the daemon says what is wrong.
std::vector<Stripe> SplitLines(const v1::TensorInfo& info,
                               const v1::Layout& layout, uint64_t bytes,
                               int connections);

// That so many bytes go by.
int ConnectionsFor(const Striping& striping, uint64_t bytes);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_STRIPING_H_
