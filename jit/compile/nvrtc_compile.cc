#include "jit/compile/nvrtc_compile.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/compile/compile_input.h"
#include "jit/compile/compile_options.h"

namespace gemmd::jit {
namespace {

// NVRTC reports a lack of memory as a rejected source. It is not: with more
// memory, or at another time, the source compiles.
bool IsOutOfMemory(nvrtcResult result, absl::string_view log) {
  return result == NVRTC_ERROR_OUT_OF_MEMORY ||
         absl::StrContains(log, "out of memory") ||
         absl::StrContains(log, "catastrophic error processing") ||
         absl::StrContains(log, "Memory allocation failure");
}

absl::Status ToStatus(const NvrtcLibrary& library, nvrtcResult result,
                      absl::string_view words) {
  if (result == NVRTC_SUCCESS) return absl::OkStatus();
  if (IsOutOfMemory(result, words)) {
    return absl::ResourceExhaustedError("the compiler ran out of memory");
  }
  return absl::InternalError(
      absl::StrCat("NVRTC: ", library.symbols().get_error_string(result),
                   words.empty() ? "" : "\n", words));
}

class Program {
 public:
  explicit Program(const NvrtcLibrary& library) : library_(library) {}
  ~Program() { library_.symbols().destroy_program(&handle_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  absl::StatusOr<CompileOutput> Compile(
      const std::string& source, const std::vector<std::string>& options) {
    const NvrtcSymbols& nvrtc = library_.symbols();
    RETURN_IF_ERROR(
        ToStatus(library_,
                 nvrtc.create_program(&handle_, source.c_str(), kProgramName, 0,
                                      nullptr, nullptr),
                 ""));
    std::vector<const char*> arguments;
    for (const std::string& option : options) {
      arguments.push_back(option.c_str());
    }
    const nvrtcResult result = nvrtc.compile_program(
        handle_, static_cast<int>(arguments.size()), arguments.data());
    CompileOutput output;
    RETURN_IF_ERROR(
        Read(nvrtc.get_program_log_size, nvrtc.get_program_log, output.log));
    // The log is a C string: its size counts the zero at its end.
    while (!output.log.empty() && output.log.back() == '\0') {
      output.log.pop_back();
    }
    RETURN_IF_ERROR(ToStatus(library_, result, output.log));
    RETURN_IF_ERROR(Read(nvrtc.get_cubin_size, nvrtc.get_cubin, output.cubin));
    return output;
  }

 private:
  template <typename GetSize, typename GetBytes>
  absl::Status Read(GetSize get_size, GetBytes get_bytes, std::string& to) {
    size_t size = 0;
    RETURN_IF_ERROR(ToStatus(library_, get_size(handle_, &size), ""));
    to.resize(size);
    return ToStatus(library_, get_bytes(handle_, to.data()), "");
  }

  const NvrtcLibrary& library_;
  nvrtcProgram handle_ = nullptr;
};

}  // namespace

absl::StatusOr<CompileOutput> CompileWithNvrtc(
    const NvrtcLibrary& library, const std::string& source,
    const std::vector<std::string>& options) {
  RETURN_IF_ERROR(CheckCompileInput(source, options));
  return Program(library).Compile(source, options);
}

}  // namespace gemmd::jit
