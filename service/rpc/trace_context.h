// Which trace a call belongs to: W3C Trace Context, https://www.w3.org/TR/
// trace-context/. The daemon makes no spans of its own; it passes on what the
// client sent. Pure functions.
#ifndef GEMMD_SERVICE_RPC_TRACE_CONTEXT_H_
#define GEMMD_SERVICE_RPC_TRACE_CONTEXT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace gemmd::rpc {

inline constexpr char kTraceparent[] = "traceparent";

// Lower-case hexadecimal digits, neither of the ids all zero.
struct TraceContext {
  std::string trace_id;   // 32.
  std::string parent_id;  // 16.
  std::string flags;      // 2.

  // As version 00 has it.
  std::string Header() const;
};

// Nothing where `header` is not as the standard wants it. Of a later version
// than 00, what is known of it.
std::optional<TraceContext> ParseTraceparent(absl::string_view header);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_TRACE_CONTEXT_H_
