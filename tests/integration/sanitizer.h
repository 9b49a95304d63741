// What sanitizers add to the memory of a process: AddressSanitizer keeps freed
// memory for a while, ThreadSanitizer a shadow of all there is.
#ifndef GEMMD_TESTS_INTEGRATION_SANITIZER_H_
#define GEMMD_TESTS_INTEGRATION_SANITIZER_H_

#include <cstdint>

namespace gemmd::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int64_t kSanitizerBytes = int64_t{2} << 30;
#else
inline constexpr int64_t kSanitizerBytes = 0;
#endif

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_SANITIZER_H_
