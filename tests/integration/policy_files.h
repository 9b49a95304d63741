// A folder with a policy, tokens and, for TLS, certificates, as a test wants
// them. Removed at its end.
#ifndef GEMMD_TESTS_INTEGRATION_POLICY_FILES_H_
#define GEMMD_TESTS_INTEGRATION_POLICY_FILES_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "service/identity/gate.h"

namespace gemmd::testing {

class PolicyFiles {
 public:
  PolicyFiles() {
    char path[] = "/tmp/gemmd_test_XXXXXX";
    CHECK(mkdtemp(path) != nullptr);
    folder_ = path;
  }
  ~PolicyFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // In one step, so that nobody reads half of it.
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
    return path;
  }
  // `principals`: JSON of gemmd.v1.Principal, separated by commas.
  std::string WritePolicy(const std::string& principals) const {
    return Write("policy",
                 absl::StrCat("{\"principals\": [", principals, "]}"));
  }

  // One that a test can tell from others, and its line.
  static std::string TokenOf(const std::string& name) {
    return absl::StrCat("token-of-", name, "-0123456789");
  }
  static std::string LineOf(const std::string& name,
                            const std::string& until = "") {
    jit::Sha256 sha256;
    sha256.Update(TokenOf(name));
    return absl::StrCat(name, " ", sha256.Hex(), " ", until, "\n");
  }

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_POLICY_FILES_H_
