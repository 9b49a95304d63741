#include "jit/compile/compile_worker.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "jit/compile/confine.h"
#include "jit/compile/nvrtc_compile.h"
#include "jit/compile/nvrtc_library.h"

namespace gemmd::jit {
namespace {

constexpr char kWorkerFlag[] = "--compile-worker";
constexpr char kWithBuiltins[] = "builtins";
constexpr char kWithoutBuiltins[] = "alone";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;  // Shadow memory is address space too.
constexpr bool kConfines = false;      // Sanitizers call what is refused.
#else
constexpr bool kLimitsMemory = true;
constexpr bool kConfines = true;
#endif

// Address space in use, in bytes; 0 when it cannot be told.
rlim_t AddressSpace() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

// A path of what this process has open as `file`.
std::string FileNumber(int file) {
  return absl::StrCat("/proc/self/fd/", file);
}

void LimitResources(int64_t memory_bytes) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (kLimitsMemory && memory_bytes > 0) {
    // What the program's libraries reserved when it started is not the
    // compile's doing: gigabytes on a machine with many cores.
    const rlim_t limit = AddressSpace() + static_cast<rlim_t>(memory_bytes);
    const rlimit memory = {limit, limit};
    setrlimit(RLIMIT_AS, &memory);
  }
}

// PR_SET_PDEATHSIG would follow the thread that started the worker, which may
// end before its process does. A socket closes with the process.
void ExitWithParent() {
  std::thread([] {
    pollfd poll_fd = {.fd = kWorkerFd, .events = POLLRDHUP, .revents = 0};
    while (poll(&poll_fd, 1, -1) <= 0) {
    }
    _exit(0);
  }).detach();
}

}  // namespace

std::vector<std::string> CompileWorkerArguments(bool has_builtins,
                                                int64_t memory_bytes) {
  return {kWorkerFlag, has_builtins ? kWithBuiltins : kWithoutBuiltins,
          absl::StrCat(memory_bytes)};
}

std::optional<int> RunIfCompileWorker(int argc, char** argv) {
  if (argc != 4 || argv[1] != absl::string_view(kWorkerFlag)) return {};
  int64_t memory_bytes = 0;
  if (!absl::SimpleAtoi(argv[3], &memory_bytes)) return 2;
  const bool has_builtins = argv[2] == absl::string_view(kWithBuiltins);
  LimitResources(memory_bytes);
  const absl::StatusOr<NvrtcLibrary> library = NvrtcLibrary::Open(
      {.path = FileNumber(kLibraryFd),
       .builtins = has_builtins ? FileNumber(kBuiltinsFd) : ""});
  const absl::Status confined =
      kConfines ? ConfineThisProcess() : absl::OkStatus();
  return ServeCompiles(
      [&](const CompileRequest& request) -> absl::StatusOr<CompileOutput> {
        for (const absl::Status& status : {library.status(), confined}) {
          // Of this process, not of the source.
          if (!status.ok()) return absl::UnavailableError(status.message());
        }
        return CompileWithNvrtc(*library, request.source, request.options);
      });
}

int ServeCompiles(
    const std::function<absl::StatusOr<CompileOutput>(const CompileRequest&)>&
        compile) {
  ExitWithParent();
  while (true) {
    const absl::StatusOr<std::string> message =
        ReceiveMessage(kWorkerFd, absl::InfiniteFuture());
    if (!message.ok()) return 0;
    const absl::StatusOr<CompileRequest> request = DecodeRequest(*message);
    if (!request.ok()) return 2;
    const absl::Status sent = SendMessage(
        kWorkerFd, EncodeReply(compile(*request)), absl::InfiniteFuture());
    if (!sent.ok()) return 0;
  }
}

}  // namespace gemmd::jit
