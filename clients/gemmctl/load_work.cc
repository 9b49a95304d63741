#include "clients/gemmctl/load_work.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "clients/gemmctl/convert.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

constexpr const char* kWays[] = {"inline",  "stream",   "resident", "shared",
                                 "striped", "sequence", "encoded",  "weights"};
// Of what lies in shared memory, as that of the device is aligned.
constexpr int64_t kAlignmentBytes = 256;

int64_t SizeOf(const jit::MatrixLayout& layout) {
  return layout.lines() * layout.width_bytes();
}

// Eight elements, one after the other, that every type has.
std::string Alphabet(jit::DataType type) {
  constexpr float kValues[] = {0, 1, 2, 3, 0.5, 1, 2, 4};
  Matrix matrix = {v1::DATA_TYPE_F32, v1::ORDER_ROW_MAJOR, 1, 8, {}, {}};
  matrix.bytes.assign(reinterpret_cast<const char*>(kValues), sizeof kValues);
  absl::StatusOr<Matrix> converted = Convert(matrix, convert::ToWire(type));
  // Integers have no conversion: any bytes will do.
  return converted.ok() ? std::move(converted->bytes)
                        : std::string("\0\1\2\3\0\1\2\3", 8);
}

// Metadata of any places, legal for every type.
void PutMetadata(const jit::MatrixLayout& layout, std::minstd_rand& random,
                 std::string& bytes) {
  constexpr absl::string_view kLegal = "\x44\x4e\xe4\xee";
  for (int64_t line = 0; line < layout.lines(); ++line) {
    char* const metadata =
        bytes.data() + line * layout.width_bytes() + layout.values_bytes();
    for (int64_t i = 0; i < layout.metadata_bytes(); ++i) {
      metadata[i] = kLegal[(random() >> 8) % kLegal.size()];
    }
  }
}

std::string RandomElements(const jit::MatrixLayout& layout, unsigned seed) {
  std::string bytes(SizeOf(layout), '\0');
  const std::string alphabet = Alphabet(layout.type);
  const size_t size = alphabet.size() / 8;
  std::minstd_rand random(seed);
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    std::memcpy(bytes.data() + at, alphabet.data() + (random() >> 8) % 8 * size,
                size);
  }
  if (layout.sparse) PutMetadata(layout, random, bytes);
  return bytes;
}

v1::Layout Tight(const jit::MatrixLayout& layout) {
  v1::Layout wire;
  wire.set_order(convert::ToWire(layout.order));
  return wire;
}

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

absl::StatusOr<std::string> MakeTensor(client::Client& client,
                                       const jit::MatrixLayout& layout,
                                       const std::string& device) {
  v1::CreateTensorRequest request;
  request.set_dtype(convert::ToWire(layout.type));
  request.set_rows(layout.rows);
  request.set_columns(layout.columns);
  request.set_count(layout.count);
  request.set_order(convert::ToWire(layout.order));
  request.set_sparsity(convert::SparsityOf(layout.sparse));
  if (layout.quantization.group != 0) {
    *request.mutable_quantization() = convert::ToWire(layout.quantization);
  }
  request.set_device(device);
  request.set_label("gemmctl load");
  request.set_lifetime(v1::CreateTensorRequest::LIFETIME_CONNECTION);
  ASSIGN_OR_RETURN(const v1::TensorInfo info, client.CreateTensor(request));
  return info.handle();
}

}  // namespace

absl::StatusOr<Way> ParseWay(const std::string& name) {
  for (int i = 0; i < std::ssize(kWays); ++i) {
    if (name == kWays[i]) return static_cast<Way>(i);
  }
  return absl::InvalidArgumentError(
      "inline, stream, resident, shared, striped, sequence, encoded or "
      "weights");
}

