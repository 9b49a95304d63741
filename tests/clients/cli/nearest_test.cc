#include "clients/cli/nearest.h"

#include <gtest/gtest.h>

namespace gemmd::cli {
namespace {

const std::vector<std::string> kWords = {"compile", "check", "load", "list"};

TEST(NearestTest, ASlipOfTheFingersIsForgiven) {
  EXPECT_EQ(Nearest("complie", kWords), "compile");
  EXPECT_EQ(Nearest("lst", kWords), "list");
  EXPECT_EQ(Nearest("lists", kWords), "list");
  EXPECT_EQ(Nearest("laod", kWords), "load");
  EXPECT_EQ(Nearest("loab", kWords), "load");
}

TEST(NearestTest, AnotherWordIsNotGuessed) {
  EXPECT_EQ(Nearest("verify", kWords), "");
  EXPECT_EQ(Nearest("", kWords), "");
  EXPECT_EQ(Nearest(std::string(100000, 'l'), kWords), "");
  EXPECT_EQ(Nearest("list", {}), "");
}

}  // namespace
}  // namespace gemmd::cli
