// Every limit that requests can meet, wherever it is kept, and how often they
// have.
#ifndef GEMMD_SERVICE_MONITOR_REJECTIONS_H_
#define GEMMD_SERVICE_MONITOR_REJECTIONS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/engine/engine.h"
#include "service/rpc/runtime.h"

namespace gemmd::monitor {

// By reason.
std::vector<std::pair<absl::string_view, int64_t>> AllRejections(
    const rpc::Runtime& runtime, engine::Engine& engine);

}  // namespace gemmd::monitor

#endif  // GEMMD_SERVICE_MONITOR_REJECTIONS_H_
