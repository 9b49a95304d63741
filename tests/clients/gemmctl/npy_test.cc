// .npy files: what is written is read, what is damaged is refused.
#include "clients/gemmctl/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace gemmd::gemmctl {
namespace {

using ::testing::HasSubstr;

class NpyTest : public testing::Test {
 protected:
  std::string Write(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    return path_;
  }
  // A file of version 1 with this dict and as many bytes of data.
  std::string File(const std::string& dict, size_t data_bytes) {
    std::string content("\x93NUMPY\x01\x00", 8);
    content += static_cast<char>(dict.size() & 0xff);
    content += static_cast<char>(dict.size() >> 8);
    return Write(content + dict + std::string(data_bytes, 'x'));
  }
  std::string Error(const std::string& path) {
    return std::string(ReadNpy(path).status().message());
  }

  const std::string path_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name() + ".npy";
};

TEST_F(NpyTest, WhatIsWrittenIsRead) {
  for (int i = v1::DataType_MIN + 1; i <= v1::DataType_MAX; ++i) {
    const auto type = static_cast<v1::DataType>(i);
    for (v1::Order order : {v1::ORDER_ROW_MAJOR, v1::ORDER_COLUMN_MAJOR}) {
      const Matrix matrix = {type, order, 3, 5,
                             std::string(15 * ElementBytes(type), '\1')};
      ASSERT_TRUE(WriteNpy(path_, matrix).ok());
      // Types without a name in files are named.
      const auto read = ReadNpy(path_, type);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->type, type);
      EXPECT_EQ(read->order, order);
      EXPECT_EQ(read->rows, 3);
      EXPECT_EQ(read->columns, 5);
      EXPECT_EQ(read->bytes, matrix.bytes);
    }
  }
}

TEST_F(NpyTest, ABatchHasMoreDimensions) {
  const Matrix matrix = {
      v1::DATA_TYPE_S8, v1::ORDER_COLUMN_MAJOR, 2, 1, "abcdefghijkl", {2, 3}};
  ASSERT_TRUE(WriteNpy(path_, matrix).ok());
  const auto read = ReadNpy(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->shape(), "2 x 3 x 2 x 1");
  EXPECT_EQ(read->count(), 6);
  EXPECT_EQ(read->order, v1::ORDER_ROW_MAJOR);
  EXPECT_EQ(read->bytes, matrix.bytes);
  EXPECT_THAT(Error(File("{'descr': '|i1', 'fortran_order': True, 'shape': "
                         "(2, 3, 2), }\n",
                         12)),
              HasSubstr("Fortran order"));
  EXPECT_THAT(Error(File("{'descr': '|i1', 'fortran_order': False, 'shape': "
                         "(9223372036854775807, 2, 2), }\n",
                         4)),
              HasSubstr("4 bytes of data"));
}

// numpy would not read what is made of others.
TEST_F(NpyTest, HasAsManyDimensionsAsNumpyKnows) {
  const auto file = [this](size_t more) {
    std::string ones;
    for (size_t i = 0; i < more; ++i) ones += "1, ";
    return File(
        "{'descr': '|i1', 'fortran_order': False, 'shape': (" + ones + "2, 3)}",
        6);
  };
  const auto most = ReadNpy(file(62));
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(most->batch.size(), 62);
  // A header whose length takes two bytes is written, too.
  Matrix more = *most;
  more.rows = 20;
  more.bytes.resize(60);
  ASSERT_TRUE(WriteNpy(path_, more).ok());
  const auto again = ReadNpy(path_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shape(), more.shape());
  EXPECT_THAT(Error(file(63)), HasSubstr("it has 65 dimensions; allowed: up "
                                         "to 64"));
}

TEST_F(NpyTest, WhatIsNotMultipliedHasANearestType) {
  EXPECT_THAT(Error(File("{'descr': '<f8', 'fortran_order': False, 'shape': "
                         "(1, 1), }\n",
                         8)),
              HasSubstr("x.astype(np.float32)"));
}

TEST_F(NpyTest, BytesWithoutATypeNeedAName) {
  for (const char* const type : {"<V1", "|V1"}) {
    const std::string dict = std::string("{'descr': '") + type +
                             "', 'fortran_order': False, 'shape': (1, 2), }\n";
    EXPECT_THAT(Error(File(dict, 2)), HasSubstr("--dtype e4m3 or e5m2"));
    EXPECT_EQ(ReadNpy(path_, v1::DATA_TYPE_E5M2)->type, v1::DATA_TYPE_E5M2);
  }
}

TEST_F(NpyTest, DataIsAligned) {
  ASSERT_TRUE(
      WriteNpy(path_, {v1::DATA_TYPE_F16, v1::ORDER_ROW_MAJOR, 1, 1, "dd"})
          .ok());
  std::ifstream file(path_, std::ios::binary | std::ios::ate);
  EXPECT_EQ(static_cast<int64_t>(file.tellg()) % 64, 2);
}

TEST_F(NpyTest, ReadsVersion2AndBitsOfBf16OnRequest) {
  const std::string dict =
      "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 1), }\n";
  std::string content("\x93NUMPY\x02\x00", 8);
  content += static_cast<char>(dict.size());
  content += std::string(3, '\0') + dict + "abcd";
  EXPECT_THAT(Error(Write(content)), HasSubstr("'<u2'"));
  const auto matrix = ReadNpy(Write(content), v1::DATA_TYPE_BF16);
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(matrix->type, v1::DATA_TYPE_BF16);
  EXPECT_EQ(matrix->bytes, "abcd");
}

