#include "clients/warmup/problems.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "clients/warmup/kernels.h"
#include "clients/warmup/presets.h"
#include "gemmd/v1/kernels.pb.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"
#include "proto/convert/problem.h"

namespace gemmd::warmup {

const char kProblemFiles[] =
    "Each FILE (or - for standard input) holds one problem per line:\n"
    "\n"
    "  TYPE LAYOUT M N K [OPTION]...\n"
    "  bf16 TN 4096 7168 2304 d=f32\n"
    "\n"
    "TYPE is a name of gemmctl capabilities, such as bf16, tf32, e5m2-e4m3 or\n"
    "s8-clamp. OPTION: d=TYPE, c=TYPE, alpha=X, beta=X, order=row|column,\n"
    "batch=N, broadcast=a|b|ab, precision=default|tf32|fast, acc=f32|f16|s32,\n"
    "saturate, op=and|xor, bias=row|column, a_scale=tensor|row|block,\n"
    "b_scale=tensor|column|block, act=relu|gelu|gelu_tanh|silu, d_scale, aux,\n"
    "amax, invariant.\n"
    "\n"
    "LAYOUT has the letters of column-major BLAS: first A (N: m x k stored\n"
    "column-major, T: row-major), then B (N: k x n column-major, T:\n"
    "row-major). D is column-major unless order=row; # starts a comment.\n"
    "A daemon writes such a file with --record-problems. A FILE whose name\n"
    "ends with .textproto is a gemmd.v1.PrepareKernelsRequest in protobuf's\n"
    "text format.\n";

namespace {

using Problems = std::vector<jit::Problem>;

// Keeps the first error.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) {
      text_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ",
                           message);
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::StatusOr<Problems> ParseText(const std::string& text) {
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  v1::PrepareKernelsRequest request;
  if (!parser.ParseFromString(text, &request)) {
    return absl::InvalidArgumentError(error.text());
  }
  Problems problems;
  for (int i = 0; i < request.problems_size(); ++i) {
    absl::StatusOr<jit::Problem> problem =
        convert::ToProblem(request.problems(i));
    if (!problem.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("problems[", i, "]: ", problem.status().message()));
    }
    problems.push_back(*problem);
  }
  return problems;
}

absl::Status NothingGiven() {
  return absl::InvalidArgumentError(
      "no problem was given; give a FILE or --preset");
}

// Without a last line that has no end and cannot be read.
absl::StatusOr<Problems> ParseLines(const std::string& file,
                                    const std::string& text) {
  absl::StatusOr<Problems> problems = jit::ParseProblemLines(text);
  const size_t last = text.rfind('\n') + 1;  // 0 where there is one line.
  if (problems.ok() || last == text.size()) return problems;
  const absl::StatusOr<Problems> whole =
      jit::ParseProblemLines(text.substr(0, last));
  if (!whole.ok() || whole->empty()) return problems;
  absl::FPrintF(stderr, "%s: left out, because its end is missing: %s\n", file,
                problems.status().message());
  return whole;
}

absl::StatusOr<Problems> ReadOne(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  absl::StatusOr<Problems> problems = absl::EndsWith(file, ".textproto")
                                          ? ParseText(text)
                                          : ParseLines(file, text);
  if (problems.ok()) return problems;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", problems.status().message()));
}

}  // namespace

absl::Status CheckProblemsGiven(const Flags& flags) {
  const bool given = !flags.positional().empty() || flags.Has("preset");
  return given ? absl::OkStatus() : NothingGiven();
}

FlagSpec PresetFlag() {
  return {
      "preset", "NAMES",
      absl::StrCat("problems of models, separated by commas: ", PresetNames())};
}

absl::StatusOr<Problems> ReadProblems(
    const Flags& flags, const std::vector<jit::DeviceProperties>& devices) {
  Problems problems;
  const auto add = [&problems](const Problems& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  for (absl::string_view name :
       absl::StrSplit(flags.Get("preset", ""), ',', absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(const Problems more, Preset(name, devices));
    add(more);
  }
  for (const std::string& file : flags.positional()) {
    ASSIGN_OR_RETURN(const Problems more, ReadOne(file));
    add(more);
  }
  if (problems.empty()) return NothingGiven();
  return problems;
}

}  // namespace gemmd::warmup
