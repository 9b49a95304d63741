// Kernels of groups: what gemm-warmup prepares, MatmulGrouped runs with.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/client.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/integration/daemon_process.h"

namespace gemmd::warmup {
namespace {

using testing::DaemonProcess;
using testing::TemporaryFolder;

constexpr char kNvrtc[] = "--nvrtc=" GEMMD_TEST_NVRTC;
// Twelve products, of which one is empty, by one launch.
constexpr char kGroup[] = "bf16 TN 1 64 64 order=row ; 16*10+0+3\n";

class WarmupGroupsTest : public ::testing::Test {
 protected:
  WarmupGroupsTest() { Write(kGroup); }

  void Write(const std::string& lines, const std::string& name = "groups") {
    std::ofstream(Path(name), std::ios::trunc) << lines;
  }
  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }
  std::string CacheFlag() const {
    return absl::StrCat("--cache-dir=", Path("cache"));
  }
  Outcome Compile() {
    return Warmup(absl::StrCat("compile ", CacheFlag(), " ", kNvrtc, " ",
                               Path("groups")));
  }

  const TemporaryFolder folder_;
};

// The products of kGroup.
absl::StatusOr<std::vector<client::Result>> Multiply(
    const std::string& address) {
  absl::StatusOr<std::unique_ptr<client::Client>> client =
      client::Client::Connect(address);
  if (!client.ok()) return client.status();
  const std::string zeros(64 * 64 * 2, '\0');
  std::vector<client::Product> products(12);
  for (size_t i = 0; i < products.size(); ++i) {
    v1::Problem& problem = products[i].problem;
    problem.set_m(i < 10 ? 16 : i == 10 ? 0 : 3);
    problem.set_n(64);
    problem.set_k(64);
    problem.set_a_type(v1::DATA_TYPE_BF16);
    problem.set_b_type(v1::DATA_TYPE_BF16);
    problem.set_b_order(v1::ORDER_COLUMN_MAJOR);
    products[i].a = client::Operand::Bytes(
        absl::MakeConstSpan(zeros.data(), problem.m() * 64 * 2));
    products[i].b = client::Operand::Bytes(zeros);
  }
  return (*client)->MatmulGrouped(products);
}

bool IsGrouped(const v1::Execution& execution) {
  return absl::EndsWith(execution.kernel(), "_grouped");
}

TEST_F(WarmupGroupsTest, LoadsTheKernelOfALaunch) {
  DaemonProcess daemon({"--device=host", kNvrtc, CacheFlag()});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  const std::string load =
      absl::StrCat("load --server ", daemon.address(), " ", Path("groups"));
  const Outcome outcome = Warmup(load);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(absl::StrContains(
      outcome.output, "1 groups: 1 kernels loaded, 1 of them compiled"))
      << outcome.output;
  EXPECT_TRUE(absl::StrContains(Warmup(load).output,
                                "1 kernels loaded, 0 of them compiled"));
  const auto results = Multiply(daemon.address());
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].execution.cubin_source(), v1::CUBIN_SOURCE_LOADED);
  EXPECT_TRUE(IsGrouped((*results)[11].execution));
}

TEST_F(WarmupGroupsTest, ADaemonThatMayNotCompileRunsWhatACacheHolds) {
  const Outcome compiled = Compile();
  EXPECT_EQ(compiled.code, 0) << compiled.output;
  EXPECT_TRUE(absl::StrContains(compiled.output, "1 groups, 1 kernels"))
      << compiled.output;
  DaemonProcess daemon(
      {"--device=host", "--nvrtc=none", "--require-complete", CacheFlag()});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  const auto results = Multiply(daemon.address());
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].execution.cubin_source(), v1::CUBIN_SOURCE_DISK);
  EXPECT_TRUE(IsGrouped((*results)[0].execution));
  // To prepare another one is refused; products would go apart.
  Write("f16 TN 1 64 64 ; 16*12\n");
  const Outcome refused = Warmup(
      absl::StrCat("load --server ", daemon.address(), " ", Path("groups")));
  EXPECT_EQ(refused.code, 1) << refused.output;
  EXPECT_TRUE(absl::StrContains(refused.output,
                                "failed: f16 TN 16 64 64 ; 16*12: groups[0]: "))
      << refused.output;
}

TEST_F(WarmupGroupsTest, ChecksForThemByTheirNames) {
  ASSERT_EQ(Compile().code, 0);
  const std::string check =
      absl::StrCat("check ", CacheFlag(), " ", Path("groups"));
  EXPECT_EQ(Warmup(check).code, 0);
  // The same sizes by themselves run with other kernels.
  Write("bf16 TN 16 64 64 order=row\n");
  EXPECT_EQ(Warmup(check).code, 1);
  Write("f16 TN 1 64 64 ; 16*12\n");
  const Outcome lacks = Warmup(check);
  EXPECT_EQ(lacks.code, 1);
  EXPECT_TRUE(absl::StrContains(lacks.output, "missing: gemm_f16_f16"))
      << lacks.output;
  EXPECT_TRUE(absl::StrContains(lacks.output, "_grouped")) << lacks.output;
}

TEST_F(WarmupGroupsTest, ReadsTheMessageOfTheApi) {
  Write(
      "problems { m: 64 n: 64 k: 64 a_type: DATA_TYPE_BF16 b_type: "
      "DATA_TYPE_BF16 } groups { problems { m: 16 n: 64 k: 64 a_type: "
      "DATA_TYPE_F16 b_type: DATA_TYPE_F16 } problems { m: -1 } }",
      "wrong.textproto");
  const std::string compile =
      absl::StrCat("compile ", CacheFlag(), " ", kNvrtc);
  const Outcome wrong =
      Warmup(absl::StrCat(compile, " ", Path("wrong.textproto")));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(absl::StrContains(wrong.output, "groups[0]: problems[1]: "))
      << wrong.output;
  Write(
      "groups { problems { m: 16 n: 64 k: 64 a_type: DATA_TYPE_F16 b_type: "
      "DATA_TYPE_F16 } }",
      "right.textproto");
  const Outcome right =
      Warmup(absl::StrCat(compile, " ", Path("right.textproto")));
  EXPECT_EQ(right.code, 0) << right.output;
  EXPECT_TRUE(absl::StrContains(right.output, "1 groups, 1 kernels"))
      << right.output;
}

TEST_F(WarmupGroupsTest, CompilesWhatADaemonRecorded) {
  for (int start = 0; start < 2; ++start) {
    DaemonProcess daemon({"--device=host", kNvrtc, CacheFlag(),
                          "--record-problems=" + Path("recorded")});
    ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(Multiply(daemon.address()).ok());
    }
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  std::ifstream file(Path("recorded"));
  std::string line, more;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_TRUE(absl::StartsWith(
      line, "bf16 TN 16 64 64 order=row ; 16*10+3  # gemm_bf16"))
      << line;
  EXPECT_FALSE(std::getline(file, more)) << more;
  const Outcome outcome = Warmup(absl::StrCat("compile ", CacheFlag(), " ",
                                              kNvrtc, " ", Path("recorded")));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "1 there already"))
      << outcome.output;
}

}  // namespace
}  // namespace gemmd::warmup
