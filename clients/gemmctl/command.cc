#include "clients/gemmctl/command.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/cli/address.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/operand.h"

namespace gemmd::gemmctl {
namespace {

struct Connection {
  std::string server;
  client::Security security;  // What flags say.
  absl::Duration timeout;
  absl::Duration wait = absl::Seconds(10);
  bool checksums = false;
};

absl::StatusOr<int> Connect(const Connection& connection,
                            const std::function<int(client::Client&)>& body) {
  RETURN_IF_ERROR(cli::CheckServer(connection.server));
  client::Options options;
  ASSIGN_OR_RETURN(options.security, client::Security::Default());
  for (const client::SecurityOption& option : client::SecurityOptions()) {
    const std::string& given = connection.security.*option.file;
    if (!given.empty()) options.security.*option.file = given;
  }
  RETURN_IF_ERROR(client::CheckSecurity(options.security, connection.server));
  options.checksums = connection.checksums;
  options.connect_timeout = connection.wait;
  if (connection.timeout > absl::ZeroDuration()) {
    options.timeout = connection.timeout;
    options.connect_timeout = std::min(connection.wait, connection.timeout);
  }
  const auto client = client::Client::Connect(connection.server, options);
  // Of files of the command line.
  if (absl::IsInvalidArgument(client.status())) return client.status();
  if (!client.ok()) return Fail(client.status());
  return body(**client);
}

}  // namespace

void RunWithClient(cli::Command& command,
                   std::function<int(client::Client&)> body,
                   absl::Duration timeout) {
  const auto connection = std::make_shared<Connection>();
  connection->timeout = timeout;
  constexpr absl::Duration kDay = absl::Hours(24);
  command.Heading("Connection");
  command.Server(connection->server);
  for (const client::SecurityOption& option : client::SecurityOptions()) {
    command.File(
        absl::StrCat("--", option.name, " FILE"),
        connection->security.*option.file,
        absl::StrCat(option.help, " Default: $", option.environment,
                     ", else what the file of $GEMMD_CONFIG says."));
  }
  command.Duration("--timeout TIME", connection->timeout, absl::Seconds(1),
                   {absl::ZeroDuration(), kDay},
                   "Time limit of every call; 0: none.");
  command.Switch("--checksums", connection->checksums,
                 "Guard matrices by a CRC-32C from memory to memory.");
  command.Duration("--wait TIME", connection->wait, absl::Seconds(1),
                   {absl::ZeroDuration(), kDay},
                   "Wait so long for the daemon to answer.");
  command.Run([connection, body = std::move(body)] {
    return Connect(*connection, body);
  });
}

void TypeOption(cli::Command& command, const std::string& name,
                v1::DataType& to, const std::string& help) {
  const std::string fallback = to == v1::DATA_TYPE_UNSPECIFIED ? "" : Name(to);
  command.Parsed(
      name, fallback,
      [&to](const std::string& text) {
        ASSIGN_OR_RETURN(to, ParseDataType(text));
        return absl::OkStatus();
      },
      help);
}

void OrderOption(cli::Command& command, const std::string& name, v1::Order& to,
                 const std::string& help) {
  command.Parsed(
      name, Name(to),
      [&to](const std::string& text) {
        ASSIGN_OR_RETURN(to, ParseOrder(text));
        return absl::OkStatus();
      },
      help);
}

void SideOption(cli::Command& command, const std::string& name, v1::Order& to,
                const std::string& help) {
  command.Parsed(
      name,
      to == v1::ORDER_UNSPECIFIED ? ""
      : to == v1::ORDER_ROW_MAJOR ? "a"
                                  : "b",
      [&to](const std::string& text) {
        if (text != "a" && text != "b") {
          return absl::InvalidArgumentError("a, b");
        }
        to = text == "a" ? v1::ORDER_ROW_MAJOR : v1::ORDER_COLUMN_MAJOR;
        return absl::OkStatus();
      },
      help);
}

void FileOption(cli::Command& command, const std::string& name, std::string& to,
                const std::string& help) {
  command.Parsed(
      name, "",
      [&to](const std::string& text) {
        to = text;
        const bool none = text.empty() || TensorHandle(text) == "";
        return none ? absl::InvalidArgumentError("a name") : absl::OkStatus();
      },
      help);
}

int Fail(const absl::Status& status) {
  Show(stderr, "gemmctl: %s: %s\n", absl::StatusCodeToString(status.code()),
       status.message());
  return cli::kExitFailed;
}

int FailUsage(const absl::Status& status) {
  Show(stderr, "gemmctl: %s\n", status.message());
  return cli::kExitUsage;
}

int FailFile(const absl::Status& status) {
  Show(stderr, "gemmctl: %s\n", status.message());
  return cli::kExitFailed;
}

void PrintJson(const google::protobuf::Message& message, std::FILE* out) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  // Fails only for messages with foreign Any fields; the API has none.
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  std::fputs(text.c_str(), out);
}

}  // namespace gemmd::gemmctl
