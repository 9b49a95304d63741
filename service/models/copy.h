// The elements of tensors, from and to a device in parts, for a thread that may
// wait: no more of them is in the daemon's memory than one part.
#ifndef GEMMD_SERVICE_MODELS_COPY_H_
#define GEMMD_SERVICE_MODELS_COPY_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "service/engine/engine.h"

namespace gemmd::models {

inline constexpr int64_t kPartBytes = 8 << 20;

// Bytes of a matrix whose lines lie one behind the other, without padding.
inline int64_t TightBytes(const jit::MatrixLayout& layout) {
  return layout.lines() * layout.width_bytes();
}

// Gives `take` all of them, tight, at most kPartBytes at a time. ABORTED when
// the tensor is written meanwhile; the error of `take` or of the engine.
absl::Status Fetch(
    engine::Engine& engine, const std::shared_ptr<engine::Tensor>& tensor,
    const engine::RequestContext& context,
    absl::FunctionRef<absl::Status(absl::Span<const char>)> take);

// A tensor's new elements as they come, tight. Used once, by one thread.
class Filler {
 public:
  // They count for `context.identity`.
  static absl::StatusOr<Filler> Begin(
      engine::Engine& engine, const std::shared_ptr<engine::Tensor>& tensor,
      const engine::RequestContext& context);

  // The next ones, as Fetch gives them of a tensor of as wide lines.
  absl::Status Add(absl::Span<const char> part);
  // After the last one: the tensor has them.
  absl::Status Finish();

 private:
  Filler(engine::Engine& engine, const jit::MatrixLayout& layout,
         std::shared_ptr<engine::TensorUpload> upload,
         engine::RequestContext context);

  engine::Engine& engine_;
  const jit::MatrixLayout layout_;
  std::shared_ptr<engine::TensorUpload> upload_;
  engine::RequestContext context_;
  int64_t bytes_ = 0;  // Of those that were added.
};

// The lines of a tensor that begin `at` tight bytes from its start, as many as
// a part has: whole ones, or a piece of one that is longer than a part.
device::LineRange NextPart(const jit::MatrixLayout& layout, int64_t at);
// The tight bytes of a part.
int64_t BytesOf(const jit::MatrixLayout& layout,
                const device::LineRange& lines);

}  // namespace gemmd::models

#endif  // GEMMD_SERVICE_MODELS_COPY_H_
