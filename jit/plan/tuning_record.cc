#include "jit/plan/tuning_record.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/frame.h"
#include "jit/base/record.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

constexpr FrameKind kKind = {.magic = "GEMMDTUN", .format = 2};

// Numbers are forever: a retired one is never given to another field.
enum Tag : uint32_t {
  kProblemClass = 1,
  kDevice = 2,
  kTemplateDigest = 3,
  kKernel = 4,
  kExchanged = 5,
  kSplits = 6,
  kRasterGroup = 7,
  kNanoseconds = 8,
  kProvenance = 9,
  kPredictedNanoseconds = 10,
  kGeneration = 11,
};

absl::Status GetString(const Record& record, Tag tag, std::string& to) {
  ASSIGN_OR_RETURN(const absl::string_view value, record.Get(tag));
  to.assign(value.data(), value.size());
  return absl::OkStatus();
}

absl::Status GetInt(const Record& record, Tag tag, int least, int& to) {
  ASSIGN_OR_RETURN(const int64_t value, record.GetInt(tag));
  if (value < least || value > std::numeric_limits<int>::max()) {
    return absl::DataLossError(
        absl::StrCat("field of tag ", tag, " is out of range"));
  }
  to = static_cast<int>(value);
  return absl::OkStatus();
}

}  // namespace

std::string ProblemClass(const Problem& problem) {
  Problem member = Folded(problem);
  if (!problem.reads_ab()) {
    member.alpha = 0;
  } else if (problem.alpha != 1) {
    member.alpha = 2;
  }
  member.beta = problem.reads_c() ? 1 : 0;
  member.a_broadcast = member.b_broadcast = false;
  return ProblemLine(member);
}

std::string TuningKey(absl::string_view problem_class, absl::string_view device,
                      absl::string_view template_digest) {
  Sha256 sha256;
  sha256.UpdateField("gemmd tuning 2");
  sha256.UpdateField(problem_class);
  sha256.UpdateField(device);
  sha256.UpdateField(template_digest);
  return sha256.Hex();
}

std::string EncodeTuningRecord(const TuningRecord& record) {
  RecordWriter writer;
  writer.Add(kProblemClass, record.problem_class);
  writer.Add(kDevice, record.device);
  writer.Add(kTemplateDigest, record.template_digest);
  writer.Add(kKernel, record.kernel);
  writer.AddInt(kExchanged, record.exchanged ? 1 : 0);
  writer.AddInt(kSplits, record.splits);
  writer.AddInt(kRasterGroup, record.raster_group);
  writer.AddInt(kNanoseconds, record.nanoseconds);
  writer.Add(kProvenance, record.provenance);
  writer.AddInt(kPredictedNanoseconds, record.predicted_nanoseconds);
  writer.AddInt(kGeneration, record.generation);
  return Frame(kKind, std::move(writer).Release());
}

absl::StatusOr<TuningRecord> DecodeTuningRecord(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const absl::string_view body, Unframe(kKind, bytes));
  ASSIGN_OR_RETURN(const Record fields, Record::Parse(body));
  TuningRecord record;
  RETURN_IF_ERROR(GetString(fields, kProblemClass, record.problem_class));
  RETURN_IF_ERROR(GetString(fields, kDevice, record.device));
  RETURN_IF_ERROR(GetString(fields, kTemplateDigest, record.template_digest));
  RETURN_IF_ERROR(GetString(fields, kKernel, record.kernel));
  ASSIGN_OR_RETURN(const int64_t exchanged, fields.GetInt(kExchanged));
  record.exchanged = exchanged != 0;
  RETURN_IF_ERROR(GetInt(fields, kSplits, 1, record.splits));
  RETURN_IF_ERROR(GetInt(fields, kRasterGroup, 1, record.raster_group));
  ASSIGN_OR_RETURN(record.nanoseconds, fields.GetInt(kNanoseconds));
  RETURN_IF_ERROR(GetString(fields, kProvenance, record.provenance));
  ASSIGN_OR_RETURN(record.predicted_nanoseconds,
                   fields.GetInt(kPredictedNanoseconds));
  RETURN_IF_ERROR(GetInt(fields, kGeneration, 0, record.generation));
  return record;
}

}  // namespace gemmd::jit
