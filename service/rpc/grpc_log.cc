#include "service/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include "absl/strings/str_cat.h"
#include "service/log/log.h"

namespace gemmd::rpc {
namespace {

void WriteLine(gpr_log_func_args* line) {
  if (line->severity == GPR_LOG_SEVERITY_DEBUG) return;
  const auto level = line->severity == GPR_LOG_SEVERITY_ERROR
                         ? log::Level::kWarning  // Not always ours to fail.
                         : log::Level::kInfo;
  log::Write(level, "grpc",
             {{"at", absl::StrCat(line->file, ":", line->line)},
              {"message", line->message}});
}

}  // namespace

void RedirectGrpcLog() { gpr_set_log_function(WriteLine); }

}  // namespace gemmd::rpc
