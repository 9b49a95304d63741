// The text of an instance and its SHA-256, computed once, when the text is
// given: neither can change without the other. Thread-compatible.
#ifndef GEMMD_JIT_SOURCE_SOURCE_H_
#define GEMMD_JIT_SOURCE_SOURCE_H_

#include <string>
#include <utility>

#include "jit/base/sha256.h"

namespace gemmd::jit {

// After a move, only assignment and destruction.
class Source {
 public:
  Source() : Source(std::string()) {}
  // Implicit: a source is its text.
  Source(std::string text)  // NOLINT(google-explicit-constructor)
      : text_(std::move(text)), digest_(Sha256Of(text_)) {}
  Source(const char* text)  // NOLINT(google-explicit-constructor)
      : Source(std::string(text)) {}

  const std::string& text() const { return text_; }
  // kSha256Bytes bytes.
  const std::string& digest() const { return digest_; }

 private:
  // In this order: the digest is that of the text that was moved in.
  std::string text_;
  std::string digest_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_SOURCE_SOURCE_H_