absl::StatusOr<Asked> ParseWork(const std::string& line, Way way) {
  Asked asked = {.grouped = line.find(';') != line.npos, .way = way};
  if (!asked.grouped) {
    ASSIGN_OR_RETURN(asked.problems.emplace_back(),
                     jit::ParseProblemLine(line));
  } else {
    ASSIGN_OR_RETURN(asked.problems, jit::ParseGroupLine(line));
  }
  for (const jit::Problem& problem : asked.problems) {
    if (way == Way::kShared && (problem.a().sparse || problem.b().sparse)) {
      return absl::InvalidArgumentError(
          "--ways is shared, but an operand is sparse; allowed: inline, "
          "stream, resident, striped, sequence, encoded, weights");
    }
  }
  const bool takes_groups = way == Way::kInline || way == Way::kResident ||
                            way == Way::kShared || way == Way::kWeights;
  if (!asked.grouped || takes_groups) return asked;
  return absl::InvalidArgumentError(absl::StrCat(
      "--ways is ", kWays[static_cast<int>(way)],
      ", but a group is one call of one message; allowed: inline, resident, "
      "shared, weights"));
}

Work::Work(const Asked& asked)
    : grouped_(asked.grouped),
      way_(asked.way),
      stripes_(asked.stripes),
      steps_(IsSequence(asked.way) ? asked.steps : 1),
      device_(asked.device),
      name_(absl::StrCat(asked.grouped ? jit::GroupLine(asked.problems)
                                       : jit::ProblemLine(asked.problems[0]),
                         " ", kWays[static_cast<int>(asked.way)])) {
  for (const jit::Problem& problem : asked.problems) {
    members_.push_back(MemberOf(problem));
  }
}

Work::Member Work::MemberOf(const jit::Problem& problem) {
  Member member = {problem, {}};
  const auto add = [&](client::Operand client::Product::*operand,
                       const jit::MatrixLayout& layout) {
    if (!layout.empty()) member.inputs.push_back({operand, layout, {}, {}, 0});
  };
  if (problem.reads_ab()) {
    add(&client::Product::a, problem.a());
    add(&client::Product::b, problem.b());
    add(&client::Product::a_scale, problem.a_scale());
    add(&client::Product::b_scale, problem.b_scale());
  }
  if (problem.reads_c()) add(&client::Product::c, problem.c());
  add(&client::Product::bias, problem.bias());
  add(&client::Product::d_scale, problem.d_scale());
  return member;
}

absl::StatusOr<std::unique_ptr<Work>> Work::Create(client::Client& client,
                                                   const Asked& asked,
                                                   int workers) {
  std::unique_ptr<Work> work(new Work(asked));
  unsigned seed = 1;
  for (Member& member : work->members_) {
    for (Input& input : member.inputs) {
      input.bytes = RandomElements(input.layout, seed++);
      if (!work->IsTensor(input)) continue;
      ASSIGN_OR_RETURN(input.tensor,
                       MakeTensor(client, input.layout, asked.device));
      RETURN_IF_ERROR(
          client.UploadTensor(input.tensor, Tight(input.layout), input.bytes));
      input.bytes.clear();
    }
  }
  if (asked.way == Way::kShared) {
    RETURN_IF_ERROR(work->Share(client, workers));
  }
  return work;
}

