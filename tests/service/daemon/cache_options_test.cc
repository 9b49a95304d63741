// Which options of a shared cache go together, and what their files hold.
#include "service/daemon/cache_options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/service/tls/certificates.h"

namespace gemmd::daemon {
namespace {

std::string Write(const std::string& name, const std::string& content) {
  const std::string path = ::testing::TempDir() + "/cache_options_" + name;
  std::ofstream(path, std::ios::trunc) << content;
  return path;
}

absl::Status StatusOf(const std::string& redis, const std::string& ca_file) {
  Options options;
  options.redis = redis;
  options.redis_ca_file = ca_file;
  options.redis_allow_unsigned = true;
  return CacheOptions(options).status();
}

TEST(CacheOptionsTest, WhatIsNotSignedHasToBeAllowed) {
  Options options;
  options.redis = "redis://host";
  absl::Status status = CacheOptions(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "--cache-signing-key-file"))
      << status;
  options.signing_key_file = Write("signs", "0123456789abcdef0123456789abcdef");
  EXPECT_TRUE(CacheOptions(options).ok());
}

// A key, or a password, that somebody relies on.
TEST(CacheOptionsTest, AFileOfASecretHoldsOne) {
  Options options;
  options.redis = "redis://host";
  options.redis_allow_unsigned = true;
  const std::pair<const char*, std::string Options::*> files[] = {
      {"--cache-signing-key-file", &Options::signing_key_file},
      {"--cache-redis-password-file", &Options::redis_password_file}};
  for (const auto& [name, file] : files) {
    for (const auto& [path, why] :
         {std::pair(Write("none", ""), "it is empty"),
          std::pair(Write("line", "\n"), "it is empty"),
          std::pair(std::string("/nonexistent"),
                    "cannot open a file: No such file or directory"),
          std::pair(std::string("/"), "cannot read a file: Is a directory")}) {
      Options one = options;
      one.*file = path;
      const absl::Status status = CacheOptions(one).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << path;
      EXPECT_EQ(status.message(), absl::StrCat(name, ": ", path, ": ", why));
    }
  }
}

TEST(CacheOptionsTest, TheDirectoryHasItsLimit) {
  Options options;
  options.cache_limit_bytes = 12345;
  EXPECT_EQ(CacheOptions(options)->directory_limit_bytes, 12345);
}

TEST(CacheOptionsTest, ACompleteCacheIsThere) {
  Options options;
  options.cache.directory = Write("file", "of no directory");
  EXPECT_TRUE(CacheOptions(options).ok());
  options.cache.require_complete = true;
  EXPECT_FALSE(CacheOptions(options).ok());
}

// Else every compile would try, fail, and say so in the log alone; or what was
// to be secret would travel in the open.
TEST(CacheOptionsTest, AuthoritiesThatVouchForNobodyAreRefused) {
  const testing::Certificate authority(
      {.name = "authority", .is_authority = true});
  const std::string good = Write("good", authority.Pem());
  EXPECT_TRUE(StatusOf("rediss://host", good).ok());
  EXPECT_TRUE(StatusOf("rediss://host", "").ok());
  EXPECT_TRUE(StatusOf("redis://host", "").ok());
  for (const std::string& file :
       {Write("empty", ""), Write("junk", "-----BEGIN"),
        Write("key", authority.KeyPem()), std::string("/nonexistent")}) {
    const absl::Status status = StatusOf("rediss://host", file);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << file << ": " << status;
    EXPECT_TRUE(absl::StartsWith(
        status.message(),
        absl::StrCat("--cache-redis-ca-file: ", file, ": ",
                     file == "/nonexistent" ? "cannot open a file: No such file"
                                            : "it holds no certificates")))
        << status;
  }
  for (const char* redis : {"redis://host", "host:6379", "unix:/s"}) {
    const absl::Status status = StatusOf(redis, good);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << redis;
    EXPECT_TRUE(absl::StrContains(status.message(), "rediss://")) << status;
  }
}

}  // namespace
}  // namespace gemmd::daemon
