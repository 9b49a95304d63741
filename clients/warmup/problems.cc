#include "clients/warmup/problems.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/warmup/kernels.h"
#include "clients/warmup/presets.h"
#include "clients/warmup/wire.h"
#include "gemmd/v1/kernels.pb.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"

namespace gemmd::warmup {

const char kProblemFiles[] =
    "Each FILE (or - for standard input) holds one problem per line:\n"
    "\n"
    "  TYPE LAYOUT M N K [d=TYPE] [alpha=X] [beta=X] [order=row|column]\n"
    "  bf16 TN 4096 7168 2304 d=f32\n"
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
    absl::StatusOr<jit::Problem> problem = FromWire(request.problems(i));
    if (!problem.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("problems[", i, "]: ", problem.status().message()));
    }
    problems.push_back(*problem);
  }
  return problems;
}

absl::StatusOr<Problems> ReadOne(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  absl::StatusOr<Problems> problems = absl::EndsWith(file, ".textproto")
                                          ? ParseText(text)
                                          : jit::ParseProblemLines(text);
  if (problems.ok()) return problems;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", problems.status().message()));
}

}  // namespace

FlagSpec PresetFlag() {
  return {
      "preset", "NAMES",
      absl::StrCat("problems of models, separated by commas: ", PresetNames())};
}

absl::StatusOr<Problems> ReadProblems(const Flags& flags) {
  Problems problems;
  const auto add = [&problems](const Problems& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  for (absl::string_view name :
       absl::StrSplit(flags.Get("preset", ""), ',', absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(const Problems more, Preset(name));
    add(more);
  }
  for (const std::string& file : flags.positional()) {
    ASSIGN_OR_RETURN(const Problems more, ReadOne(file));
    add(more);
  }
  if (problems.empty()) {
    return absl::InvalidArgumentError(
        "no problem was given; give a FILE or --preset");
  }
  return problems;
}

}  // namespace gemmd::warmup
