#include "tests/emulator/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemmd::emulator {
namespace {

namespace fs = std::filesystem;

// A folder for this process, gone with it.
const fs::path& Folder() {
  static const fs::path& folder = []() -> const fs::path& {
    auto& made = *new fs::path(fs::temp_directory_path() /
                               absl::StrCat("gemmd-emulator-", getpid()));
    fs::create_directories(made);
    if (getenv("GEMMD_EMULATOR_KEEP") == nullptr) {
      atexit([] {
        std::error_code ignored;
        fs::remove_all(Folder(), ignored);
      });
    }
    return made;
  }();
  return folder;
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
  const fs::path base = Folder() / absl::StrCat(name, ".", ++count);
  const std::string path = base.string();
  std::ofstream(path + ".cc") << source;
  const std::string command = absl::StrCat(
      "cd ", GEMMD_EMULATOR_ROOT, " && ", GEMMD_EMULATOR_COMPILE,
      " -I tests/emulator -I ", templates.empty() ? "templates" : templates,
      " -I . -c -o ", path, ".o ", path, ".cc 2> ", path, ".log && ",
      GEMMD_EMULATOR_LINK, " -o ", path, ".so ", path, ".o 2>> ", path, ".log");
  if (std::system(command.c_str()) != 0) {
    return absl::InternalError(
        absl::StrCat(command, "\n", TextOf(path + ".log")));
  }
  void* const handle = dlopen((path + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return absl::InternalError(dlerror());
  return std::unique_ptr<Module>(new Module(handle));
}

Module::~Module() { dlclose(handle_); }

void* Module::Symbol(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace gemmd::emulator
