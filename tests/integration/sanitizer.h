// What sanitizers add to the memory of a process: AddressSanitizer keeps freed
// memory for a while, ThreadSanitizer a shadow of all there is. And how many
// times as long what computes may take.
#ifndef GEMMD_TESTS_INTEGRATION_SANITIZER_H_
#define GEMMD_TESTS_INTEGRATION_SANITIZER_H_

#include <cstdint>

namespace gemmd::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int64_t kSanitizerBytes = int64_t{2} << 30;
inline constexpr int kSanitizerSlowness = 4;
#else
inline constexpr int64_t kSanitizerBytes = 0;
inline constexpr int kSanitizerSlowness = 1;
#endif

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_SANITIZER_H_
