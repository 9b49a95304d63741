#include "jit/compile/nvrtc_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/base/file.h"
#include "jit/base/status.h"

namespace gemmd::jit {

const char kHowToGetNvrtc[] =
    "Compiling needs NVRTC 12.0 or newer: install the CUDA toolkit or `pip "
    "install nvidia-cuda-nvrtc`, and give the folder of libnvrtc.so with "
    "--nvrtc.";

namespace {

constexpr const char* kFileNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr NvrtcVersion kOldest = {12, 0};

template <typename Function>
bool Resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool ResolveAll(void* library, NvrtcSymbols& symbols) {
  return Resolve(library, "nvrtcVersion", symbols.version) &&
         Resolve(library, "nvrtcGetErrorString", symbols.get_error_string) &&
         Resolve(library, "nvrtcCreateProgram", symbols.create_program) &&
         Resolve(library, "nvrtcDestroyProgram", symbols.destroy_program) &&
         Resolve(library, "nvrtcCompileProgram", symbols.compile_program) &&
         Resolve(library, "nvrtcGetProgramLogSize",
                 symbols.get_program_log_size) &&
         Resolve(library, "nvrtcGetProgramLog", symbols.get_program_log) &&
         Resolve(library, "nvrtcGetCUBINSize", symbols.get_cubin_size) &&
         Resolve(library, "nvrtcGetCUBIN", symbols.get_cubin);
}

// What to hand to dlopen, in order.
std::vector<std::string> Candidates(const std::string& path) {
  std::vector<std::string> folders;
  std::vector<std::string> candidates;
  std::error_code error;
  if (!path.empty()) {
    // A slash keeps dlopen from searching its own path for a bare name.
    const std::string absolute = std::filesystem::absolute(path, error);
    if (!std::filesystem::is_directory(path, error)) return {absolute};
    folders = {absolute};
  } else {
    // Where programs are installed, CMakeLists.txt has it as their RPATH, too;
    // a path can be recalled. A bare name is searched by the dynamic loader,
    // first where the program's RPATH says.
    const std::filesystem::path program =
        std::filesystem::read_symlink("/proc/self/exe", error);
    folders = {program.parent_path() / "../lib/gemmd", "",
               "/usr/local/cuda/lib64"};
  }
  for (const std::string& folder : folders) {
    for (const char* name : kFileNames) {
      candidates.push_back(folder.empty() ? name
                                          : absl::StrCat(folder, "/", name));
    }
  }
  return candidates;
}

// The file of a library that dlopen brought; empty when it cannot be told.
std::string FileOf(void* handle) {
  link_map* map = nullptr;
  if (handle == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
    return "";
  return map->l_name;
}

// Loads the builtins, as NVRTC would, and gives their file; "" without any.
//
// NVRTC opens its builtins by bare name when it compiles, and has no search
// path of its own: those beside it serve it once they are loaded. Where there
// are none, the dynamic loader's folders may have them.
std::string LoadBuiltins(const std::string& given, const std::string& library,
                         NvrtcVersion version) {
  const std::string beside = BuiltinsBeside(library, version);
  const std::string name = std::filesystem::path(beside).filename();
  for (const std::string& candidate :
       given.empty() ? std::vector<std::string>{beside, name}
                     : std::vector<std::string>{given}) {
    void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return FileOf(handle);
  }
  return "";
}

// Of the file that a candidate names.
absl::StatusOr<FileStamp> StampAt(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return ErrnoStatus(errno, "open a library");
  return StampOf(file.get());
}

}  // namespace

absl::StatusOr<NvrtcLibrary> NvrtcLibrary::Open(const Options& options) {
  void* handle = nullptr;
  for (const std::string& candidate : Candidates(options.path)) {
    handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
  }
  if (handle == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("libnvrtc was not found. ", kHowToGetNvrtc));
  }
  NvrtcSymbols symbols;
  if (!ResolveAll(handle, symbols)) {
    return absl::FailedPreconditionError(
        absl::StrCat("libnvrtc lacks a function. ", kHowToGetNvrtc));
  }
  NvrtcVersion version;
  if (symbols.version(&version.major, &version.minor) != NVRTC_SUCCESS ||
      version < kOldest) {
    return absl::FailedPreconditionError(
        absl::StrCat("libnvrtc is of version ", version.major, ".",
                     version.minor, ". ", kHowToGetNvrtc));
  }
  std::string file = FileOf(handle);
  std::error_code error;
  const std::filesystem::path canonical =
      std::filesystem::canonical(file, error);
  // One that was replaced meanwhile has no path any more, but a descriptor.
  if (!error) file = canonical;
  ASSIGN_OR_RETURN(
      NvrtcFiles files,
      NvrtcFiles::Open(file, LoadBuiltins(options.builtins, file, version),
                       version));
  return NvrtcLibrary(symbols, std::move(files));
}

absl::StatusOr<FoundNvrtc> FindNvrtc(const NvrtcLibrary::Options& options,
                                     const std::string& memory) {
  // The first file that there is; where the dynamic loader looks is its own.
  absl::StatusOr<FileStamp> stamp = absl::NotFoundError("");
  for (const std::string& candidate : Candidates(options.path)) {
    if (memory.empty() || !absl::StrContains(candidate, '/')) break;
    stamp = StampAt(candidate);
    if (!stamp.ok()) continue;
    std::optional<NvrtcFiles> files = NvrtcFiles::Recall(candidate, memory);
    if (files) return FoundNvrtc{*std::move(files), /*loaded=*/false};
    break;
  }
  ASSIGN_OR_RETURN(const NvrtcLibrary library, NvrtcLibrary::Open(options));
  if (stamp.ok()) library.files().Remember(*stamp, memory);
  return FoundNvrtc{library.files(), /*loaded=*/true};
}

}  // namespace gemmd::jit
