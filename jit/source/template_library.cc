#include "jit/source/template_library.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/source/embedded_templates.h"

namespace gemmd::jit {
namespace {

using Files = std::map<std::string, std::string>;

// The name in `#include "name"`, or empty.
absl::string_view IncludedFile(absl::string_view line) {
  if (!absl::ConsumePrefix(&line, "#include \"")) return {};
  return line.substr(0, line.find('"'));
}

// A chain of includes is followed by recursion.
constexpr size_t kMaxDepth = 64;

absl::Status Append(const Files& files, absl::string_view source, size_t depth,
                    std::set<std::string>& seen, std::string& expanded) {
  if (depth > kMaxDepth) {
    return absl::FailedPreconditionError(absl::StrCat(
        "templates include each other more than ", kMaxDepth, " deep"));
  }
  for (absl::string_view line :
       absl::StrSplit(absl::StripSuffix(source, "\n"), '\n')) {
    if (absl::StartsWith(line, "#pragma once")) continue;
    const std::string name(IncludedFile(line));
    if (name.empty()) {
      absl::StrAppend(&expanded, line, "\n");
      continue;
    }
    if (!seen.insert(name).second) continue;
    const auto file = files.find(name);
    if (file == files.end()) {
      return absl::NotFoundError(
          absl::StrCat("template \"", name, "\" is included but missing"));
    }
    RETURN_IF_ERROR(Append(files, file->second, depth + 1, seen, expanded));
  }
  return absl::OkStatus();
}

}  // namespace

TemplateLibrary TemplateLibrary::Embedded() {
  Files files;
  for (int i = 0; i < kEmbeddedTemplateCount; ++i) {
    files.emplace(kEmbeddedTemplates[i].path, kEmbeddedTemplates[i].content);
  }
  return TemplateLibrary(std::move(files));
}

absl::StatusOr<TemplateLibrary> TemplateLibrary::FromDirectory(
    const std::string& directory) {
  namespace fs = std::filesystem;
  Files files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end;
       !error && it != end; it.increment(error)) {
    const fs::path& path = it->path();
    if (path.extension() != ".h" && path.extension() != ".cu") continue;
    std::ostringstream content;
    content << std::ifstream(path).rdbuf();
    files.emplace(fs::relative(path, directory).generic_string(),
                  content.str());
  }
  if (files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no template (*.h, *.cu) in the template directory",
                     error ? absl::StrCat(": ", error.message()) : ""));
  }
  return TemplateLibrary(std::move(files));
}

absl::StatusOr<std::string> TemplateLibrary::Expand(
    absl::string_view source) const {
  std::string expanded;
  std::set<std::string> seen;
  RETURN_IF_ERROR(Append(files_, source, 0, seen, expanded));
  return expanded;
}

std::string TemplateLibrary::Digest() const {
  Sha256 digest;
  for (const auto& [path, content] : files_) {
    digest.UpdateField(path);
    digest.UpdateField(content);
  }
  return digest.Hex();
}

}  // namespace gemmd::jit
