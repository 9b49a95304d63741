#include "service/rpc/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "service/log/log.h"

namespace gemmd::rpc {
namespace {

void WriteGrpcLine(gpr_log_func_args* line) {
  if (line->severity == GPR_LOG_SEVERITY_DEBUG) return;
  const auto level = line->severity == GPR_LOG_SEVERITY_ERROR
                         ? log::Level::kWarning  // Not always ours to fail.
                         : log::Level::kInfo;
  log::Write(level, "grpc",
             {{"at", absl::StrCat(line->file, ":", line->line)},
              {"message", line->message}});
}

// Clients make protobuf write lines: of texts that are not UTF-8, say.
void WriteProtobufLine(google::protobuf::LogLevel level, const char* file,
                       int line, const std::string& message) {
  log::Write(level == google::protobuf::LOGLEVEL_FATAL ? log::Level::kError
                                                       : log::Level::kInfo,
             "protobuf",
             {{"at", absl::StrCat(file, ":", line)}, {"message", message}});
}

}  // namespace

void RedirectLibraryLogs() {
  gpr_set_log_function(WriteGrpcLine);
  google::protobuf::SetLogHandler(WriteProtobufLine);
}

}  // namespace gemmd::rpc
