#include "jit/compile/nvrtc_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>

#include <filesystem>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
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

// The file of a library that dlopen brought; empty when it cannot be told.
std::string FileOf(void* handle) {
  link_map* map = nullptr;
  if (handle == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
    return "";
  return map->l_name;
}

// Open for reading, at a number that no worker uses for something else.
UniqueFd OpenToKeep(const std::string& path) {
  constexpr int kLeast = 16;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return UniqueFd(fcntl(file.get(), F_DUPFD_CLOEXEC, kLeast));
}

bool SameContent(int file, const FileStamp& stamp) {
  const absl::StatusOr<FileStamp> now = StampOf(file);
  // The time of change is that of the last link too, which a replacement takes
  // away from a file that stays as it is.
  return now.ok() && now->bytes == stamp.bytes &&
         now->modified_ns == stamp.modified_ns;
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
  library.file_ = FileOf(handle);
  std::error_code error;
  const std::filesystem::path canonical =
      std::filesystem::canonical(library.file_, error);
  // One that was replaced meanwhile has no path any more, but a descriptor.
  if (!error) library.file_ = canonical;
  RETURN_IF_ERROR(library.OpenFiles(options.builtins));
  return library;
}

absl::Status NvrtcLibrary::OpenFiles(const std::string& builtins) {
  // NVRTC opens its builtins by bare name when it compiles, and has no search
  // path of its own: those beside it serve it once they are loaded. Where
  // there are none, the dynamic loader's folders may have them.
  const std::string name = absl::StrCat("libnvrtc-builtins.so.", version_.major,
                                        ".", version_.minor);
  const std::string beside = std::filesystem::path(file_).parent_path() / name;
  void* handle = nullptr;
  for (const std::string& candidate :
       builtins.empty() ? std::vector<std::string>{beside, name}
                        : std::vector<std::string>{builtins}) {
    handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
  }
  auto files = std::make_shared<Files>();
  files->library = OpenToKeep(file_);
  if (!files->library.ok()) {
    return absl::FailedPreconditionError("libnvrtc is not backed by a file");
  }
  ASSIGN_OR_RETURN(files->library_stamp, StampOf(files->library.get()));
  if (const std::string file = FileOf(handle); !file.empty()) {
    files->builtins = OpenToKeep(file);
  }
  if (files->builtins.ok()) {
    ASSIGN_OR_RETURN(files->builtins_stamp, StampOf(files->builtins.get()));
  }
  files_ = std::move(files);
  return absl::OkStatus();
}

bool NvrtcLibrary::Unchanged() const {
  return SameContent(library_file(), files_->library_stamp) &&
         (!files_->builtins.ok() ||
          SameContent(builtins_file(), files_->builtins_stamp));
}

std::string NvrtcLibrary::ReadIdentity(const std::string& memory) const {
  const std::string name =
      absl::StrCat("NVRTC ", version_.major, ".", version_.minor);
  // By their roles, not by their names.
  std::string digests;
  for (const int file : {library_file(), builtins_file()}) {
    if (file < 0) continue;
    const absl::StatusOr<std::string> digest = DigestOfFile(file, memory);
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
