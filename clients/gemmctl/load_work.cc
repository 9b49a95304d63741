#include "clients/gemmctl/load_work.h"

#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/convert.h"
#include "jit/base/status.h"
#include "jit/problem/problem_line.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

constexpr const char* kWays[] = {"inline", "stream", "resident", "shared"};

// As memory of the device is aligned.
int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

int64_t BytesOf(const jit::MatrixLayout& layout) {
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
  std::string bytes(BytesOf(layout), '\0');
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

absl::StatusOr<std::string> MakeTensor(client::Client& client,
                                       const jit::MatrixLayout& layout) {
  v1::CreateTensorRequest request;
  request.set_dtype(convert::ToWire(layout.type));
  request.set_rows(layout.rows);
  request.set_columns(layout.columns);
  request.set_count(layout.count);
  request.set_order(convert::ToWire(layout.order));
  request.set_sparsity(convert::SparsityOf(layout.sparse));
  request.set_label("gemmctl load");
  request.set_lifetime(v1::CreateTensorRequest::LIFETIME_CONNECTION);
  ASSIGN_OR_RETURN(const v1::TensorInfo info, client.CreateTensor(request));
  return info.handle();
}

}  // namespace

absl::StatusOr<Way> ParseWay(const std::string& name) {
  for (size_t i = 0; i < std::size(kWays); ++i) {
    if (name == kWays[i]) return static_cast<Way>(i);
  }
  return absl::InvalidArgumentError("inline, stream, resident or shared");
}

absl::StatusOr<Asked> ParseWork(const std::string& line, Way way) {
  Asked asked = {.grouped = line.find(';') != line.npos, .way = way};
  if (!asked.grouped) {
    ASSIGN_OR_RETURN(asked.problems.emplace_back(),
                     jit::ParseProblemLine(line));
    return asked;
  }
  ASSIGN_OR_RETURN(asked.problems, jit::ParseGroupLine(line));
  if (way != Way::kStream) return asked;
  return absl::InvalidArgumentError(
      "--ways is stream, but a group travels in one message; allowed: inline, "
      "resident, shared");
}

Work::Work(const Asked& asked)
    : grouped_(asked.grouped),
      way_(asked.way),
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
    if (!layout.empty()) member.inputs.push_back({operand, layout, {}, {}});
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
                                                   const Asked& asked) {
  std::unique_ptr<Work> work(new Work(asked));
  unsigned seed = 1;
  for (Member& member : work->members_) {
    for (Input& input : member.inputs) {
      input.bytes = RandomElements(input.layout, seed++);
      if (asked.way != Way::kResident) continue;
      ASSIGN_OR_RETURN(input.tensor, MakeTensor(client, input.layout));
      RETURN_IF_ERROR(
          client.UploadTensor(input.tensor, Tight(input.layout), input.bytes));
      input.bytes.clear();
    }
  }
  if (asked.way == Way::kShared) RETURN_IF_ERROR(work->ShareInputs(client));
  return work;
}

absl::Status Work::ShareInputs(client::Client& client) {
  int64_t size = 0;
  for (Member& member : members_) {
    for (Input& input : member.inputs) {
      if (input.layout.sparse) {
        return absl::InvalidArgumentError(
            "--ways is shared, but sparse operands are not read from shared "
            "memory; allowed: inline, stream, resident");
      }
      input.offset = size;
      size += Aligned(std::ssize(input.bytes));
    }
  }
  if (size == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(memory_, client.Share(size));
  for (Member& member : members_) {
    for (Input& input : member.inputs) {
      input.bytes.copy(memory_->bytes().data() + input.offset,
                       input.bytes.size());
      input.bytes.clear();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Work::Request>> Work::MakeRequest(
    client::Client& client) const {
  auto request = std::make_unique<Request>();
  request->grouped = grouped_;
  int64_t shared_bytes = 0;
  for (const auto& [problem, inputs] : members_) {
    shared_bytes +=
        Aligned(BytesOf(problem.d())) * (1 + problem.epilogue.writes_auxiliary);
  }
  if (way_ == Way::kShared && shared_bytes > 0) {
    ASSIGN_OR_RETURN(request->memory, client.Share(shared_bytes));
  }
  for (const Member& member : members_) {
    ASSIGN_OR_RETURN(request->products.emplace_back(),
                     MakeProduct(client, member, *request));
  }
  return request;
}

absl::StatusOr<client::Product> Work::MakeProduct(client::Client& client,
                                                  const Member& member,
                                                  Request& request) const {
  const jit::Problem& problem = member.problem;
  client::Product product;
  product.problem = convert::ToWire(problem);
  product.stream_bytes =
      way_ == Way::kStream ? 0 : std::numeric_limits<uint64_t>::max();
  for (const Input& input : member.inputs) {
    client::Operand& operand = product.*input.operand;
    if (!input.tensor.empty()) {
      operand = client::Operand::Tensor(input.tensor);
    } else if (memory_ != nullptr) {
      operand = client::Operand::Shared(*memory_, input.offset);
    } else {
      operand = client::Operand::Bytes(input.bytes);
    }
  }
  if (problem.a_broadcast) product.a.batch_stride = 0;
  if (problem.b_broadcast) product.b.batch_stride = 0;
  const jit::MatrixLayout layout = problem.d();
  if (layout.empty()) return product;
  const auto place = [&] {
    if (request.memory != nullptr) {
      const int64_t offset = request.placed_bytes;
      request.placed_bytes += Aligned(BytesOf(layout));
      return client::Destination::Shared(*request.memory, offset);
    }
    std::string& bytes = request.results.emplace_back(BytesOf(layout), '\0');
    return client::Destination::Bytes(
        absl::MakeSpan(bytes.data(), bytes.size()));
  };
  if (way_ == Way::kResident) {
    // Of the worker's own: products that write one tensor wait for each other.
    ASSIGN_OR_RETURN(std::string tensor, MakeTensor(client, layout));
    product.d = client::Destination::Tensor(std::move(tensor));
  } else {
    product.d = place();
  }
  if (problem.epilogue.writes_auxiliary) product.auxiliary = place();
  return product;
}

absl::StatusOr<v1::Execution> Work::Request::Send(client::Client& client,
                                                  absl::Duration timeout) {
  if (grouped) {
    ASSIGN_OR_RETURN(const std::vector<client::Result> results,
                     client.MatmulGrouped(products, timeout));
    return results[0].execution;
  }
  products[0].timeout = timeout;
  ASSIGN_OR_RETURN(client::Result result, client.Matmul(products[0]));
  return std::move(result.execution);
}

double Work::operations() const {
  double sum = 0;
  for (const auto& [problem, inputs] : members_) {
    sum += 2.0 * static_cast<double>(problem.batch) *
           static_cast<double>(problem.m) * static_cast<double>(problem.n) *
           static_cast<double>(problem.k);
  }
  return sum;
}

int64_t Work::sent_bytes() const {
  int64_t sum = 0;
  for (const Member& member : members_) {
    for (const Input& input : member.inputs) sum += input.bytes.size();
  }
  return sum;
}

int64_t Work::returned_bytes() const {
  int64_t sum = 0;
  for (const auto& [problem, inputs] : members_) {
    if (way_ == Way::kShared) continue;
    sum += BytesOf(problem.d()) *
           ((way_ != Way::kResident) + problem.epilogue.writes_auxiliary);
  }
  return sum;
}

}  // namespace gemmd::gemmctl
