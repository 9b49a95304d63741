#include "service/engine/paths.h"

#include "service/engine/product.h"

namespace gemmd::engine {
namespace {

Path OfRegion(const device::Region& region) {
  if (!device::IsOnDevice(&region)) return Path::kShared;
  return region.import() == device::Import::kVmm ? Path::kDeviceVmm
                                                 : Path::kDeviceIpc;
}

}  // namespace

Path PathOf(const Input& input) {
  if (input.is_streamed) return Path::kStream;
  if (input.tensor != nullptr) return Path::kTensor;
  if (input.region != nullptr) return OfRegion(*input.region);
  return input.pieces.empty() ? Path::kNone : Path::kInline;
}

Path PathOfLeaving(const Destination& to) {
  return to.place.region == nullptr ? Path::kInline
                                    : OfRegion(*to.place.region);
}

namespace {

Path PathOf(const Destination& to) {
  if (to.tensor == nullptr) return PathOfLeaving(to);
  return to.is_returned ? Path::kStream : Path::kTensor;
}

}  // namespace

Paths PathsOf(const Product& product) {
  Paths paths = {
      .a = PathOf(product.a), .b = PathOf(product.b), .c = PathOf(product.c)};
  for (const auto result : ResultsOf(product.problem)) {
    Path& path = result == &Product::d ? paths.d : paths.auxiliary;
    path = PathOf(product.*result);
  }
  return paths;
}

bool WritesWhatIsRead(const Product& product, Destination Product::*result,
                      absl::Span<const Product> all) {
  const jit::MatrixLayout d = product.problem.d();
  const int64_t pitch = (product.*result).pitch_bytes;
  const absl::Span<const char> written = WrittenBytes(product.*result, d);
  for (const Product& reader : all) {
    for (const auto of : kInputs) {
      const Input& input = reader.*of;
      if (input.region == nullptr) continue;
      const absl::Span<const char> read = input.pieces[0];
      if (!Overlap(read, written)) continue;
      const bool same = result == &Product::d && &input == &product.c &&
                        read.data() == written.data() &&
                        input.pitch_bytes == pitch && product.problem.c() == d;
      if (!same) return true;
    }
  }
  return false;
}

}  // namespace gemmd::engine
