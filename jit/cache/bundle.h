// A bundle: a cache as one file, to be carried to other machines.
//
// It is a tar archive with a member "entries/<key>" for each kernel and
// "tuning/<key>" for each tuning record, in order of their names, and a last
// member "manifest" that lists the digest and name of every other. Unpacked,
// it is a cache directory. The same members give the same bytes.
#ifndef GEMMD_JIT_CACHE_BUNDLE_H_
#define GEMMD_JIT_CACHE_BUNDLE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

using BundleMembers = std::map<std::string, std::string>;  // Name -> bytes.

// Names have at most 99 characters.
std::string EncodeBundle(const BundleMembers& members);

// The members of `bytes` but the manifest, which was verified. DATA_LOSS says
// what is wrong; any bytes may be given. Whether a member is what its name
// says is for others to check.
absl::StatusOr<BundleMembers> DecodeBundle(absl::string_view bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_BUNDLE_H_
