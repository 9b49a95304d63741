// Tells scripts where the daemon listens.
#ifndef GEMMD_SERVICE_DAEMON_PORT_FILE_H_
#define GEMMD_SERVICE_DAEMON_PORT_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gemmd::daemon {

// Writes one address a line. Whoever sees the file sees all of it.
absl::Status WritePortFile(const std::string& path,
                           const std::vector<std::string>& addresses);

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_PORT_FILE_H_
