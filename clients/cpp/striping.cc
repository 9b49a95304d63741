#include "clients/cpp/striping.h"

#include <algorithm>
#include <thread>

#include "clients/cpp/matmul_header.h"

namespace gemmd::client {
namespace {

constexpr int kMostConnections = 8;
// A thread of the client serves each connection, and one of the daemon or of
// another client needs a core as well.
constexpr int kLeastCores = 4;

int DefaultConnections() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores < kLeastCores ? 1 : std::min(cores / 2, kMostConnections);
}

}  // namespace

std::vector<Stripe> SplitLines(const v1::TensorInfo& info,
                               const v1::Layout& layout, uint64_t bytes,
                               int connections) {
  const bool composite =
      info.sparsity() != v1::SPARSITY_UNSPECIFIED || info.has_quantization();
  const int bits = composite ? 8 : BitsOf(info.dtype());
  const bool columns = info.order() == v1::ORDER_COLUMN_MAJOR;
  const auto size = [](int64_t size) {
    return static_cast<uint64_t>(std::max<int64_t>(size, 1));
  };
  const uint64_t lines =
      size(columns ? info.columns() : info.rows()) * size(info.count());
  const uint64_t width = size(columns ? info.rows() : info.columns());
  const bool is_tight = layout.leading_dimension() <= 0;
  // What composite lines hold is the daemon's to know.
  const uint64_t tight = composite ? bytes / lines : (width * bits + 7) / 8;
  const uint64_t pitch =
      is_tight ? tight : size(layout.leading_dimension()) * bits / 8;
  const uint64_t before_last = (lines - 1) * pitch;
  if (bytes <= before_last || bytes > before_last + pitch) return {};
  if (!composite && bytes < before_last + tight) return {};
  // A daemon that says no version takes no parts.
  const uint64_t parts = info.has_version() && !layout.has_batch_stride()
                             ? std::min<uint64_t>(connections, lines)
                             : 1;
  if (parts < 2) return {};
  const uint64_t padding = before_last + pitch - bytes;
  std::vector<Stripe> stripes(parts);
  for (uint64_t i = 0; i < parts; ++i) {
    const uint64_t first = lines * i / parts;
    const uint64_t count = lines * (i + 1) / parts - first;
    Stripe& stripe = stripes[i];
    stripe.lines.set_first(static_cast<int64_t>(first));
    stripe.lines.set_count(static_cast<int64_t>(count));
    stripe.offset = first * pitch;
    stripe.bytes = count * pitch - padding;
    stripe.padding = i + 1 < parts ? padding : 0;
  }
  return stripes;
}

int ConnectionsFor(const Striping& striping, uint64_t bytes) {
  if (bytes < striping.least_bytes) return 1;
  const int asked = striping.connections;
  return asked == 0 ? DefaultConnections()
                    : std::clamp(asked, 1, kMostConnections);
}

}  // namespace gemmd::client
