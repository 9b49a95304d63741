// Where the daemon keeps kernels when nobody says where.
#include "service/daemon/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace gemmd::daemon {
namespace {

std::string DirectoryWith(const char* home, const char* xdg) {
  setenv("HOME", home, 1);
  setenv("XDG_CACHE_HOME", xdg, 1);
  return Options().cache.directory;
}

TEST(OptionsTest, TheCacheLiesAtHome) {
  EXPECT_EQ(DirectoryWith("/home/me", ""), "/home/me/.cache/gemmd");
  EXPECT_EQ(DirectoryWith("/home/me", "/scratch"), "/scratch/gemmd");
  EXPECT_EQ(DirectoryWith("", ""), "");
}

// A cache in each folder that a daemon was ever started in is no cache.
TEST(OptionsTest, ARelativeHomeIsNone) {
  EXPECT_EQ(DirectoryWith("home", "cache"), "");
  EXPECT_EQ(DirectoryWith("/home/me", "cache"), "/home/me/.cache/gemmd");
}

TEST(OptionsTest, FilesOfIdentityGoTogether) {
  const auto error = [](const std::function<void(Options&)>& change) {
    Options options;
    change(options);
    return std::string(Check(options).message());
  };
  EXPECT_EQ(error([](Options& o) { o.server.tls.certificate = "x"; }),
            "--tls-certificate-file and --tls-key-file go together");
  EXPECT_EQ(error([](Options& o) { o.server.tls.client_ca = "x"; }),
            "--tls-client-ca-file needs --tls-certificate-file");
  EXPECT_EQ(error([](Options& o) { o.server.identity.token_digests = "x"; }),
            "--token-digest-file needs --policy-file, which says what "
            "principals may do");
  EXPECT_EQ(error([](Options& o) {
              o.server.tls = {.certificate = "x", .key = "x", .client_ca = "x"};
            }),
            "--tls-client-ca-file needs --policy-file, which says what "
            "principals may do");
  EXPECT_EQ(error([](Options& o) {
              o.server.identity.policy = "x";
              o.server.limits.admin_calls = true;
            }),
            "--admin-calls is for everybody; with --policy-file, give the role "
            "admin to those who are to have it");
  EXPECT_EQ(error([](Options& o) {
              o.server.tls = {.certificate = "x", .key = "x", .client_ca = "x"};
              o.server.identity = {.policy = "x", .token_digests = "x"};
            }),
            "");
}

}  // namespace
}  // namespace gemmd::daemon
