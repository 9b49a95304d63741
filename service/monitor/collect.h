// The values of all metrics now. Reads what the daemon counts anyway: takes
// its locks for moments, and asks the driver for free memory.
#ifndef GEMMD_SERVICE_MONITOR_COLLECT_H_
#define GEMMD_SERVICE_MONITOR_COLLECT_H_

#include "service/engine/engine.h"
#include "service/metrics/exposition.h"
#include "service/monitor/nvml.h"
#include "service/rpc/runtime.h"

namespace gemmd::monitor {

void CollectServer(const rpc::Runtime& runtime, metrics::Exposition& out);
void CollectCache(engine::Engine& engine, metrics::Exposition& out);
// Of each device; what NVML knows of GPUs as well.
void CollectDevices(engine::Engine& engine, const Nvml& nvml,
                    metrics::Exposition& out);
// Of this process, from /proc.
void CollectProcess(metrics::Exposition& out);

}  // namespace gemmd::monitor

#endif  // GEMMD_SERVICE_MONITOR_COLLECT_H_