absl::Status Work::Share(client::Client& client, int workers) {
  for (Member& member : members_) {
    for (Input& input : member.inputs) {
      input.offset = std::exchange(
          results_offset_, results_offset_ + Aligned(SizeOf(input.layout)));
    }
  }
  ASSIGN_OR_RETURN(memory_,
                   client.Share(std::max<int64_t>(
                       1, results_offset_ + workers * result_bytes())));
  for (Member& member : members_) {
    for (Input& input : member.inputs) {
      absl::c_copy(input.bytes, memory_->bytes().begin() + input.offset);
      input.bytes.clear();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Work::Request>> Work::MakeRequest(
    client::Client& client, int worker) const {
  auto request = std::make_unique<Request>();
  request->grouped = grouped_;
  int64_t offset = results_offset_ + worker * result_bytes();
  const auto place = [&](int64_t bytes) {
    if (way_ == Way::kShared) {
      return client::Destination::Shared(
          *memory_, std::exchange(offset, offset + Aligned(bytes)));
    }
    std::string& own = request->results.emplace_back(bytes, '\0');
    return client::Destination::Bytes(absl::MakeSpan(own.data(), own.size()));
  };
  for (const Member& member : members_) {
    ASSIGN_OR_RETURN(request->products.emplace_back(),
                     MakeProduct(client, member, place));
  }
  if (!IsSequence(way_)) return request;
  client::Product step = std::move(request->products[0]);
  step.device.clear();
  client::Sequence sequence = {.steps = std::vector(steps_, step),
                               .device = device_};
  if (way_ == Way::kSequence) {
    request->sequence = std::move(sequence);
  } else {
    request->encoded.emplace(std::move(sequence));
  }
  return request;
}

absl::StatusOr<client::Product> Work::MakeProduct(client::Client& client,
                                                  const Member& member,
                                                  Place place) const {
  const jit::Problem& problem = member.problem;
  client::Product product;
  product.problem = convert::ToWire(problem);
  product.device = device_;
  product.stream_bytes =
      way_ == Way::kStream ? 0 : std::numeric_limits<uint64_t>::max();
  product.striping = {.connections = 1};
  if (way_ == Way::kStriped) {
    product.striping = {.connections = stripes_, .least_bytes = 0};
  }
  for (const Input& input : member.inputs) {
    client::Operand& operand = product.*input.operand;
    if (way_ == Way::kShared) {
      operand = client::Operand::Shared(*memory_, input.offset);
    } else if (!input.tensor.empty()) {
      operand = client::Operand::Tensor(input.tensor);
    } else {
      operand = client::Operand::Bytes(input.bytes);
    }
  }
  if (problem.a_broadcast) product.a.batch_stride = 0;
  if (problem.b_broadcast) product.b.batch_stride = 0;
  const jit::MatrixLayout layout = problem.d();
  if (layout.empty()) return product;
  const auto make_destination = [&]() -> absl::StatusOr<client::Destination> {
    if (!has_tensors()) return place(SizeOf(layout));
    // Of the worker's own: products that write one tensor wait for each other.
    ASSIGN_OR_RETURN(std::string tensor, MakeTensor(client, layout, device_));
    return client::Destination::Tensor(std::move(tensor));
  };
  ASSIGN_OR_RETURN(product.d, make_destination());
  if (problem.epilogue.writes_auxiliary) {
    ASSIGN_OR_RETURN(product.auxiliary, make_destination());
  }
  return product;
}

absl::StatusOr<v1::Execution> Work::Request::Send(client::Client& client,
                                                  absl::Duration timeout) {
  if (sequence || encoded) {
    if (sequence) sequence->timeout = timeout;
    ASSIGN_OR_RETURN(
        client::SequenceResult result,
        sequence ? client.Run(*sequence) : client.Run(*encoded, timeout));
    v1::Execution execution = result.execution(0);
    *execution.mutable_phases() = std::move(result.phases);
    return execution;
  }
  if (grouped) {
    ASSIGN_OR_RETURN(const std::vector<client::Result> results,
                     client.MatmulGrouped(products, timeout));
    return results[0].execution;
  }
  products[0].timeout = timeout;
  ASSIGN_OR_RETURN(client::Result result, client.Matmul(products[0]));
  return std::move(result.execution);
}

bool Work::has_tensors() const {
  return way_ == Way::kResident || IsSequence(way_);
}

bool Work::IsTensor(const Input& input) const {
  const bool weights = input.operand == &client::Product::b ||
                       input.operand == &client::Product::b_scale;
  return has_tensors() || (way_ == Way::kWeights && weights);
}

int64_t Work::products() const {
  return static_cast<int64_t>(members_.size()) * steps_;
}

double Work::operations() const {
  double sum = 0;
  for (const auto& [problem, inputs] : members_) {
    sum += 2.0 * static_cast<double>(problem.batch) *
           static_cast<double>(problem.m) * static_cast<double>(problem.n) *
           static_cast<double>(problem.k);
  }
  return sum * steps_;
}

int64_t Work::sent_bytes() const {
  int64_t sum = 0;
  for (const Member& member : members_) {
    for (const Input& input : member.inputs) sum += input.bytes.size();
  }
  return sum;
}

int64_t Work::result_bytes() const {
  int64_t sum = 0;
  for (const auto& [problem, inputs] : members_) {
    sum +=
        Aligned(SizeOf(problem.d())) * (1 + problem.epilogue.writes_auxiliary);
  }
  return sum;
}

int64_t Work::returned_bytes() const {
  if (way_ == Way::kShared || has_tensors()) return 0;
  int64_t sum = 0;
  for (const auto& [problem, inputs] : members_) {
    sum += SizeOf(problem.d()) * (1 + problem.epilogue.writes_auxiliary);
  }
  return sum;
}

}  // namespace gemmd::gemmctl
