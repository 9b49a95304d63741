// Addresses are refused before anybody listens or dials.
#include "clients/cli/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace gemmd::cli {
namespace {

using ::testing::HasSubstr;

TEST(AddressTest, WhereDaemonsListen) {
  for (const char* good : {"127.0.0.1:0", "127.0.0.1:65535", "localhost:50051",
                           "[::1]:50051", "unix:/run/gemmd.sock"}) {
    EXPECT_TRUE(CheckListenAddress(good).ok()) << good;
  }
}

TEST(AddressTest, WhatIsMissingIsNamed) {
  for (const auto& [wrong, says] : {
           std::pair{"", "it is empty"},
           {"127.0.0.1", "it has no port"},
           {"[::1]", "it has no port"},
           {"::1:50051", "stands in brackets"},
           {":50051", "it has no host"},
           {"[]:50051", "it has no host"},
           {"host:", "its port is ''"},
           {"host:99999", "its port is '99999', not a number from 0 to 65535"},
           {"host:-1", "its port is '-1'"},
           {"host:50051x", "its port is '50051x'"},
           {"a host:1", "it holds a blank"},
           {"http://host:1", "it has a scheme"},
           {"unix:", "it has no path"},
           {"unix://run/socket", "two slashes before its path"},
       }) {
    const absl::Status status = CheckListenAddress(wrong);
    EXPECT_THAT(status.message(), HasSubstr(says)) << wrong;
    EXPECT_THAT(status.message(), HasSubstr("allowed: HOST:PORT")) << wrong;
  }
  EXPECT_TRUE(CheckListenAddress("unix:/" + std::string(106, 'x')).ok());
  EXPECT_THAT(CheckListenAddress("unix:/" + std::string(107, 'x')).message(),
              HasSubstr("has 108 bytes, and a Unix socket's at most 107"));
  EXPECT_THAT(CheckServer("").message(),
              HasSubstr("--server is '': it is empty"));
}

TEST(AddressTest, TheEnvironmentNamesAnotherDaemon) {
  setenv("GEMMD_SERVER", "", 1);  // As if it were not there.
  EXPECT_EQ(DefaultServer(), "localhost:50051");
  setenv("GEMMD_SERVER", "gemmd:1", 1);
  EXPECT_EQ(DefaultServer(), "gemmd:1");
  unsetenv("GEMMD_SERVER");
}

TEST(AddressTest, ClientsDialPortsAndSchemes) {
  EXPECT_TRUE(CheckServer("localhost:50051").ok());
  EXPECT_TRUE(CheckServer("unix:gemmd.sock").ok());
  EXPECT_TRUE(CheckServer("unix:///run/gemmd.sock").ok());
  EXPECT_TRUE(CheckServer("dns:///gemmd:50051").ok());
  EXPECT_FALSE(CheckServer("localhost").ok());
  EXPECT_FALSE(CheckServer("localhost:0").ok());
  EXPECT_FALSE(CheckServer("unix://run/gemmd.sock").ok());
}

}  // namespace
}  // namespace gemmd::cli
