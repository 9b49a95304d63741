// gemm-warmup and a folder for what it makes.
#ifndef GEMMD_TESTS_CLIENTS_WARMUP_WARMUP_CASE_H_
#define GEMMD_TESTS_CLIENTS_WARMUP_WARMUP_CASE_H_

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::warmup {

class WarmupTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(directory_.path(), "/", name);
  }

  Outcome Compile(const std::string& problems,
                  const std::string& flags = "--nvrtc " GEMMD_TEST_NVRTC) {
    std::ofstream(Path("problems"), std::ios::trunc) << problems;
    return Warmup(absl::StrCat("compile --cache-dir ", Path("cache"), " ",
                               flags, " ", Path("problems")));
  }

  Outcome OnCache(const std::string& command, const std::string& rest = "") {
    return Warmup(
        absl::StrCat(command, " --cache-dir ", Path("cache"), " ", rest));
  }

  const jit::TemporaryDirectory directory_;
};

}  // namespace gemmd::warmup

#endif  // GEMMD_TESTS_CLIENTS_WARMUP_WARMUP_CASE_H_
