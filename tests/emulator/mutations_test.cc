// Mistakes in device code, one at a time: each is planted in a copy of the
// templates, and the emulator has to say what it is.
#include "tests/emulator/mutations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/emulator/product.h"

namespace gemmd::emulator {

void PrintTo(const Mutation& mutation, std::ostream* out) {
  *out << mutation.name;
}

namespace {

namespace fs = std::filesystem;

std::string TextOf(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class MutationsTest : public testing::TestWithParam<Mutation> {
 protected:
  // The same mutant has the same path: see WriteSource in module.cc.
  MutationsTest() : templates_(fs::path(GEMMD_TEST_MUTANTS) / GetParam().name) {
    fs::remove_all(templates_);
    fs::create_directories(templates_);
    fs::copy(GEMMD_TEST_TEMPLATES, templates_, fs::copy_options::recursive);
  }
  ~MutationsTest() override { fs::remove_all(templates_); }

  // Whether the text to replace stood there once.
  bool Plant(const Mutation& mutation) {
    const fs::path path = templates_ / mutation.file;
    std::string text = TextOf(path);
    const int count =
        absl::StrReplaceAll({{mutation.from, mutation.to}}, &text);
    std::ofstream(path) << text;
    return count == 1;
  }

  const fs::path templates_;
};

TEST_P(MutationsTest, IsCaughtByItsCause) {
  const Mutation& mutation = GetParam();
  ASSERT_TRUE(Plant(mutation)) << "the text to change is not there once";
  const auto c = ParseCase(absl::StrCat("mutant: ", mutation.line));
  ASSERT_TRUE(c.ok()) << c.status();
  const auto kernels = CompileCase(*c, templates_.string());
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  std::vector<std::string> all;
  constexpr uint64_t kSeeds = 8;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto faults = RunLaunch(*c, *kernels, c->launches()[0], seed);
    ASSERT_TRUE(faults.ok()) << faults.status();
    for (const std::string& fault : *faults) {
      if (absl::StrContains(fault, mutation.cause)) return;
    }
    all.insert(all.end(), faults->begin(), faults->end());
  }
  ADD_FAILURE() << "none of " << all.size() << " reports says '"
                << mutation.cause << "'";
  for (const std::string& fault : all) ADD_FAILURE() << fault;
}

// Whether it leaves out the assertion that keeps its line from being compiled.
bool LetsItsLinePass(const Mutation& mutation) {
  return absl::EndsWith(mutation.from, "C::kGroupsInFlight == 0");
}

// But for those the cases of the mutations are sound.
TEST(SoundTest, NothingIsSaidOfWhatIsRight) {
  std::map<std::string, bool> are_sound;
  for (const Mutation& mutation : Mutations()) {
    are_sound[mutation.line] = !LetsItsLinePass(mutation);
  }
  for (const auto& [line, is_sound] : are_sound) {
    const auto c = ParseCase(absl::StrCat("sound: ", line));
    ASSERT_TRUE(c.ok()) << c.status();
    const auto kernels = CompileCase(*c);
    EXPECT_EQ(kernels.ok(), is_sound) << line << ": " << kernels.status();
    for (uint64_t seed = 0; kernels.ok() && seed < 4; ++seed) {
      const auto faults = RunLaunch(*c, *kernels, c->launches()[0], seed);
      ASSERT_TRUE(faults.ok()) << faults.status();
      EXPECT_TRUE(faults->empty()) << line << ": " << faults->front();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MutationsTest, testing::ValuesIn(Mutations()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace gemmd::emulator
