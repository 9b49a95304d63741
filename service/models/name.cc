#include "service/models/name.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "jit/base/printable.h"
#include "service/models/model.h"

namespace gemmd::models {
namespace {

constexpr size_t kMaxBytes = 64;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
}

}  // namespace

absl::Status CheckName(absl::string_view name) {
  if (!name.empty() && name.size() <= kMaxBytes && name != kMatmul &&
      name[0] != '.' && absl::c_all_of(name, IsNameCharacter)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("name is '", jit::Printable(name.substr(0, kMaxBytes)),
                   "'; allowed: 1 to ", kMaxBytes,
                   " letters, digits and \"_.-\", not \".\" first, and not ",
                   kMatmul, ", which is there"));
}

}  // namespace gemmd::models
