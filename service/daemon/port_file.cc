#include "service/daemon/port_file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/new_file.h"
#include "jit/base/status.h"

namespace gemmd::daemon {

absl::Status WritePortFile(const std::string& path,
                           const std::vector<std::string>& addresses) {
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(cli::NewFile file, cli::NewFile::Create(path));
    RETURN_IF_ERROR(file.Write(absl::StrJoin(addresses, "\n")));
    RETURN_IF_ERROR(file.Write("\n"));
    return file.Keep();
  };
  const absl::Status status = write();
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("--port-file: ", status.message()));
}

}  // namespace gemmd::daemon
