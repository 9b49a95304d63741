// Where the daemon keeps kernels when nobody says where.
#include "service/daemon/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
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

}  // namespace
}  // namespace gemmd::daemon
