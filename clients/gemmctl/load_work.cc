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

constexpr const char* kWays[] = {"inline", "stream", "resident"};

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
  std::string bytes(layout.lines() * layout.width_bytes(), '\0');
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
  for (int i = 0; i < 3; ++i) {
    if (name == kWays[i]) return static_cast<Way>(i);
  }
  return absl::InvalidArgumentError("inline, stream or resident");
}

Work::Work(const jit::Problem& problem, Way way)
    : problem_(problem),
      way_(way),
      name_(absl::StrCat(jit::ProblemLine(problem), " ",
                         kWays[static_cast<int>(way)])) {
  const auto add = [&](client::Operand client::Product::*operand,
                       const jit::MatrixLayout& layout) {
    if (!layout.empty()) inputs_.push_back({operand, layout, {}, {}});
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
}

absl::StatusOr<std::unique_ptr<Work>> Work::Create(client::Client& client,
                                                   const jit::Problem& problem,
                                                   Way way) {
  std::unique_ptr<Work> work(new Work(problem, way));
  unsigned seed = 1;
  for (Input& input : work->inputs_) {
    input.bytes = RandomElements(input.layout, seed++);
    if (way != Way::kResident) continue;
    ASSIGN_OR_RETURN(input.tensor, MakeTensor(client, input.layout));
    RETURN_IF_ERROR(
        client.UploadTensor(input.tensor, Tight(input.layout), input.bytes));
    input.bytes.clear();
  }
  return work;
}

absl::StatusOr<std::unique_ptr<Work::Request>> Work::MakeRequest(
    client::Client& client) const {
  auto request = std::make_unique<Request>();
  client::Product& product = request->product;
  product.problem = convert::ToWire(problem_);
  product.stream_bytes =
      way_ == Way::kStream ? 0 : std::numeric_limits<uint64_t>::max();
  for (const Input& input : inputs_) {
    product.*input.operand = input.tensor.empty()
                                 ? client::Operand::Bytes(input.bytes)
                                 : client::Operand::Tensor(input.tensor);
  }
  if (problem_.a_broadcast) product.a.batch_stride = 0;
  if (problem_.b_broadcast) product.b.batch_stride = 0;
  const jit::MatrixLayout layout = problem_.d();
  if (layout.empty()) return request;
  const auto place = [&](std::string& bytes) {
    bytes.resize(layout.lines() * layout.width_bytes());
    return client::Destination::Bytes(
        absl::MakeSpan(bytes.data(), bytes.size()));
  };
  if (way_ == Way::kResident) {
    // Of the worker's own: products that write one tensor wait for each other.
    ASSIGN_OR_RETURN(std::string tensor, MakeTensor(client, layout));
    product.d = client::Destination::Tensor(std::move(tensor));
  } else {
    product.d = place(request->d);
  }
  if (problem_.epilogue.writes_auxiliary) {
    product.auxiliary = place(request->auxiliary);
  }
  return request;
}

double Work::operations() const {
  return 2.0 * static_cast<double>(problem_.batch) *
         static_cast<double>(problem_.m) * static_cast<double>(problem_.n) *
         static_cast<double>(problem_.k);
}

int64_t Work::sent_bytes() const {
  int64_t sum = 0;
  for (const Input& input : inputs_) sum += input.bytes.size();
  return sum;
}

int64_t Work::returned_bytes() const {
  const jit::MatrixLayout d = problem_.d();
  return d.lines() * d.width_bytes() *
         ((way_ != Way::kResident) + problem_.epilogue.writes_auxiliary);
}

}  // namespace gemmd::gemmctl
