#include "tests/bench/wire/way.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"
#include "proto/convert/problem.h"

namespace gemmd::wire {
namespace {

constexpr const char* kNames[] = {"upload", "download", "stream", "inline"};

int64_t SizeOf(const jit::MatrixLayout& layout) {
  return layout.lines() * layout.width_bytes();
}

}  // namespace

const char* NameOf(Way way) { return kNames[static_cast<int>(way)]; }

absl::StatusOr<Way> ParseWay(const std::string& name) {
  for (const Way way :
       {Way::kUpload, Way::kDownload, Way::kStream, Way::kInline}) {
    if (name == NameOf(way)) return way;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--ways has \"", name, "\"; allowed: upload, download, stream, inline"));
}

int64_t Load::sent_bytes(Way way) const {
  if (way == Way::kUpload) return tensor_bytes;
  return way == Way::kDownload ? 0 : a_bytes + b_bytes;
}

int64_t Load::returned_bytes(Way way) const {
  if (way == Way::kDownload) return tensor_bytes;
  return way == Way::kUpload ? 0 : d_bytes;
}

absl::StatusOr<Load> MakeLoad(int64_t tensor_bytes, const std::string& line,
                              const std::string& device) {
  if (tensor_bytes <= 0 || tensor_bytes % kLineBytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tensor_bytes is ", tensor_bytes,
                     "; allowed: multiples of ", kLineBytes, " from it on"));
  }
  ASSIGN_OR_RETURN(const jit::Problem problem, jit::ParseProblemLine(line));
  const bool plain = problem.alpha != 0 && !problem.reads_c() &&
                     !problem.a_broadcast && !problem.b_broadcast &&
                     problem.epilogue == jit::Epilogue();
  if (!plain || problem.d().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--product is \"", line,
                     "\"; allowed: A times B alone, without broadcast"));
  }
  return Load{.tensor_bytes = tensor_bytes,
              .line = line,
              .problem = convert::ToWire(problem),
              .a_bytes = SizeOf(problem.a()),
              .b_bytes = SizeOf(problem.b()),
              .d_bytes = SizeOf(problem.d()),
              .device = device};
}

}  // namespace gemmd::wire
