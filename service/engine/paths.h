// How the operands of a product came to its device, and its result from there.
#ifndef GEMMD_SERVICE_ENGINE_PATHS_H_
#define GEMMD_SERVICE_ENGINE_PATHS_H_

#include <cstdint>
#include <utility>

#include "absl/types/span.h"

namespace gemmd::engine {

struct Destination;
struct Input;
struct Product;

// As v1::Path.
enum class Path : uint8_t {
  kNone,
  kInline,
  kStream,
  kTensor,
  kShared,
  kDeviceVmm,
  kDeviceIpc,
};

struct Paths {
  Path a = Path::kNone;
  Path b = Path::kNone;
  Path c = Path::kNone;
  Path d = Path::kNone;
  Path auxiliary = Path::kNone;
  // Of what is in device memory of a client's and not used where it is, and of
  // tensors of other devices that had no copy on this one.
  int copies = 0;

  friend bool operator==(const Paths&, const Paths&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Paths& paths) {
    return H::combine(std::move(h), paths.a, paths.b, paths.c, paths.d,
                      paths.auxiliary, paths.copies);
  }
};

Path PathOf(const Input& input);
// Of a result that leaves the device: inline, unless it goes to a region.
Path PathOfLeaving(const Destination& to);

// All but the copies.
Paths PathsOf(const Product& product);

// Whether `result` of `product`, one of `all` that run together, would change
// what any of them still reads, were it written as it is computed. It goes to a
// region. C may be the same matrix as D.
bool WritesWhatIsRead(const Product& product, Destination Product::*result,
                      absl::Span<const Product> all);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PATHS_H_
