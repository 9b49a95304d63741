#include "jit/base/text.h"

#include <gtest/gtest.h>

#include <string>

namespace gemmd::jit {
namespace {

TEST(TextTest, ANameHas1To200OfItsCharacters) {
  EXPECT_TRUE(IsName("gemm_bf16.TN:64x64+-"));
  EXPECT_TRUE(IsName(std::string(200, 'n')));
  EXPECT_FALSE(IsName(std::string(201, 'n')));
  for (const char* text : {"", "a b", "a/b", "a\n", "\xc3\xa4"}) {
    EXPECT_FALSE(IsName(text)) << text;
  }
}

TEST(TextTest, PlainTextHasNoControlsButLineEndsAndTabs) {
  const std::string plain = "a\n\tb \u00e4\u00a0";
  EXPECT_TRUE(IsPlainText(plain));
  EXPECT_EQ(ToPlainText(plain), plain);
  for (const std::string& control :
       {std::string("\x1b"), std::string("\r"), std::string("\x7f"),
        std::string(1, '\0'), std::string("\u0080"), std::string("\u009f")}) {
    const std::string text = "a" + control + "b";
    EXPECT_FALSE(IsPlainText(text));
    EXPECT_TRUE(IsPlainText(ToPlainText(text)));
    EXPECT_EQ(ToPlainText(text).size(), text.size());
  }
}

TEST(TextTest, ZerosAreTakenOffTheEndAlone) {
  EXPECT_EQ(WithoutZerosAtEnd(std::string("a\0b\0\0", 5)),
            std::string("a\0b", 3));
  EXPECT_EQ(WithoutZerosAtEnd(std::string(3, '\0')), "");
  EXPECT_EQ(WithoutZerosAtEnd(""), "");
}

}  // namespace
}  // namespace gemmd::jit
