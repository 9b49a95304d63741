// Bundles as strings, for tests.
#ifndef GEMMD_TESTS_JIT_CACHE_BUNDLE_IN_MEMORY_H_
#define GEMMD_TESTS_JIT_CACHE_BUNDLE_IN_MEMORY_H_

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "jit/base/status.h"
#include "jit/cache/bundle.h"

namespace gemmd::jit {

using BundleMembers = std::map<std::string, std::string>;  // Name -> bytes.

inline std::string EncodeBundle(const BundleMembers& members,
                                const std::string& signing_key = "") {
  std::string bundle;
  BundleWriter writer(
      [&bundle](absl::string_view bytes) {
        bundle.append(bytes.data(), bytes.size());
        return absl::OkStatus();
      },
      signing_key);
  for (const auto& [name, bytes] : members) CHECK(writer.Add(name, bytes).ok());
  CHECK(writer.Finish().ok());
  return bundle;
}

inline absl::StatusOr<BundleMembers> DecodeBundle(
    absl::string_view bundle, const std::string& signing_key = "") {
  BundleReader reader(
      [&bundle](char* to, size_t size) -> absl::StatusOr<size_t> {
        const size_t got = std::min(size, bundle.size());
        std::memcpy(to, bundle.data(), got);
        bundle.remove_prefix(got);
        return got;
      },
      signing_key);
  BundleMembers members;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<BundleMember> member, reader.Next());
    if (!member.has_value()) return members;
    members[member->name] = std::move(member->bytes);
  }
}

}  // namespace gemmd::jit

#endif  // GEMMD_TESTS_JIT_CACHE_BUNDLE_IN_MEMORY_H_
