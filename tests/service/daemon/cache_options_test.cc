// Which options of a shared cache go together, and what their files hold.
#include "service/daemon/cache_options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
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
    EXPECT_TRUE(absl::StrContains(status.message(), "--cache-redis-ca-file"))
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
