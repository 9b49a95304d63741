// What clang's libFuzzer calls, of the parser that GEMMD_FUZZ_PARSER names: see
// run.sh.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "tests/fuzz/cache_parsers.h"

namespace gemmd::fuzz {
namespace {

const Parser* chosen = nullptr;

}  // namespace
}  // namespace gemmd::fuzz

// Lists the parsers when none is named.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const name = std::getenv("GEMMD_FUZZ_PARSER");
  for (const gemmd::fuzz::Parser& parser : gemmd::fuzz::CacheParsers()) {
    if (name == nullptr) std::puts(parser.name);
    if (absl::string_view(name == nullptr ? "" : name) == parser.name) {
      gemmd::fuzz::chosen = &parser;
    }
  }
  if (gemmd::fuzz::chosen == nullptr) std::exit(name == nullptr ? 0 : 2);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gemmd::fuzz::chosen->parse({reinterpret_cast<const char*>(data), size});
  return 0;
}
