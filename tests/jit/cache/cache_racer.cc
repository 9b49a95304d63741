// One process of a race for a cache directory: gets a kernel whose compile
// takes a while and prints how often this process compiled.
//
//   cache_racer DIRECTORY SOURCE COMPILE_MS
#include <cstdio>
#include <cstdlib>

#include "absl/time/clock.h"
#include "tests/jit/fake_compiler.h"

int main(int argc, char** argv) {
  using namespace gemmd::jit;
  if (argc != 4) return 2;
  const absl::Duration takes = absl::Milliseconds(std::atoi(argv[3]));
  auto control = std::make_shared<FakeCompiler::Control>();
  control->behave = [&](const Instance&, absl::Time) {
    absl::SleepFor(takes);
    return CompileOutput{.cubin = FakeCubin(), .log = FakeLog()};
  };
  // However slow the machine is, who compiles is waited for.
  auto cache = KernelCache::Create(
      {.directory = argv[1], .lock_timeout = absl::Minutes(1)},
      std::make_unique<FakeCompiler>(control));
  const auto result = cache->Get({.name = "raced", .source = argv[2]},
                                 absl::Now() + absl::Seconds(60));
  if (!result.ok()) return 1;
  std::printf("%d\n", control->compiles.load());
  return 0;
}
