#include "service/models/copy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "jit/base/status.h"
#include "service/models/await.h"

namespace gemmd::models {

static_assert(kPartBytes % device::kLinePartBytes == 0);

device::LineRange NextPart(const jit::MatrixLayout& layout, int64_t at) {
  const int64_t width = layout.width_bytes();
  const int64_t line = at / width;
  if (width <= kPartBytes) {
    return {line, std::min(kPartBytes / width, layout.lines() - line)};
  }
  const int64_t first_byte = at % width;
  return {line, 1, first_byte, std::min(kPartBytes, width - first_byte)};
}

int64_t BytesOf(const jit::MatrixLayout& layout,
                const device::LineRange& lines) {
  return lines.bytes > 0 ? lines.bytes : lines.count * layout.width_bytes();
}

absl::Status Fetch(
    engine::Engine& engine, const std::shared_ptr<engine::Tensor>& tensor,
    const engine::RequestContext& context,
    absl::FunctionRef<absl::Status(absl::Span<const char>)> take) {
  const jit::MatrixLayout layout = tensor->layout();
  std::optional<int64_t> version;
  for (int64_t at = 0; at < TightBytes(layout);) {
    const device::LineRange lines = NextPart(layout, at);
    ASSIGN_OR_RETURN(
        const engine::TensorPart part,
        Await<engine::TensorPart>([&](engine::Done<engine::TensorPart> done) {
          engine.Download(tensor, lines, layout.width_bytes(), context,
                          std::move(done));
        }));
    if (version.value_or(part.version) != part.version) {
      return absl::AbortedError("the tensor was overwritten meanwhile");
    }
    version = part.version;
    RETURN_IF_ERROR(take(part.bytes->bytes()));
    at += BytesOf(layout, lines);
  }
  return absl::OkStatus();
}

Filler::Filler(engine::Engine& engine, const jit::MatrixLayout& layout,
               std::shared_ptr<engine::TensorUpload> upload,
               engine::RequestContext context)
    : engine_(engine),
      layout_(layout),
      upload_(std::move(upload)),
      context_(std::move(context)) {}

absl::StatusOr<Filler> Filler::Begin(
    engine::Engine& engine, const std::shared_ptr<engine::Tensor>& tensor,
    const engine::RequestContext& context) {
  ASSIGN_OR_RETURN(auto upload, engine.BeginUpload(tensor, context.identity));
  return Filler(engine, tensor->layout(), std::move(upload), context);
}

absl::Status Filler::Add(absl::Span<const char> part) {
  const device::LineRange lines = NextPart(layout_, bytes_);
  CHECK(BytesOf(layout_, lines) == static_cast<int64_t>(part.size()));
  bytes_ += static_cast<int64_t>(part.size());
  return Await<std::monostate>([&](engine::Done<std::monostate> done) {
           engine_.Upload(
               upload_, {absl::MakeConstSpan(&part, 1), layout_.width_bytes()},
               lines, context_, std::move(done));
         })
      .status();
}

absl::Status Filler::Finish() {
  CHECK(bytes_ == TightBytes(layout_));
  return Await<std::monostate>([&](engine::Done<std::monostate> done) {
           engine_.FinishUpload(upload_, context_, std::move(done));
         })
      .status();
}

}  // namespace gemmd::models
