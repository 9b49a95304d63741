// Says in the log, soon after the start, which kernels of a model the cache
// lacks, so that an operator hears of it before a request does.
#ifndef GEMMD_SERVICE_DAEMON_PRESET_CHECK_H_
#define GEMMD_SERVICE_DAEMON_PRESET_CHECK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "jit/cache/kernel_cache.h"
#include "jit/plan/planner.h"
#include "jit/source/template_library.h"

namespace gemmd::daemon {

class PresetCheck {
 public:
  struct Options {
    std::vector<std::string> presets;  // Names that clients/warmup knows.
    int64_t tokens = 0;                // Most that a request of them has.
    std::vector<jit::DeviceProperties> devices;
    // Tells the compiler that makes what is missing. Null: nothing is made, and
    // a kernel of any compiler serves.
    std::function<std::string()> compiler;
  };

  // Looks on a thread of its own; all that is given outlives this object. The
  // tier that machines share is not asked.
  PresetCheck(Options options, const jit::TemplateLibrary& templates,
              jit::KernelCache& cache);
  // Does not wait for the answer.
  ~PresetCheck();

 private:
  void Run() const;
  void Check(const std::string& preset,
             const jit::DeviceProperties& device) const;

  const Options options_;
  const jit::TemplateLibrary& templates_;
  jit::KernelCache& cache_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_PRESET_CHECK_H_
