#include "jit/base/watched_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

TEST(WatchedFileTest, IsARegularFileOfItsLimit) {
  const TemporaryDirectory directory;
  const auto read = [&](const std::string& name) {
    return ReadWatchedFile("--option", directory.path() + "/" + name, 4);
  };
  std::ofstream(directory.path() + "/file") << "1234";
  EXPECT_EQ(read("file").value_or(""), "1234");
  std::ofstream(directory.path() + "/long") << "12345";
  // Nobody writes to it: who read it would wait.
  ASSERT_EQ(mkfifo((directory.path() + "/pipe").c_str(), 0600), 0);
  for (const char* name : {"long", "pipe", "", "none"}) {
    const absl::Status status = read(name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name << status;
    const std::string named =
        absl::StrCat("--option: ", directory.path(), "/", name, ": ");
    EXPECT_TRUE(absl::StartsWith(status.message(), named)) << status;
    EXPECT_GT(status.message().size(), named.size()) << "and why";
  }
}

}  // namespace
}  // namespace gemmd::jit
