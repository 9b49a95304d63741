// What proves who calls, which proof counts, and files that change.
#include "service/identity/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/sha256.h"

namespace gemmd::identity {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

std::string Line(const std::string& name, absl::string_view token) {
  jit::Sha256 sha256;
  sha256.Update(token);
  return absl::StrCat(name, " ", sha256.Hex(), "\n");
}

class GateTest : public ::testing::Test {
 protected:
  GateTest() {
    char path[] = "/tmp/gemmd_test_XXXXXX";
    folder_ = mkdtemp(path);
    Write(files_.policy = folder_ + "/policy",
          R"({"principals": [
             {"name": "alice", "unix_users": ["1000"]},
             {"name": "worker", "certificates": ["DNS:worker.example"]}]})");
    Write(files_.token_digests = folder_ + "/tokens", Line("alice", kToken));
    gate_ = Gate::Open(files_).value();
  }
  ~GateTest() override { std::filesystem::remove_all(folder_); }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }

  absl::StatusOr<std::string> Identify(
      std::vector<absl::string_view> authorization,
      std::vector<std::string> names = {},
      std::optional<uid_t> user = std::nullopt) {
    const auto caller = gate_->Identify({.authorization = authorization,
                                         .certificate_names = names,
                                         .user = user},
                                        absl::Now());
    if (!caller.ok()) return caller.status();
    return absl::StrCat(caller->principal->name, " by ", NameOf(caller->proof));
  }

  std::string folder_;
  Files files_;
  std::unique_ptr<Gate> gate_;
};

TEST_F(GateTest, TakesEachKindOfProof) {
  const std::string value = absl::StrCat("Bearer ", kToken);
  EXPECT_EQ(*Identify({value}), "alice by token");
  EXPECT_EQ(*Identify({absl::StrCat("bearer ", kToken)}), "alice by token");
  EXPECT_EQ(*Identify({}, {"DNS:worker.example"}), "worker by certificate");
  EXPECT_EQ(*Identify({}, {}, 1000), "alice by unix_user");
}

TEST_F(GateTest, ATokenCountsBeforeACertificateAndThatBeforeAUser) {
  EXPECT_EQ(
      *Identify({absl::StrCat("Bearer ", kToken)}, {"DNS:worker.example"}),
      "alice by token");
  EXPECT_EQ(*Identify({}, {"DNS:worker.example"}, 1000),
            "worker by certificate");
}

TEST_F(GateTest, WhatIsWrongIsNotMadeGoodByAnotherProof) {
  EXPECT_EQ(
      Identify({"Bearer 00000000000000000000"}, {"DNS:worker.example"}, 1000)
          .status(),
      absl::UnauthenticatedError("the token is unknown"));
  EXPECT_EQ(Identify({}, {"DNS:other"}, 1000).status(),
            absl::UnauthenticatedError("the client certificate stands for no "
                                       "principal of this daemon"));
  EXPECT_EQ(Identify({}, {}, 1001).status(),
            absl::UnauthenticatedError("the user of this connection stands for "
                                       "no principal of this daemon"));
}

TEST_F(GateTest, WithoutProofSaysWhatWouldDo) {
  const absl::Status status = Identify({}).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status));
  EXPECT_THAT(status.message(), HasSubstr("credentials are missing; allowed"));
}

TEST_F(GateTest, MalformedTokensAreNotRepeated) {
  const std::string good = absl::StrCat("Bearer ", kToken);
  const std::vector<std::vector<std::string>> all = {
      {""},
      {"Bearer "},
      {"Bearer short"},
      {kToken},
      {absl::StrCat("Basic ", kToken)},
      {absl::StrCat("Bearer", kToken)},
      {absl::StrCat("Bearer  ", kToken)},
      {absl::StrCat(good, " ")},
      {absl::StrCat("Bearer ", std::string(2000, 'a'))},
      {absl::StrCat("Bearer ", std::string(20, '\x01'))},
      {good, good}};
  for (const auto& values : all) {
    const absl::Status status =
        Identify({values.begin(), values.end()}).status();
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << values[0];
    EXPECT_THAT(status.message(), HasSubstr("malformed; allowed: once"));
    EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("aaaa")));
    EXPECT_THAT(status.message(), ::testing::Not(HasSubstr(kToken)));
  }
}

