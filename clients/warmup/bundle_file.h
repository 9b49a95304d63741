// A bundle (jit/cache/bundle.h) that somebody gave us, member by member.
// Thread-compatible.
#ifndef GEMMD_CLIENTS_WARMUP_BUNDLE_FILE_H_
#define GEMMD_CLIENTS_WARMUP_BUNDLE_FILE_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/base/file.h"
#include "jit/compile/compiled_kernel.h"
#include "jit/plan/tuning_record.h"

namespace gemmd::warmup {

// Where they lie in a bundle.
std::string MemberName(const jit::CompiledKernel& kernel);
std::string MemberName(const jit::TuningRecord& record);

// Takes what a member holds; called with members that are what they say.
struct MemberTakers {
  std::function<absl::Status(const jit::CompiledKernel&)> kernel;
  std::function<absl::Status(const jit::TuningRecord&)> record;
};

class BundleFile {
 public:
  // "-" is standard input. What can be read but once, as a pipe, is copied to a
  // file without a name in `directory`, which is made.
  static absl::StatusOr<BundleFile> Open(const std::string& path,
                                         const std::string& directory);

  // Gives all members to `take`. Whether the whole bundle is right shows at its
  // end; so it is read twice, and the second time a member that is not what it
  // was is given to nobody and DATA_LOSS.
  absl::Status Read(const std::string& signing_key, const MemberTakers& take);

 private:
  BundleFile(jit::UniqueFd file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  jit::UniqueFd file_;
  std::string path_;
  // Of the members of the first reading, in order.
  std::optional<std::vector<std::string>> digests_;
};

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_BUNDLE_FILE_H_
