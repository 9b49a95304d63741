// A compile worker whose source is an order: what it does instead of
// compiling. With the argument "parent" it is the parent of such a worker.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/worker_pool.h"

namespace gemmd::jit {
namespace {

absl::StatusOr<CompileOutput> Obey(const CompileRequest& request) {
  if (request.source == "crash") abort();
  if (request.source == "exit") _exit(7);
  if (request.source == "hang") absl::SleepFor(absl::InfiniteDuration());
  if (request.source == "reject") return absl::InternalError("nonsense");
  if (request.source == "doze") absl::SleepFor(absl::Milliseconds(300));
  if (request.source == "garbage") {
    const char garbage[] = "\3\0\0\0\0\0\0\0abc";
    if (write(kWorkerFd, garbage, 11) != 11) abort();
  }
  int descriptors = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    ++descriptors;
  }
  return CompileOutput{.cubin = absl::StrCat(getpid()),
                       .log = absl::StrCat(descriptors)};
}

// Prints the worker's process id and waits in a compile that never ends.
int BeParent() {
  WorkerPool pool({.program = "/proc/self/exe"});
  const auto output = pool.Compile({.source = "pid"}, absl::InfiniteFuture());
  if (!output.ok()) return 1;
  std::printf("%s\n", output->cubin.c_str());
  std::fflush(stdout);
  return pool.Compile({.source = "hang"}, absl::InfiniteFuture()).ok();
}

}  // namespace
}  // namespace gemmd::jit

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == absl::string_view("parent")) {
    return gemmd::jit::BeParent();
  }
  return gemmd::jit::ServeCompiles(gemmd::jit::Obey);
}
