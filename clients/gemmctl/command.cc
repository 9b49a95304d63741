#include "clients/gemmctl/command.h"

#include <google/protobuf/util/json_util.h>

#include <cstdio>

#include "absl/strings/str_format.h"

namespace gemmd::gemmctl {
namespace {

void Print(const absl::Status& status) {
  absl::FPrintF(stderr, "gemmctl: %s: %s\n",
                absl::StatusCodeToString(status.code()), status.message());
}

}  // namespace

int Fail(const absl::Status& status) {
  Print(status);
  return absl::IsUnavailable(status) ? kUnreachable : kServerError;
}

int FailUsage(const absl::Status& status) {
  absl::FPrintF(stderr, "gemmctl: %s\n", status.message());
  return kUsage;
}

int FailFile(const absl::Status& status) {
  absl::FPrintF(stderr, "gemmctl: %s\n", status.message());
  return kFileError;
}

void PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  // Fails only for messages with foreign Any fields; the API has none.
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  std::fputs(text.c_str(), stdout);
}

}  // namespace gemmd::gemmctl
