// The device templates: those embedded at build time, or a directory that
// overrides them for kernel authors. Immutable after creation, thread-safe.
#ifndef GEMMD_JIT_SOURCE_TEMPLATE_LIBRARY_H_
#define GEMMD_JIT_SOURCE_TEMPLATE_LIBRARY_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

class TemplateLibrary {
 public:
  // The templates built into this binary.
  static TemplateLibrary Embedded();
  // Every *.h and *.cu file below `directory`. NOT_FOUND when there is none.
  static absl::StatusOr<TemplateLibrary> FromDirectory(
      const std::string& directory);

  // `source` with every #include "..." replaced by the file it names, each
  // file once and without its #pragma once. NOT_FOUND names a missing file.
  absl::StatusOr<std::string> Expand(absl::string_view source) const;

  // SHA-256 over all paths and contents, 64 hexadecimal digits.
  std::string Digest() const;

 private:
  explicit TemplateLibrary(std::map<std::string, std::string> files)
      : files_(std::move(files)) {}

  const std::map<std::string, std::string> files_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_SOURCE_TEMPLATE_LIBRARY_H_
