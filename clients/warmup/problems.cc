#include "clients/warmup/problems.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "clients/warmup/kernels.h"
#include "clients/warmup/presets.h"
#include "gemmd/v1/kernels.pb.h"
#include "jit/base/status.h"
#include "jit/base/text.h"
#include "proto/convert/problem.h"

namespace gemmd::warmup {

const char kProblemFiles[] =
    "Each FILE (or - for standard input) holds a problem or a group per "
    "line:\n"
    "\n"
    "  TYPE LAYOUT M N K [OPTION]...\n"
    "  bf16 TN 4096 7168 2304 d=f32\n"
    "  TYPE LAYOUT M N K [OPTION]... ; SIZE[+SIZE]...\n"
    "  bf16 TN 1 768 2048 order=row ; 13+0+12*30\n"
    "\n"
    "TYPE is a name of gemmctl capabilities, such as bf16, tf32, e5m2-e4m3 or\n"
    "s8-clamp. OPTION: d=TYPE, c=TYPE, alpha=X, beta=X, order=row|column,\n"
    "batch=N, broadcast=a|b|ab|none, precision=default|tf32|fast, "
    "acc=f32|f16|s32,\n"
    "group=32|64|128|k, zero_points, saturate, op=and|xor, bias=row|column,\n"
    "a_scale=tensor|row|block, b_scale=tensor|column|block,\n"
    "act=relu|gelu|gelu_tanh|silu, d_scale, aux, amax, invariant.\n"
    "\n"
    "LAYOUT has the letters of column-major BLAS: first A (N: m x k stored\n"
    "column-major, T: row-major), then B (N: k x n column-major, T:\n"
    "row-major). D is column-major unless order=row; # starts a comment.\n"
    "\n"
    "A group is one call of MatmulGrouped, such as that of the experts of a\n"
    "mixture. SIZE is a product's M, or its MxNxK; *COUNT stands for that "
    "many\n"
    "of a size, and batch=N or broadcast=a|b|ab|none may follow where they "
    "are\n"
    "not the line's. One kernel makes all of them, where that pays.\n"
    "\n"
    "A daemon writes such a file with --record-problems. A FILE whose name\n"
    "ends with .textproto is a gemmd.v1.PrepareKernelsRequest in protobuf's\n"
    "text format.\n\n";

namespace {

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

absl::StatusOr<std::vector<jit::Problem>> ToProblems(
    const google::protobuf::RepeatedPtrField<v1::Problem>& wire) {
  std::vector<jit::Problem> problems;
  for (int i = 0; i < wire.size(); ++i) {
    absl::StatusOr<jit::Problem> problem = convert::ToProblem(wire[i]);
    if (!problem.ok()) return jit::OfElement("problems", i, problem.status());
    problems.push_back(*problem);
  }
  return problems;
}

absl::StatusOr<jit::ProblemList> ParseText(const std::string& text) {
  google::protobuf::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  v1::PrepareKernelsRequest request;
  if (!parser.ParseFromString(text, &request)) {
    return absl::InvalidArgumentError(error.text());
  }
  jit::ProblemList list;
  ASSIGN_OR_RETURN(list.problems, ToProblems(request.problems()));
  for (int i = 0; i < request.groups_size(); ++i) {
    auto group = ToProblems(request.groups(i).problems());
    if (!group.ok()) return jit::OfElement("groups", i, group.status());
    list.groups.push_back(*std::move(group));
  }
  return list;
}

absl::StatusOr<int64_t> TokensOf(const Flags& flags) {
  return flags.GetInt("preset_tokens", kPresetTokens, 1, kMaxPresetTokens);
}

std::vector<std::string> PresetsOf(const Flags& flags) {
  return absl::StrSplit(flags.Get("preset", ""), ',', absl::SkipEmpty());
}

absl::Status NothingGiven() {
  return absl::InvalidArgumentError(
      "no problem was given; give a FILE or --preset");
}

// Without a last line that has no end and cannot be read, and without zeros
// behind it: what a crash leaves.
absl::StatusOr<jit::ProblemList> ParseLines(const std::string& file,
                                            absl::string_view text) {
  text = jit::WithoutZerosAtEnd(text);
  absl::StatusOr<jit::ProblemList> list = jit::ParseProblemList(text);
  const size_t last = text.rfind('\n') + 1;  // 0 where there is one line.
  if (list.ok() || last == text.size()) return list;
  const absl::StatusOr<jit::ProblemList> whole =
      jit::ParseProblemList(text.substr(0, last));
  if (!whole.ok() || whole->empty()) return list;
  absl::FPrintF(stderr, "%s: left out, because its end is missing: %s\n", file,
                list.status().message());
  return whole;
}

absl::StatusOr<jit::ProblemList> ReadOne(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  absl::StatusOr<jit::ProblemList> list = absl::EndsWith(file, ".textproto")
                                              ? ParseText(text)
                                              : ParseLines(file, text);
  if (list.ok()) return list;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", list.status().message()));
}

}  // namespace

absl::Status CheckProblemsGiven(const Flags& flags) {
  const bool given = !flags.positional().empty() || flags.Has("preset");
  return given ? absl::OkStatus() : NothingGiven();
}

absl::Status CheckPresets(const Flags& flags) {
  RETURN_IF_ERROR(TokensOf(flags).status());
  for (const std::string& name : PresetsOf(flags)) {
    RETURN_IF_ERROR(FindModel(name).status());
  }
  return absl::OkStatus();
}

FlagSpec PresetFlag() {
  return {
      "preset", "NAMES",
      absl::StrCat("problems of models, separated by commas: ", PresetNames())};
}

FlagSpec PresetTokensFlag() {
  return {"preset_tokens", "N",
          absl::StrCat("tokens that a request of a preset has at most, up to ",
                       kMaxPresetTokens, ". Default: ", kPresetTokens)};
}

absl::StatusOr<jit::ProblemList> ReadProblems(
    const Flags& flags, const std::vector<jit::DeviceProperties>& devices) {
  PresetOptions options = {.devices = devices,
                           .threads = std::thread::hardware_concurrency()};
  ASSIGN_OR_RETURN(options.tokens, TokensOf(flags));
  jit::ProblemList list;
  for (const std::string& name : PresetsOf(flags)) {
    ASSIGN_OR_RETURN(const jit::ProblemList more, Preset(name, options));
    list.Add(more);
  }
  for (const std::string& file : flags.positional()) {
    ASSIGN_OR_RETURN(const jit::ProblemList more, ReadOne(file));
    list.Add(more);
  }
  if (list.empty()) return NothingGiven();
  return list;
}

std::string CountText(const jit::ProblemList& list) {
  const size_t problems = list.problems.size();
  const size_t groups = list.groups.size();
  const std::string of_groups = absl::StrCat(groups, " groups");
  if (groups == 0) return absl::StrCat(problems, " problems");
  if (problems == 0) return of_groups;
  return absl::StrCat(problems, " problems and ", of_groups);
}

}  // namespace gemmd::warmup
