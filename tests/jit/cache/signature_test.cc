#include "jit/cache/signature.h"

#include <gtest/gtest.h>

#include <string>

namespace gemmd::jit {
namespace {

TEST(SignatureTest, IsOfAllOfItsBytesAndOfItsKey) {
  const std::string bytes = Sign("key", "what is signed");
  EXPECT_EQ(CheckSignature("key", bytes).value_or(""), "what is signed");
  EXPECT_EQ(CheckSignature("", bytes).value_or(""), "what is signed");
  EXPECT_TRUE(absl::IsDataLoss(CheckSignature("other", bytes).status()));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_TRUE(absl::IsDataLoss(CheckSignature("key", damaged).status())) << i;
    const std::string cut_off = bytes.substr(0, i);
    EXPECT_TRUE(absl::IsDataLoss(CheckSignature("key", cut_off).status())) << i;
  }
}

}  // namespace
}  // namespace gemmd::jit
