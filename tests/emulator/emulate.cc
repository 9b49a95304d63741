// Runs cases (case.h) on the emulator:
//
//   emulate [--seeds N] [--templates DIR] CASE...
//   emulate --seeds 8 'x: bf16 TN 130 70 200 ; 128x64 pp s3'
//   emulate --file tests/emulator/cases.txt
//
// Prints what hardware leaves undefined and where results are wrong; exit code
// 1 when there is anything.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "jit/problem/problem_line.h"
#include "tests/emulator/product.h"

namespace gemmd::emulator {
namespace {

// The number of seeds that showed something.
int Run(const Case& c, const std::string& templates, int first, int seeds) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };
  const auto kernels = CompileCase(c, templates);
  if (!kernels.ok()) {
    std::printf("%s: %s\n", c.name.c_str(),
                std::string(kernels.status().message()).c_str());
    return 1;
  }
  const double compiled = seconds();
  int bad = 0;
  for (const auto& problems : c.launches()) {
    for (int seed = first; seed < first + seeds; ++seed) {
      const auto faults =
          RunLaunch(c, *kernels, problems, static_cast<uint64_t>(seed));
      if (faults.ok() && faults->empty()) continue;
      ++bad;
      std::printf("%s: %s, seed %d\n", c.name.c_str(),
                  jit::ProblemLine(problems[0]).c_str(), seed);
      if (!faults.ok()) {
        std::printf("  %s\n", faults.status().ToString().c_str());
        continue;
      }
      for (const std::string& fault : *faults) {
        std::printf("  %s\n", fault.c_str());
      }
    }
  }
  std::printf("%-24s %d bad; %.1f s to compile, %.2f s to run\n",
              c.name.c_str(), bad, compiled, seconds() - compiled);
  std::fflush(stdout);
  return bad;
}

}  // namespace
}  // namespace gemmd::emulator

int main(int argc, char** argv) {
  CLI::App app("Runs kernels on the emulator");
  int first = 0, seeds = 1;
  std::string file, templates;
  std::vector<std::string> lines;
  app.add_option("--seeds", seeds, "orders to try");
  app.add_option("--first", first, "seed of the first");
  app.add_option("--file", file, "cases, one a line");
  app.add_option("--templates", templates, "folder of the templates");
  app.add_option("case", lines, "NAME: PROBLEM ; CONFIG [; M N K, ...]");
  CLI11_PARSE(app, argc, argv);
  using namespace gemmd::emulator;
  std::vector<Case> cases;
  if (!file.empty()) {
    const auto read = ReadCases(file);
    if (!read.ok()) {
      std::fprintf(stderr, "%s\n", read.status().ToString().c_str());
      return 2;
    }
    cases = *read;
  }
  for (const std::string& line : lines) {
    const auto parsed = ParseCase(line);
    if (!parsed.ok()) {
      std::fprintf(stderr, "%s\n", parsed.status().ToString().c_str());
      return 2;
    }
    cases.push_back(*parsed);
  }
  int bad = 0;
  for (const Case& c : cases) bad += Run(c, templates, first, seeds);
  return bad == 0 ? 0 : 1;
}
