// The entry point of a fuzzer (clang++ -fsanitize=fuzzer,address): the first
// byte chooses the parser.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/cache_parsers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto& parsers = gemmd::fuzz::CacheParsers();
  parsers[data[0] % parsers.size()].parse(
      {reinterpret_cast<const char*>(data) + 1, size - 1});
  return 0;
}