TEST_F(NpyTest, RefusesWhatIsNoMatrix) {
  EXPECT_THAT(Error(File("{'descr': '<f4', 'fortran_order': False, 'shape': "
                         "(3,), }",
                         12)),
              HasSubstr("(3,); a matrix has two dimensions"));
  EXPECT_THAT(Error(File("{'descr': '<f8', 'fortran_order': False, 'shape': "
                         "(1, 1), }",
                         8)),
              HasSubstr("'<f8'; allowed"));
  EXPECT_THAT(Error(File("{'descr': [('x', '<f4')], 'fortran_order': False, "
                         "'shape': (1, 1), }",
                         4)),
              HasSubstr("structured"));
}

// Of nothing a file may promise any number of lines, which take time each.
TEST_F(NpyTest, RefusesMoreLinesWithoutElementsThanAProductHas) {
  const auto file = [this](const std::string& shape) {
    return File(
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n",
        0);
  };
  EXPECT_TRUE(ReadNpy(file("(2147483392, 0)")).ok());
  EXPECT_TRUE(ReadNpy(file("(2, 0, 1073741696)")).ok());
  for (const char* const shape :
       {"(2147483393, 0)", "(0, 9223372036854775807)", "(2, 1073741697, 0)",
        "(4611686018427387904, 4, 0, 4)", "(0, 4611686018427387904, 4, 4)"}) {
    EXPECT_THAT(Error(file(shape)), HasSubstr("has no elements; allowed"))
        << shape;
  }
}

TEST_F(NpyTest, RefusesDamagedFiles) {
  const std::string good =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  EXPECT_TRUE(ReadNpy(File(good, 24)).ok());
  EXPECT_THAT(Error(File(good, 23)), HasSubstr("no 2 x 3 elements"));
  EXPECT_THAT(Error(File(good, 25)), HasSubstr("no 2 x 3 elements"));
  // Beyond what is read at once.
  const std::string large =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (200, 300), }";
  EXPECT_TRUE(ReadNpy(File(large, 240'000)).ok());
  EXPECT_THAT(Error(File(large, 240'001)), HasSubstr("more than 240000 bytes"));
  EXPECT_THAT(Error(Write("")), HasSubstr("not a .npy file"));
  EXPECT_THAT(Error(Write("PK\x03\x04 a zip archive")),
              HasSubstr("not a .npy file"));
  EXPECT_THAT(Error(Write(std::string("\x93NUMPY\x09\x00\x10\x00", 10))),
              HasSubstr("version is 9"));
  EXPECT_THAT(Error(Write(std::string("\x93NUMPY\x01\x00\xff\x00", 10))),
              HasSubstr("cut short"));
  EXPECT_THAT(Error(File("{'descr': '<f4'}", 0)), HasSubstr("'shape'"));
  EXPECT_THAT(Error(File("{'descr': '<f4', 'fortran_order': False, 'shape': "
                         "(4611686018427387904, 4611686018427387904), }",
                         0)),
              HasSubstr("elements"));
  EXPECT_THAT(Error(File("{'descr': '<f4', 'fortran_order': False, 'shape': "
                         "(-2, -3), }",
                         24)),
              HasSubstr("malformed"));
  EXPECT_THAT(Error(File("{'descr': '<f4', 'fortran_order': maybe, 'shape': "
                         "(2, 3), }",
                         24)),
              HasSubstr("fortran_order"));
}

// As numpy reads them: any blanks, either kind of quotes, each key once, and
// long numbers of Python 2.
TEST_F(NpyTest, HeadersAreLiteralsOfPython) {
  for (const char* const dict :
       {R"({"descr": "|i1", "fortran_order": False, "shape": (2, 3)})",
        "{'shape':(2,3),'descr':'|i1','fortran_order':False}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (2L, 3L), }",
        " { 'shape' : ( 2 , 3 , ) , \"descr\" : '|i1',"
        "'fortran_order' : False , } \n"}) {
    const auto read = ReadNpy(File(dict, 6));
    ASSERT_TRUE(read.ok()) << dict << read.status();
    EXPECT_EQ(read->shape(), "2 x 3");
  }
  const std::string rest = "'descr': '|i1', 'fortran_order': False";
  EXPECT_THAT(
      Error(File("{'shape': (2, 3), 'shape': (3, 2), " + rest + "}", 6)),
      HasSubstr("the header has 'shape'; allowed: 'descr', "
                "'fortran_order' and 'shape', each of them once"));
  EXPECT_THAT(Error(File("{'other': (2, 3), " + rest + "}", 6)),
              HasSubstr("the header has 'other'; allowed"));
  EXPECT_THAT(Error(File("{" + rest + "}", 6)),
              HasSubstr("the header has no 'shape'"));
  for (const char* const shape : {"(6)", "(6L)", "(2 3)", "(2LL, 3)", "(L, 3)",
                                  "(,)", "(2, 3", "2, 3", ""}) {
    const std::string dict = std::string("{'shape': ") + shape + ", " + rest;
    EXPECT_THAT(Error(File(dict + "}", 6)), HasSubstr("is malformed")) << dict;
  }
  for (const std::string& dict :
       {"{'shape\": (2, 3), " + rest + "}", "{'shape': (2, 3) " + rest + "}",
        "{'shape': (2, 3), " + rest, "{'shape': (2, 3), " + rest + "} {}"}) {
    EXPECT_THAT(Error(File(dict, 6)), HasSubstr("is malformed")) << dict;
  }
}

TEST_F(NpyTest, MissingFilesAndFoldersAreErrors) {
  EXPECT_EQ(ReadNpy("/nowhere/a.npy").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(ReadNpy(testing::TempDir()).ok());
  EXPECT_FALSE(WriteNpy("/nowhere/a.npy", Matrix()).ok());
}

}  // namespace
}  // namespace gemmd::gemmctl
