// The memory that this process may take.
#ifndef GEMMD_SERVICE_HOST_MACHINE_MEMORY_H_
#define GEMMD_SERVICE_HOST_MACHINE_MEMORY_H_

#include <cstdint>
#include <string>

namespace gemmd::host {

// The least of the limits of the control groups that it is in, or where there
// is none `otherwise`. Files are below `root`: /proc/self/cgroup names the
// groups, /sys/fs/cgroup holds their limits, of version 2 or 1.
int64_t LeastGroupLimit(const std::string& root, int64_t otherwise);

// Of the machine, or of the container or service that this process is.
int64_t MachineBytes();

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_MACHINE_MEMORY_H_
