#include "jit/cache/redis_server_url.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"

namespace gemmd::jit {
namespace {

TEST(RedisServerUrlTest, ReadsEveryForm) {
  struct Case {
    const char* url;
    const char* address;
    const char* user = "";
    const char* password = "";
    bool tls = false;
  };
  for (const Case& c : {
           Case{"host:1", "host:1"},
           Case{"host", "host:6379"},
           Case{"unix:/run/redis", "unix:/run/redis"},
           Case{"redis://host", "host:6379"},
           Case{"redis://host:7000/", "host:7000"},
           Case{"redis://[::1]:7000", "[::1]:7000"},
           Case{"redis://[::1]", "[::1]:6379"},
           Case{"redis://user@host", "host:6379", "user"},
           Case{"redis://:secret@host", "host:6379", "", "secret"},
           Case{"redis://:a:b@c@host", "host:6379", "", "a:b@c"},
           Case{"rediss://user:p%40ss@host:7", "host:7", "user", "p@ss", true},
           Case{"rediss://user:p%40@host:7", "host:7", "user", "p@", true},
           Case{"rediss://host", "host:6379", "", "", true},
       }) {
    const absl::StatusOr<RedisServer> server = ParseRedisUrl(c.url);
    ASSERT_TRUE(server.ok()) << c.url << ": " << server.status();
    EXPECT_EQ(server->address, c.address) << c.url;
    EXPECT_EQ(server->user, c.user) << c.url;
    EXPECT_EQ(server->password, c.password) << c.url;
    EXPECT_EQ(server->tls, c.tls) << c.url;
  }
}

TEST(RedisServerUrlTest, RefusesOthersWithoutRepeatingAPassword) {
  for (const char* url :
       {"", "http://host", "redis://", "redis://host:0", "redis://host:65536",
        "redis://host:port", "redis://::1", "redis://host/1",
        "unix:", "redis://user:secret@", "redis://user:sec%ret@host",
        "redis://a b", "redis://:secret@host:x"}) {
    const absl::Status status = ParseRedisUrl(url).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << url;
    EXPECT_FALSE(absl::StrContains(status.message(), "secret")) << status;
  }
}

TEST(RedisServerUrlTest, SaysThatADatabaseIsTooMuch) {
  for (const char* url : {"redis://host/1", "redis://user:p@host:6379/0",
                          "host:6379/0", "rediss://host:6379?db=1"}) {
    const absl::Status status = ParseRedisUrl(url).status();
    EXPECT_TRUE(absl::StrContains(
        status.message(), "has more than a host and a port, such as a data"))
        << url << ": " << status;
  }
}

TEST(RedisServerUrlTest, HostsLoseTheirBrackets) {
  EXPECT_EQ(HostOf("[::1]:6379"), "::1");
  EXPECT_EQ(HostOf("host:6379"), "host");
}

}  // namespace
}  // namespace gemmd::jit
