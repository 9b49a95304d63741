// One function per parser of what others may have written for the cache. Each
// takes any bytes, and neither crashes nor touches anything. They are what a
// fuzzer calls; hostile_content_test.cc calls them in a bounded, seeded loop.
#ifndef GEMMD_TESTS_FUZZ_CACHE_PARSERS_H_
#define GEMMD_TESTS_FUZZ_CACHE_PARSERS_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "jit/base/record.h"
#include "jit/cache/bundle.h"
#include "jit/cache/entry.h"
#include "jit/cache/redis_server_url.h"
#include "jit/cache/signature.h"
#include "jit/cache/tar_header.h"
#include "jit/compile/compile_input.h"
#include "jit/compile/compile_log.h"
#include "jit/compile/cubin.h"
#include "jit/compile/worker_protocol.h"
#include "jit/plan/tuning_record.h"

namespace gemmd::fuzz {

struct Parser {
  const char* name;
  void (*parse)(absl::string_view bytes);
};

inline void ParseBundle(absl::string_view bytes) {
  jit::BundleReader reader(
      [&bytes](char* to, size_t size) -> absl::StatusOr<size_t> {
        const size_t got = std::min(size, bytes.size());
        std::memcpy(to, bytes.data(), got);
        bytes.remove_prefix(got);
        return got;
      },
      "");
  while (true) {
    const auto member = reader.Next();
    if (!member.ok() || !member->has_value()) return;
  }
}

inline void ParseReply(absl::string_view bytes) {
  absl::StatusOr<jit::CompileOutput> output = absl::UnknownError("");
  jit::DecodeReply(bytes, output).IgnoreError();
}

inline const std::vector<Parser>& CacheParsers() {
  static const auto& parsers = *new std::vector<Parser>{
      {"entry", [](auto b) { jit::DecodeEntry(b).status().IgnoreError(); }},
      {"summary", [](auto b) { jit::DecodeSummary(b).status().IgnoreError(); }},
      {"record", [](auto b) { jit::Record::Parse(b).status().IgnoreError(); }},
      {"bundle", ParseBundle},
      {"tar header",
       [](auto b) {
         jit::DecodeTarHeader(b.substr(0, jit::kTarBlock))
             .status()
             .IgnoreError();
       }},
      {"signature",
       [](auto b) { jit::CheckSignature("key", b).status().IgnoreError(); }},
      {"tuning record",
       [](auto b) { jit::DecodeTuningRecord(b).status().IgnoreError(); }},
      {"worker reply", ParseReply},
      {"worker request",
       [](auto b) { jit::DecodeRequest(b).status().IgnoreError(); }},
      {"cubin", [](auto b) { jit::ReadCubin(b).status().IgnoreError(); }},
      {"compile log",
       [](auto b) { jit::ReadCompileLog(b).status().IgnoreError(); }},
      {"compile input",
       [](auto b) {
         jit::CheckCompileInput(b, {std::string(b.substr(0, 40))})
             .IgnoreError();
       }},
      {"Redis URL",
       [](auto b) { jit::ParseRedisUrl(b).status().IgnoreError(); }},
  };
  return parsers;
}

}  // namespace gemmd::fuzz

#endif  // GEMMD_TESTS_FUZZ_CACHE_PARSERS_H_
