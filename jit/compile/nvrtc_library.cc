#include "jit/compile/nvrtc_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/base/sha256.h"
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
    // A bare name is searched by the dynamic loader, first where the program's
    // RPATH says: CMakeLists.txt sets it.
    folders = {"", "/usr/local/cuda/lib64"};
  }
  for (const std::string& folder : folders) {
    for (const char* name : kFileNames) {
      candidates.push_back(folder.empty() ? name
                                          : absl::StrCat(folder, "/", name));
    }
  }
  return candidates;
}

// The library and its builtins, which it opens when it compiles.
std::vector<std::filesystem::path> FilesOf(const std::filesystem::path& file) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(file.parent_path(), error)) {
    if (absl::StartsWith(entry.path().filename().string(),
                         "libnvrtc-builtins.so")) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  files.insert(files.begin(), file);
  return files;
}

absl::StatusOr<std::string> FileDigest(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  Sha256 sha256;
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    sha256.Update({buffer.data(), static_cast<size_t>(file.gcount())});
  }
  if (!file.eof()) {
    return absl::UnavailableError("the files of NVRTC cannot be read");
  }
  return sha256.Bytes();
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
  NvrtcLibrary library;
  if (!ResolveAll(handle, library.symbols_)) {
    return absl::FailedPreconditionError(
        absl::StrCat("libnvrtc lacks a function. ", kHowToGetNvrtc));
  }
  NvrtcVersion& version = library.version_;
  if (library.symbols_.version(&version.major, &version.minor) !=
          NVRTC_SUCCESS ||
      version < kOldest) {
    return absl::FailedPreconditionError(
        absl::StrCat("libnvrtc is of version ", version.major, ".",
                     version.minor, ". ", kHowToGetNvrtc));
  }
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(library.symbols_.version), &info) != 0) {
    std::error_code error;
    library.file_ = std::filesystem::canonical(info.dli_fname, error);
  }
  if (library.file_.empty()) {
    return absl::FailedPreconditionError("libnvrtc is not backed by a file");
  }
  // NVRTC opens its builtins by bare name when it compiles, and has no search
  // path of its own: those beside it serve it once they are loaded. Where
  // there are none, the dynamic loader's folders may have them.
  const std::filesystem::path folder =
      std::filesystem::path(library.file_).parent_path();
  dlopen((folder / absl::StrCat("libnvrtc-builtins.so.", version.major, ".",
                                version.minor))
             .c_str(),
         RTLD_NOW | RTLD_LOCAL);
  return library;
}

std::string NvrtcLibrary::ReadIdentity() const {
  const std::string name =
      absl::StrCat("NVRTC ", version_.major, ".", version_.minor);
  std::string digests;
  for (const std::filesystem::path& file : FilesOf(file_)) {
    const absl::StatusOr<std::string> digest = FileDigest(file);
    if (!digest.ok()) {
      std::random_device random;
      return absl::StrCat(name, " unidentified:", absl::Hex(random()),
                          absl::Hex(random()));
    }
    digests += *digest;
  }
  return absl::StrCat(name,
                      " sha256:", absl::BytesToHexString(Sha256Of(digests)));
}

}  // namespace gemmd::jit
