// RETURN_IF_ERROR, ASSIGN_OR_RETURN and CHECK: errors are values, broken
// invariants stop the process.
#ifndef GEMMD_JIT_BASE_STATUS_H_
#define GEMMD_JIT_BASE_STATUS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Returns from the enclosing function when `expr` is not OK.
#define RETURN_IF_ERROR(expr)                           \
  do {                                                  \
    if (absl::Status status_ = (expr); !status_.ok()) { \
      return status_;                                   \
    }                                                   \
  } while (false)

// ASSIGN_OR_RETURN(auto x, F()): x = *F(), or returns F's status.
#define ASSIGN_OR_RETURN(lhs, expr) \
  GEMMD_ASSIGN_OR_RETURN_(GEMMD_CONCAT_(status_or_, __LINE__), lhs, expr)
#define GEMMD_ASSIGN_OR_RETURN_(result, lhs, expr) \
  auto result = (expr);                            \
  if (!result.ok()) return result.status();        \
  lhs = *std::move(result)
#define GEMMD_CONCAT_(a, b) GEMMD_CONCAT_INNER_(a, b)
#define GEMMD_CONCAT_INNER_(a, b) a##b

// Aborts with file, line and condition when an invariant is broken. Never for
// input, disks, compilers or devices: those return a Status.
#define CHECK(condition)              \
  ((condition) ? static_cast<void>(0) \
               : ::gemmd::jit::CheckFailed(__FILE__, __LINE__, #condition))

namespace gemmd::jit {

// An error of one of many, which its text names: "steps[2]: ...". Payloads
// stay.
absl::Status OfElement(absl::string_view of, size_t i,
                       const absl::Status& error);

[[noreturn]] void CheckFailed(const char* file, int line,
                              absl::string_view condition);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_STATUS_H_
