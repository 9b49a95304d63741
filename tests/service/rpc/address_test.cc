#include "service/rpc/address.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace gemmd::rpc {
namespace {

TEST(AddressTest, OnlyThisMachineIsLocal) {
  for (const char* local :
       {"127.0.0.1:0", "127.8.9.1:1", "[::1]:50051", "[::1]", "localhost",
        "localhost:80", "LOCALHOST:80", "unix:/run/gemmd.sock"}) {
    EXPECT_TRUE(IsLocal(local)) << local;
  }
  for (const char* reachable :
       {"0.0.0.0:0", "[::]:1", "[::]", "10.0.0.1:50051", "example.com:80",
        "127.0.0.1.example.com:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_FALSE(IsLocal(reachable)) << reachable;
  }
}

TEST(AddressTest, AFolderIsOpenWhereThoseAroundItAreToo) {
  char path[] = "/tmp/gemmd_test_XXXXXX";
  const std::string folder = mkdtemp(path);
  const std::string inner = folder + "/inner";
  ASSERT_EQ(mkdir(inner.c_str(), 0755), 0);
  EXPECT_FALSE(IsInOpenFolder(folder + "/socket"));
  EXPECT_FALSE(IsInOpenFolder(inner + "/socket"));
  ASSERT_EQ(chmod(folder.c_str(), 0711), 0);
  EXPECT_TRUE(IsInOpenFolder(folder + "/socket"));
  EXPECT_TRUE(IsInOpenFolder(inner + "/socket"));
  EXPECT_FALSE(IsInOpenFolder(folder + "/none/socket"));
  std::filesystem::remove_all(folder);
}

TEST(AddressTest, WithPortReplacesThePortAlone) {
  EXPECT_EQ(WithPort("127.0.0.1:0", 81), "127.0.0.1:81");
  EXPECT_EQ(WithPort("[::1]:0", 81), "[::1]:81");
  EXPECT_EQ(WithPort("unix:/tmp/a:b", 1), "unix:/tmp/a:b");
}

}  // namespace
}  // namespace gemmd::rpc
