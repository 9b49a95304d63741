// Files of TLS: what goes together, what is wrong, what is replaced.
#include "service/tls/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/service/tls/certificates.h"

namespace gemmd::tls {
namespace {

using testing::Certificate;
using ::testing::HasSubstr;

class KeeperTest : public ::testing::Test {
 protected:
  KeeperTest() {
    char path[] = "/tmp/gemmd_test_XXXXXX";
    folder_ = mkdtemp(path);
    files_ = {.certificate = folder_ + "/cert",
              .key = folder_ + "/key",
              .client_ca = {}};
    Write(files_.certificate, one_.Pem());
    Write(files_.key, one_.KeyPem());
  }
  ~KeeperTest() override { std::filesystem::remove_all(folder_); }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  std::string Error() const {
    const auto keeper = Keeper::Open(files_);
    EXPECT_TRUE(absl::IsInvalidArgument(keeper.status()));
    const std::string text(keeper.status().message());
    EXPECT_THAT(text, ::testing::Not(HasSubstr("secret")));
    return text;
  }

  const Certificate one_{{.name = "one"}};
  const Certificate other_{{.name = "other"}};
  std::string folder_;
  Files files_;
};

TEST_F(KeeperTest, TakesNewFilesOnceTheyGoTogether) {
  const auto keeper = Keeper::Open(files_);
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  const auto before = (*keeper)->context();
  EXPECT_FALSE(*(*keeper)->Reload());
  Write(files_.certificate, other_.Pem());
  EXPECT_EQ((*keeper)->Reload().status().message(),
            "--tls-key-file: " + files_.key +
                ": the key is not that of the certificate");
  EXPECT_FALSE(*(*keeper)->Reload()) << "told once";
  EXPECT_EQ((*keeper)->context(), before);
  Write(files_.key, other_.KeyPem());
  EXPECT_TRUE(*(*keeper)->Reload());
  EXPECT_NE((*keeper)->context(), before);
}

TEST_F(KeeperTest, SaysOnceThatACertificateHasEndedOrNotBegun) {
  const absl::Time now = absl::Now();
  const auto keeper = Keeper::Open(files_);
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  EXPECT_TRUE((*keeper)->CheckTime(now).ok());
  const absl::Time late = now + absl::Hours(2);
  EXPECT_TRUE(absl::IsFailedPrecondition((*keeper)->CheckTime(late)));
  EXPECT_TRUE((*keeper)->CheckTime(late).ok()) << "told once";
  EXPECT_TRUE((*keeper)->CheckTime(now).ok());
  EXPECT_FALSE((*keeper)->CheckTime(late).ok()) << "it was well meanwhile";
  const Certificate future(
      {.name = "one",
       .from = absl::FromCivil(absl::CivilDay(2070, 1, 1), absl::UTCTimeZone()),
       .until =
           absl::FromCivil(absl::CivilDay(2071, 1, 1), absl::UTCTimeZone())});
  Write(files_.certificate, future.Pem());
  Write(files_.key, future.KeyPem());
  ASSERT_TRUE(*(*keeper)->Reload());
  EXPECT_EQ((*keeper)->CheckTime(now).message(),
            "the daemon's certificate is valid from 2070-01-01T00:00:00+00:00 "
            "to 2071-01-01T00:00:00+00:00; clients refuse it now");
}

TEST_F(KeeperTest, SaysWhatIsWrong) {
  Write(files_.certificate, "secret");
  EXPECT_EQ(Error(), "--tls-certificate-file: " + files_.certificate +
                         ": the file of certificates holds none in PEM");
  Write(files_.certificate, one_.Pem());
  Write(files_.key, "secret");
  EXPECT_THAT(Error(), HasSubstr("the file of the key holds none"));
  std::filesystem::remove(files_.key);
  EXPECT_THAT(Error(), HasSubstr("--tls-key-file"));
  ASSERT_EQ(mkfifo(files_.key.c_str(), 0600), 0);
  EXPECT_EQ(Error(),
            "--tls-key-file: " + files_.key + ": it is no regular file");
  std::filesystem::remove(files_.key);
  Write(files_.key, one_.KeyPem());
  Write(files_.client_ca = folder_ + "/ca", "secret");
  EXPECT_THAT(Error(), HasSubstr("authorities holds no certificate"));
  Write(files_.client_ca, "");
  EXPECT_EQ(Error(),
            "--tls-client-ca-file: " + files_.client_ca + ": it is empty");
}

TEST_F(KeeperTest, TimesThatAreNoneAreRefused) {
  const Certificate odd({.name = "one", .has_times = false});
  Write(files_.certificate, odd.Pem());
  Write(files_.key, odd.KeyPem());
  EXPECT_EQ(Error(), "the certificate does not say when it begins and ends");
}

// Without those that were to follow, clients would trust the daemon, or it
// them, no more.
TEST_F(KeeperTest, WhatIsWrittenInPartIsNotTaken) {
  const std::string two = one_.Pem() + other_.Pem();
  Write(files_.client_ca = folder_ + "/ca", two);
  Write(files_.certificate, two);
  const auto keeper = Keeper::Open(files_).value();
  // In the middle of the second one, and of its last line.
  for (const size_t cut : {other_.Pem().size() / 2, size_t{5}}) {
    const auto before = keeper->context();
    const std::string part = two.substr(0, two.size() - cut);
    Write(files_.client_ca, part);
    EXPECT_EQ(keeper->Reload().status().message(),
              "--tls-client-ca-file: " + files_.client_ca +
                  ": an authority of clients is not whole");
    Write(files_.client_ca, two);
    Write(files_.certificate, part);
    EXPECT_EQ(keeper->Reload().status().message(),
              "--tls-certificate-file: " + files_.certificate +
                  ": a certificate behind the first one is not "
                  "whole");
    Write(files_.certificate, two);
    EXPECT_EQ(keeper->context(), before);
    EXPECT_TRUE(*keeper->Reload());
  }
}

TEST_F(KeeperTest, AnEmptiedAuthorityAsksNobodyLess) {
  Write(files_.client_ca = folder_ + "/ca", other_.Pem());
  const auto keeper = Keeper::Open(files_).value();
  ASSERT_NE(keeper->context()->client_authorities(), nullptr);
  Write(files_.client_ca, "");
  EXPECT_FALSE(keeper->Reload().ok());
  EXPECT_NE(keeper->context()->client_authorities(), nullptr);
}

}  // namespace
}  // namespace gemmd::tls
