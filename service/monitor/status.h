// What the status page shows, as JSON. Texts that clients chose are in it.
#ifndef GEMMD_SERVICE_MONITOR_STATUS_H_
#define GEMMD_SERVICE_MONITOR_STATUS_H_

#include <string>

#include "service/engine/engine.h"
#include "service/rpc/runtime.h"

namespace gemmd::monitor {

std::string StatusJson(const rpc::Runtime& runtime, engine::Engine& engine);

}  // namespace gemmd::monitor

#endif  // GEMMD_SERVICE_MONITOR_STATUS_H_
