#include "service/daemon/port_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace gemmd::daemon {

absl::Status WritePortFile(const std::string& path,
                           const std::vector<std::string>& addresses) {
  const std::string temporary = absl::StrCat(path, ".", getpid());
  std::ofstream file(temporary, std::ios::trunc);
  for (const std::string& address : addresses) file << address << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    return absl::ErrnoToStatus(error,
                               absl::StrCat("cannot write --port-file ", path));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::daemon
