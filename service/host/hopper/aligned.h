// Memory that vectors may be loaded from: aligned to 64 bytes. Its elements
// are unspecified after Resize. Thread-compatible.
#ifndef GEMMD_SERVICE_HOST_HOPPER_ALIGNED_H_
#define GEMMD_SERVICE_HOST_HOPPER_ALIGNED_H_

#include <cstddef>
#include <vector>

namespace gemmd::host {

template <typename T>
class Aligned {
 public:
  void Resize(size_t count) { lines_.resize((count + kLine - 1) / kLine); }
  T* data() { return reinterpret_cast<T*>(lines_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(lines_.data()); }

 private:
  static constexpr size_t kLine = 64 / sizeof(T);
  struct alignas(64) Line {
    T at[kLine];
  };
  std::vector<Line> lines_;
};

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_HOPPER_ALIGNED_H_
