#include "service/engine/paths.h"

#include "service/engine/product.h"

namespace gemmd::engine {
namespace {

Path OfRegion(const device::Region& region) {
  if (!device::IsOnDevice(&region)) return Path::kShared;
  return region.import() == device::Import::kVmm ? Path::kDeviceVmm
                                                 : Path::kDeviceIpc;
}

Path PathOf(const Input& input) {
  if (input.is_streamed) return Path::kStream;
  if (input.tensor != nullptr) return Path::kTensor;
  if (input.region != nullptr) return OfRegion(*input.region);
  return input.pieces.empty() ? Path::kNone : Path::kInline;
}

}  // namespace

Paths PathsOf(const Product& product) {
  Paths paths = {
      .a = PathOf(product.a), .b = PathOf(product.b), .c = PathOf(product.c)};
  if (!product.problem.writes()) return paths;
  paths.d = product.d_is_streamed  ? Path::kStream
            : product.d != nullptr ? Path::kTensor
                                   : (product.d_place.region == nullptr
                                          ? Path::kInline
                                          : OfRegion(*product.d_place.region));
  return paths;
}

bool WritesWhatIsRead(const Product& product, bool is_d,
                      absl::Span<const Product> all) {
  const jit::MatrixLayout d = product.problem.d();
  const device::RegionPlace& place =
      is_d ? product.d_place : product.auxiliary_place;
  const int64_t pitch =
      is_d ? product.d_pitch_bytes : product.auxiliary_pitch_bytes;
  const char* const begin = place.bytes();
  const char* const end = begin + (d.lines() - 1) * pitch + d.width_bytes();
  for (const Product& reader : all) {
    for (const Input* input :
         {&reader.a, &reader.b, &reader.c, &reader.bias, &reader.a_scale,
          &reader.b_scale, &reader.d_scale}) {
      if (!device::IsOnDevice(input->region.get())) continue;
      const absl::Span<const char> read = input->pieces[0];
      if (read.data() >= end || read.data() + read.size() <= begin) continue;
      const bool same = is_d && input == &product.c && read.data() == begin &&
                        input->pitch_bytes == pitch && product.problem.c() == d;
      if (!same) return true;
    }
  }
  return false;
}

}  // namespace gemmd::engine
