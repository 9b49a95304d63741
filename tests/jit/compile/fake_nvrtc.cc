// A shared library that passes for NVRTC 13.0: makes the cubins of
// tests/jit/fake_cubin.h, and does what GEMMD_FAKE_NVRTC or a line
// "// order: ..." of the source tells it to. "loop:TEXT" never ends and
// "crash:TEXT" crashes where the source has that text.
#include <fcntl.h>
#include <linux/sched.h>
#include <nvrtc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/jit/fake_cubin.h"

namespace {

struct FakeProgram {
  std::string source;
  std::string log;
  std::string cubin;
};

FakeProgram* From(nvrtcProgram program) {
  return reinterpret_cast<FakeProgram*>(program);
}

std::string Order(const std::string& source) {
  if (const char* order = std::getenv("GEMMD_FAKE_NVRTC")) return order;
  constexpr char kMark[] = "// order: ";
  const size_t at = source.find(kMark);
  if (at == source.npos) return "";
  const size_t start = at + std::strlen(kMark);
  return source.substr(start, source.find('\n', start) - start);
}

// Whether `order` is `what` with a text that `source` has.
bool Means(const std::string& order, const std::string& what,
           const std::string& source) {
  return order.starts_with(what) &&
         source.find(order.substr(what.size())) != source.npos;
}

// What the system says of it: "Success" or why not.
std::string Try(const std::string& what, const std::string& argument) {
  errno = 0;
  if (what == "write") {
    const int file = open(argument.c_str(), O_WRONLY | O_CREAT, 0600);
    if (file >= 0) close(file);
  } else if (what == "read") {
    const int file = open(argument.c_str(), O_RDONLY);
    if (file >= 0) close(file);
  } else if (what == "connect") {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, argument.c_str(),
                 sizeof(address.sun_path) - 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (socket >= 0) {
      if (connect(socket, reinterpret_cast<const sockaddr*>(&address),
                  sizeof(address)) == 0) {
        errno = 0;
      }
    }
  } else if (what == "exec") {
    execl(argument.c_str(), argument.c_str(), nullptr);
  } else if (what == "own") {  // A process that a socket is to signal.
    const int socket = 3;      // The worker's.
    if (fcntl(socket, F_SETOWN, std::atoi(argument.c_str())) == 0) errno = 0;
  } else if (what == "unlink") {
    if (unlink(argument.c_str()) == 0) errno = 0;
  } else if (what == "signal") {  // A process, with a signal that is none.
    const int process = std::atoi(argument.c_str());
    syscall(SYS_tgkill, process, process, 0);
  } else if (what == "limit") {  // A process that is to dump no core.
    const rlimit none = {0, 0};
    syscall(SYS_prlimit64, std::atoi(argument.c_str()), RLIMIT_CORE, &none,
            nullptr);
  } else if (what == "start") {  // A process, by either call that does it.
    clone_args flags = {.exit_signal = SIGCHLD};
    const long process = argument == "clone3"
                             ? syscall(SYS_clone3, &flags, sizeof(flags))
                             : fork();
    if (process == 0) _exit(0);
  }
  return std::strerror(errno);
}

}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult) { return "FAKE_ERROR"; }

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source,
                               const char*, int, const char* const*,
                               const char* const*) {
  auto* const made = new FakeProgram;
  made->source = source;
  *program = reinterpret_cast<nvrtcProgram>(made);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete From(*program);
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram handle, int, const char* const*) {
  FakeProgram& program = *From(handle);
  const std::string order = Order(program.source);
  if (order == "crash" || Means(order, "crash:", program.source)) abort();
  if (Means(order, "loop:", program.source)) {
    for (volatile bool ends = false; !ends;) {
    }
  }
  program.log = gemmd::jit::FakeLog();
  if (order == "reject") {
    program.log = "nonsense";
    return NVRTC_ERROR_COMPILATION;
  }
  program.cubin = gemmd::jit::FakeCubin();
  if (const size_t space = order.find(' '); space != order.npos) {
    program.log +=
        "order: " + Try(order.substr(0, space), order.substr(space + 1)) + "\n";
  }
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = From(program)->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* to) {
  std::memcpy(to, From(program)->log.c_str(), From(program)->log.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  *size = From(program)->cubin.size();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* to) {
  std::memcpy(to, From(program)->cubin.data(), From(program)->cubin.size());
  return NVRTC_SUCCESS;
}

}  // extern "C"
