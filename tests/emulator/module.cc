#include "tests/emulator/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "jit/base/sha256.h"

namespace gemmd::emulator {
namespace {

namespace fs = std::filesystem;

// A folder for this process, gone with it.
const fs::path& Folder() {
  static const fs::path& folder = []() -> const fs::path& {
    auto& made = *new fs::path(fs::temp_directory_path() /
                               absl::StrCat("gemmd-emulator-", getpid()));
    fs::create_directories(made);
    atexit([] {
      std::error_code ignored;
      fs::remove_all(Folder(), ignored);
    });
    return made;
  }();
  return folder;
}

// The same source has the same path, so that the compiler's cache knows it and
// a debugger finds it.
// Relative to the root of the project.
fs::path WriteSource(const std::string& name, const std::string& source) {
  const std::string digest = absl::BytesToHexString(jit::Sha256Of(source));
  const fs::path path = fs::path(GEMMD_EMULATOR_SOURCES) /
                        absl::StrCat(name, ".", digest.substr(0, 16), ".cc");
  const fs::path place = fs::path(GEMMD_EMULATOR_ROOT) / path;
  if (fs::exists(place)) return path;
  fs::create_directories(place.parent_path());
  const fs::path temporary = absl::StrCat(place.string(), ".", getpid());
  std::ofstream(temporary) << source;
  fs::rename(temporary, place);
  return path;
}

std::string TextOf(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Module>> Module::Compile(
    const std::string& name, const std::string& source,
    const std::string& templates) {
  static int count = 0;
  const std::string output =
      (Folder() / absl::StrCat(name, ".", ++count)).string();
  const std::string log = absl::StrCat(output, ".log");
  const std::string command = absl::StrCat(
      "cd ", GEMMD_EMULATOR_ROOT, " && ", GEMMD_EMULATOR_COMPILE,
      " -I tests/emulator -I ", templates.empty() ? "templates" : templates,
      " -I . -c -o ", output, ".o ", WriteSource(name, source).string(), " 2> ",
      log, " && ", GEMMD_EMULATOR_LINK, " -o ", output, ".so ", output,
      ".o 2>> ", log);
  if (std::system(command.c_str()) != 0) {
    return absl::InternalError(absl::StrCat(command, "\n", TextOf(log)));
  }
  void* const handle = dlopen((output + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::InternalError(dlerror());
  return std::unique_ptr<Module>(new Module(handle));
}

Module::~Module() { dlclose(handle_); }

void* Module::Symbol(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace gemmd::emulator
