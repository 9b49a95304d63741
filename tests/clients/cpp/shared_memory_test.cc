// Products in memory that is shared with a real daemon: the bits are those of
// products that travel, and whatever goes wrong is told.
#include "clients/cpp/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cpp/client.h"
#include "tests/integration/daemon_process.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::DaemonProcess;
using ::gemmd::testing::TemporaryFolder;
using ::testing::HasSubstr;

constexpr int64_t kBytes = 64 << 10;
// What no product writes.
constexpr char kUntouched = 0x55;

class SharedMemoryTest : public ::testing::Test {
 protected:
  // `flag` is one more of the daemon's.
  std::unique_ptr<Client> Start(const std::string& flag) {
    daemon_.emplace(
        std::vector<std::string>{"--device=host", "--listen=" + target_, flag});
    EXPECT_NE(daemon_->Connect(), nullptr) << daemon_->Log();
    return ConnectTo(target_);
  }

  static std::unique_ptr<Client> ConnectTo(const std::string& target) {
    Options options;
    options.timeout = absl::Seconds(60);
    auto client = Client::Connect(target, options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  const TemporaryFolder folder_;
  const std::string target_ = absl::StrCat("unix:", folder_.path(), "/socket");
  std::optional<DaemonProcess> daemon_;
};

// Puts operands one behind the other, and results behind them.
class Layouter {
 public:
  explicit Layouter(SharedMemory& memory) : memory_(memory) {
    memset(memory.bytes().data(), kUntouched, kBytes);
  }

  int64_t Put(absl::Span<const char> bytes) {
    const int64_t offset = Leave(bytes.size());
    absl::c_copy(bytes, memory_.bytes().begin() + offset);
    return offset;
  }
  int64_t Leave(int64_t bytes) {
    return std::exchange(end_, (end_ + bytes + 15) / 16 * 16);
  }

 private:
  SharedMemory& memory_;
  int64_t end_ = 48;  // Not the first byte, which would hide a lost offset.
};

// 5 x 7 x 16 of a type, in every order, lines of A and of D apart.
struct Case {
  v1::DataType type;
  int64_t element_bytes;
  v1::Order order;
  bool adds;  // C and a bias.
};

constexpr int64_t kM = 5, kN = 7, kK = 16, kPadding = 3;

int64_t BytesOf(int64_t rows, int64_t columns, const Case& c,
                int64_t padding = 0) {
  const bool by_row = c.order == v1::ORDER_ROW_MAJOR;
  const int64_t lines = by_row ? rows : columns;
  const int64_t width = by_row ? columns : rows;
  return ((lines - 1) * (width + padding) + width) * c.element_bytes;
}

// Elements of any bytes whose exponents are small in every type.
std::string Random(int64_t bytes, unsigned seed) {
  std::string random(bytes, '\0');
  std::minstd_rand generator(seed);
  for (char& byte : random) byte = static_cast<char>((generator() >> 8) % 48);
  return random;
}

// The same product twice: sent, and in `memory`.
struct Twins {
  Twins(const Case& c, unsigned seed, Layouter& layouter,
        const SharedMemory& memory)
      : a(Random(BytesOf(kM, kK, c, kPadding), seed)),
        b(Random(BytesOf(kK, kN, c), seed + 1)),
        c(Random(BytesOf(kM, kN, c), seed + 2)),
        bias(Random(kN * 4, seed + 3)),
        d(BytesOf(kM, kN, c, kPadding), '\0') {
    v1::Problem& problem = sent.problem;
    problem.set_m(kM);
    problem.set_n(kN);
    problem.set_k(kK);
    problem.set_a_type(c.type);
    problem.set_b_type(c.type);
    problem.set_a_order(c.order);
    problem.set_b_order(c.order);
    problem.set_d_order(c.order);
    if (c.adds) {
      problem.set_beta(2);
      problem.mutable_epilogue()->set_bias(v1::EXTENT_COLUMN);
    }
    const bool by_row = c.order == v1::ORDER_ROW_MAJOR;
    const int64_t a_lines = (by_row ? kK : kM) + kPadding;
    const int64_t d_lines = (by_row ? kN : kM) + kPadding;
    shared.problem = problem;
    sent.a = Operand::Bytes(a, a_lines);
    sent.b = Operand::Bytes(b);
    sent.c = Operand::Bytes(this->c);
    sent.bias = Operand::Bytes(bias);
    sent.d = Destination::Bytes(absl::MakeSpan(d.data(), d.size()), d_lines);
    shared.a = Operand::Shared(memory, layouter.Put(a), a_lines);
    shared.b = Operand::Shared(memory, layouter.Put(b));
    shared.c = Operand::Shared(memory, layouter.Put(this->c));
    shared.bias = Operand::Shared(memory, layouter.Put(bias));
    d_offset = layouter.Leave(std::ssize(d));
    shared.d = Destination::Shared(memory, d_offset, d_lines);
    line_bytes = d_lines * c.element_bytes;
    width_bytes = line_bytes - kPadding * c.element_bytes;
  }

  // Equal elements, nothing between the lines of the shared one.
  void Compare(SharedMemory& memory) const {
    for (size_t i = 0; i < d.size(); ++i) {
      const bool padding = static_cast<int64_t>(i) % line_bytes >= width_bytes;
      ASSERT_EQ(memory.bytes()[d_offset + i], padding ? kUntouched : d[i]) << i;
    }
    EXPECT_EQ(memory.bytes()[d_offset - 1], kUntouched);
    EXPECT_EQ(memory.bytes()[d_offset + d.size()], kUntouched);
    EXPECT_THAT(d, ::testing::Contains(::testing::Ne('\0')));
  }

  std::string a, b, c, bias, d;
  Product sent, shared;
  int64_t d_offset = 0, line_bytes = 0, width_bytes = 0;
};

constexpr Case kCases[] = {
    {v1::DATA_TYPE_F32, 4, v1::ORDER_ROW_MAJOR, false},
    {v1::DATA_TYPE_F32, 4, v1::ORDER_COLUMN_MAJOR, true},
    {v1::DATA_TYPE_F16, 2, v1::ORDER_ROW_MAJOR, true},
    {v1::DATA_TYPE_BF16, 2, v1::ORDER_COLUMN_MAJOR, false},
};

TEST_F(SharedMemoryTest, BitsAreThoseOfProductsThatTravel) {
  const auto client = Start("--region-bytes=1MiB");
  auto memory = client->Share(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->bytes().size(), kBytes);
  for (const Case& c : kCases) {
    SCOPED_TRACE(absl::StrCat(v1::DataType_Name(c.type), " ", c.order));
    Layouter layouter(**memory);
    Twins twins(c, 1, layouter, **memory);
    const auto sent = client->Matmul(twins.sent);
    ASSERT_TRUE(sent.ok()) << sent.status();
    // Not a stream, whatever is asked for: there is nothing to send.
    twins.shared.stream_bytes = 0;
    const auto shared = client->Matmul(twins.shared);
    ASSERT_TRUE(shared.ok()) << shared.status();
    EXPECT_EQ(shared->d, "");
    twins.Compare(**memory);
  }
}

TEST_F(SharedMemoryTest, GroupsAreReadAndWrittenThere) {
  const auto client = Start("--region-bytes=1MiB");
  auto memory = client->Share(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  Layouter layouter(**memory);
  std::vector<std::unique_ptr<Twins>> groups;
  std::vector<Product> sent, shared;
  for (const Case& c : kCases) {
    groups.push_back(
        std::make_unique<Twins>(c, 10 * groups.size(), layouter, **memory));
    sent.push_back(groups.back()->sent);
    shared.push_back(groups.back()->shared);
  }
  ASSERT_TRUE(client->MatmulGrouped(sent).ok());
  const auto results = client->MatmulGrouped(shared);
  ASSERT_TRUE(results.ok()) << results.status();
  for (const auto& twins : groups) twins->Compare(**memory);
}

TEST_F(SharedMemoryTest, WhatIsSentAndWhatIsSharedGoTogether) {
  const auto client = Start("--region-bytes=1MiB");
  auto memory = client->Share(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  Layouter layouter(**memory);
  Twins twins(kCases[0], 1, layouter, **memory);
  Product mixed = twins.shared;
  mixed.a = twins.sent.a;
  mixed.d = {};
  const auto tight = client->Matmul(mixed);
  ASSERT_TRUE(tight.ok()) << tight.status();
  twins.sent.d = {};
  const auto sent = client->Matmul(twins.sent);
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_EQ(tight->d, sent->d);
}

TEST_F(SharedMemoryTest, WhatIsNotSharedMayTravelInChunks) {
  const auto client = Start("--region-bytes=1MiB");
  auto memory = client->Share(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (const Case& c : kCases) {
    SCOPED_TRACE(absl::StrCat(v1::DataType_Name(c.type), " ", c.order));
    Layouter layouter(**memory);
    Twins twins(c, 1, layouter, **memory);
    ASSERT_TRUE(client->Matmul(twins.sent).ok());
    twins.shared.stream_bytes = 0;
    twins.shared.a = twins.sent.a;
    const auto d_there = client->Matmul(twins.shared);
    ASSERT_TRUE(d_there.ok()) << d_there.status();
    EXPECT_EQ(d_there->execution.paths().a(), v1::PATH_STREAM);
    EXPECT_EQ(d_there->execution.paths().b(), v1::PATH_SHARED);
    EXPECT_EQ(d_there->execution.paths().d(), v1::PATH_SHARED);
    EXPECT_EQ(d_there->d, "");
    twins.Compare(**memory);
    std::string d(twins.d.size(), '\0');
    twins.shared.d = twins.sent.d;
    twins.shared.d.bytes = absl::MakeSpan(d.data(), d.size());
    const auto d_here = client->Matmul(twins.shared);
    ASSERT_TRUE(d_here.ok()) << d_here.status();
    EXPECT_EQ(d_here->execution.paths().d(), v1::PATH_STREAM);
    EXPECT_EQ(d, twins.d);
  }
}

TEST_F(SharedMemoryTest, WhatIsNotSharedMayGoBySeveralConnections) {
  const auto client = Start("--region-bytes=8MiB");
  auto memory = client->Share(4 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  constexpr int64_t kColumns = 1 << 16;  // B and D have 1 MiB.
  const std::string a = Random(4 * 8 * 2, 1), b = Random(8 * kColumns * 2, 2);
  absl::c_copy(a, (*memory)->bytes().begin());
  Product product;
  v1::Problem& problem = product.problem;
  problem.set_m(4);
  problem.set_n(kColumns);
  problem.set_k(8);
  problem.set_a_type(v1::DATA_TYPE_BF16);
  problem.set_b_type(v1::DATA_TYPE_BF16);
  problem.set_d_type(v1::DATA_TYPE_F32);
  product.a = Operand::Bytes(a);
  product.b = Operand::Bytes(b);
  const auto sent = client->Matmul(product);
  ASSERT_TRUE(sent.ok()) << sent.status();
  product.a = Operand::Shared(**memory, 0);
  product.d = Destination::Shared(**memory, 4096);
  product.striping = Striping{.connections = 2, .least_bytes = 1000};
  const auto there = client->Matmul(product);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_EQ(there->execution.paths().a(), v1::PATH_SHARED);
  EXPECT_EQ(there->execution.paths().b(), v1::PATH_TENSOR);
  EXPECT_EQ(there->execution.paths().d(), v1::PATH_SHARED);
  EXPECT_TRUE(sent->d ==
              std::string((*memory)->bytes().data() + 4096, sent->d.size()));
}

TEST_F(SharedMemoryTest, ADaemonThatEndsLeavesTheBytes) {
  const auto client = Start("--region-bytes=1MiB");
  auto memory = client->Share(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  Layouter layouter(**memory);
  Twins twins(kCases[0], 1, layouter, **memory);
  ASSERT_TRUE(client->Matmul(twins.shared).ok());
  daemon_->Signal(SIGKILL);
  EXPECT_TRUE(daemon_->Wait().has_value());
  EXPECT_TRUE(absl::IsUnavailable(client->Matmul(twins.shared).status()));
  memset((*memory)->bytes().data(), 'x', kBytes);
  EXPECT_EQ((*memory)->bytes()[kBytes - 1], 'x');
  EXPECT_TRUE(absl::IsUnavailable(client->Share(kBytes).status()));
  // Another one does not know the region.
  const auto other = Start("--region-bytes=1MiB");
  EXPECT_TRUE(absl::IsNotFound(other->Matmul(twins.shared).status()));
}

TEST_F(SharedMemoryTest, TheRegionEndsWithTheObject) {
  const auto client = Start("--region-bytes=1MiB");
  for (int i = 0; i < 4; ++i) {  // One has three quarters: two never fit.
    // The daemon hears of the end a little later.
    absl::StatusOr<std::unique_ptr<SharedMemory>> memory;
    for (int tries = 0; tries < 100 && !memory.ok(); ++tries) {
      memory = client->Share(512 << 10);
      if (!memory.ok()) absl::SleepFor(absl::Milliseconds(50));
    }
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_TRUE(absl::IsResourceExhausted(client->Share(512 << 10).status()));
  }
}

TEST_F(SharedMemoryTest, SizesThatDoNotFitAreRefused) {
  const auto client = Start("--region-bytes=1MiB");
  const absl::Status large = client->Share(1 << 20).status();
  EXPECT_TRUE(absl::IsResourceExhausted(large)) << large;
  EXPECT_THAT(large.message(), HasSubstr("786432"));
  for (const int64_t bytes : {0, -1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(client->Share(bytes).status()));
  }
  EXPECT_TRUE(client->Share(1).ok());
}

TEST_F(SharedMemoryTest, WhatTheDaemonWouldNotTakeIsNotAllocated) {
  const auto client = Start("--region-bytes=1MiB");
  // Who allocates it gets an error of the system, not of the daemon's limit.
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little = {.rlim_cur = kBytes, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const absl::Status refused = client->Share(2 << 20).status();
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("the limit of one is 786432"));
}

TEST_F(SharedMemoryTest, ADaemonThatSharesNothingSaysSo) {
  const auto client = Start("--region-bytes=0");
  const absl::Status refused = client->Share(kBytes).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("--region-bytes is 0"));
}

TEST_F(SharedMemoryTest, AnotherTargetThanAUnixSocketIsRefused) {
  daemon_.emplace(std::vector<std::string>{"--device=host"});
  ASSERT_NE(daemon_->Connect(), nullptr) << daemon_->Log();
  const auto client = ConnectTo(daemon_->address());
  const absl::Status refused = client->Share(kBytes).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("allowed: unix:/path"));
}

TEST_F(SharedMemoryTest, TensorsComeFromItAndGoToIt) {
  const auto client = Start("--region-bytes=1MiB");
  ASSERT_NE(client, nullptr);
  auto memory = client->Share(kBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  v1::CreateTensorRequest create;
  create.set_dtype(v1::DATA_TYPE_F32);
  create.set_rows(kM);
  create.set_columns(kN);
  const auto tensor = client->CreateTensor(create);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  Layouter layouter(**memory);
  const std::string elements = Random(kM * kN * 4, 9);
  const int64_t from = layouter.Put(elements);
  const int64_t to = layouter.Leave(kM * kN * 4);
  ASSERT_TRUE(client->UploadTensor(tensor->handle(), {}, **memory, from).ok());
  std::string sent(elements.size(), '\0');
  ASSERT_TRUE(
      client->DownloadTensor(tensor->handle(), {}, absl::MakeSpan(sent)).ok());
  EXPECT_EQ(sent, elements);
  ASSERT_TRUE(client->DownloadTensor(tensor->handle(), {}, **memory, to).ok());
  EXPECT_EQ(std::string((*memory)->bytes().data() + to, elements.size()),
            elements);
  // Lines that are apart there.
  v1::Layout apart;
  apart.set_leading_dimension(kN + 2);
  const int64_t lines = layouter.Leave(kM * (kN + 2) * 4);
  ASSERT_TRUE(
      client->DownloadTensor(tensor->handle(), apart, **memory, lines).ok());
  for (int64_t i = 0; i < kM; ++i) {
    EXPECT_EQ(std::string((*memory)->bytes().data() + lines + i * (kN + 2) * 4,
                          kN * 4),
              elements.substr(i * kN * 4, kN * 4));
  }
  ASSERT_TRUE(
      client->UploadTensor(tensor->handle(), apart, **memory, lines).ok());
  ASSERT_TRUE(
      client->DownloadTensor(tensor->handle(), {}, absl::MakeSpan(sent)).ok());
  EXPECT_EQ(sent, elements);
  const absl::Status beyond =
      client->UploadTensor(tensor->handle(), {}, **memory, kBytes - 4);
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(beyond.message(), HasSubstr("header.region.offset"));
  const absl::Status none = client->DownloadTensor("unknown", {}, **memory, to);
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gemmd::client