TEST_F(GateTest, TokensHave16To1024Characters) {
  for (const size_t size : {15, 16, 1024, 1025}) {
    const std::string token(size, 'a');
    Write(files_.token_digests, Line("alice", token));
    EXPECT_TRUE(*gate_->Reload());
    EXPECT_EQ(Identify({absl::StrCat("Bearer ", token)}).ok(),
              size == 16 || size == 1024)
        << size;
  }
}

TEST_F(GateTest, TakesNewTokensAndForgetsOldOnes) {
  EXPECT_FALSE(*gate_->Reload());
  const std::string next = "fedcba9876543210fedcba9876543210";
  Write(files_.token_digests, Line("worker", next));
  EXPECT_TRUE(*gate_->Reload());
  EXPECT_EQ(*Identify({absl::StrCat("Bearer ", next)}), "worker by token");
  EXPECT_FALSE(Identify({absl::StrCat("Bearer ", kToken)}).ok());
  EXPECT_FALSE(*gate_->Reload());
}

TEST_F(GateTest, APrincipalThatLeavesThePolicyTakesItsTokensAlong) {
  Write(files_.policy, R"({"principals": [{"name": "worker"}]})");
  EXPECT_TRUE(*gate_->Reload());
  EXPECT_EQ(Identify({absl::StrCat("Bearer ", kToken)}).status(),
            absl::UnauthenticatedError(
                "the token stands for no principal of this daemon"));
}

TEST_F(GateTest, WhatIsWrongIsToldOnceAndWhatWasBeforeGoesOn) {
  Write(files_.policy, "{");
  const absl::Status refused = gate_->Reload().status();
  EXPECT_THAT(refused.message(),
              HasSubstr("--policy-file: " + files_.policy + ": it is no JSON"));
  EXPECT_FALSE(*gate_->Reload());
  EXPECT_EQ(*Identify({}, {}, 1000), "alice by unix_user");
  std::filesystem::remove(files_.policy);
  EXPECT_FALSE(gate_->Reload().ok());
  EXPECT_FALSE(*gate_->Reload());
  EXPECT_EQ(*Identify({}, {}, 1000), "alice by unix_user");
  Write(files_.policy, "{}");
  EXPECT_TRUE(*gate_->Reload());
  EXPECT_FALSE(Identify({}, {}, 1000).ok());
}

// Else who was taken out by the same change would stay for as long as the file
// stays as it is.
TEST_F(GateTest, APolicyWhoseUserCannotBeFoundIsTriedAgain) {
  absl::StatusOr<std::optional<uid_t>> carol = std::nullopt;
  gate_ = Gate::Open(files_, [&](const std::string&) { return carol; }).value();
  Write(files_.policy,
        R"({"principals": [{"name": "carol", "unix_users": ["carol"]}]})");
  EXPECT_THAT(gate_->Reload().status().message(),
              HasSubstr("this machine has no user \"carol\""));
  EXPECT_FALSE(*gate_->Reload()) << "told once";
  carol = absl::UnavailableError("the directory is away");
  EXPECT_THAT(gate_->Reload().status().message(),
              HasSubstr("principals[0]: the directory is away"));
  EXPECT_FALSE(*gate_->Reload());
  EXPECT_EQ(*Identify({}, {}, 1000), "alice by unix_user");
  carol = 2000;
  EXPECT_TRUE(*gate_->Reload());
  EXPECT_EQ(*Identify({}, {}, 2000), "carol by unix_user");
  EXPECT_FALSE(Identify({}, {}, 1000).ok());
  EXPECT_FALSE(*gate_->Reload());
}

TEST_F(GateTest, WaitsForNoPipe) {
  for (const std::string& path : {files_.policy, files_.token_digests}) {
    std::filesystem::rename(path, path + ".old");
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(gate_->Reload().status().message(),
                HasSubstr(": it is no regular file"));
    EXPECT_EQ(*Identify({}, {}, 1000), "alice by unix_user");
    // Links are followed.
    std::filesystem::remove(path);
    std::filesystem::create_symlink(path + ".old", path);
    EXPECT_TRUE(gate_->Reload().ok());
  }
}

TEST_F(GateTest, DoesNotBeginWithWhatIsWrong) {
  EXPECT_THAT(Gate::Open({.policy = folder_ + "/none", .token_digests = {}})
                  .status()
                  .message(),
              HasSubstr("--policy-file"));
  Write(files_.token_digests, "alice");
  EXPECT_THAT(Gate::Open(files_).status().message(), HasSubstr(": line 1: "));
}

}  // namespace
}  // namespace gemmd::identity
