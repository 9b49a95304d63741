// kernels/repitch.cu, which every odd leading dimension passes through: lines
// come out whole, and nothing beyond what it may touch is touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "jit/source/instance.h"
#include "templates/common/arguments.h"
#include "tests/emulator/host_source.h"
#include "tests/emulator/machine/global_memory.h"
#include "tests/emulator/machine/grid.h"
#include "tests/emulator/module.h"

namespace gemmd::emulator {
namespace {

class RepitchTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto source = HostRepitchSource();
    ASSERT_TRUE(source.ok()) << source.status();
    auto module = Module::Compile("repitch", *source);
    ASSERT_TRUE(module.ok()) << module.status();
    module_ = module->release();
  }
  static void TearDownTestSuite() { delete module_; }

  // Copies lines of `width` bytes between pitches, by `ctas` CTAs. Blocks end
  // where matrices do, rounded up to whole words.
  static void ExpectCopies(int64_t width, int64_t from_pitch, int64_t to_pitch,
                           int ctas) {
    SCOPED_TRACE(testing::Message()
                 << width << " bytes, " << from_pitch << " to " << to_pitch);
    constexpr int64_t kLines = 37;
    GlobalBlock from(static_cast<size_t>(kLines * from_pitch));
    GlobalBlock to(static_cast<size_t>(kLines * to_pitch));
    for (size_t i = 0; i < from.size(); ++i) {
      from.data()[i] = static_cast<char>(i * 7 % 251);
    }
    std::memset(to.data(), 0x5b, to.size());
    const RepitchArguments arguments = {.from = from.data(),
                                        .to = to.data(),
                                        .from_pitch = from_pitch,
                                        .to_pitch = to_pitch,
                                        .width = width,
                                        .lines = kLines};
    const auto kernel = module_->Kernel<RepitchArguments>(jit::kKernelSymbol);
    Reports reports;
    from.Lock();
    to.Lock();
    RunGrid(
        {.ctas = ctas,
         .threads = kRepitchThreads,
         .seed = static_cast<uint64_t>(width),
         .dependencies =
             [&] {
               from.Unlock();
               to.Unlock();
             }},
        [&] { kernel(arguments); }, reports);
    EXPECT_THAT(reports.texts(), testing::IsEmpty());
    int64_t wrong = 0;
    for (int64_t line = 0; line < kLines; ++line) {
      wrong += std::memcmp(to.data() + line * to_pitch,
                           from.data() + line * from_pitch,
                           static_cast<size_t>(width)) != 0;
    }
    EXPECT_EQ(wrong, 0) << "lines differ";
  }

  static inline Module* module_ = nullptr;
};

TEST_F(RepitchTest, PacksLinesOfAnyWidth) {
  for (const int64_t width : {1, 2, 15, 16, 17, 33, 100, 255, 256}) {
    ExpectCopies(width, width, (width + 15) / 16 * 16, 2);
    ExpectCopies(width, width + 3, (width + 127) / 128 * 128, 1);
  }
}

TEST_F(RepitchTest, UnpacksLinesOfAnyWidth) {
  for (const int64_t width : {1, 2, 15, 17, 33, 100, 255}) {
    ExpectCopies(width, (width + 15) / 16 * 16, width, 2);
    ExpectCopies(width, (width + 127) / 128 * 128, width, 1);
  }
}

}  // namespace
}  // namespace gemmd::emulator
