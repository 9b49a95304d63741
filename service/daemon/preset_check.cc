#include "service/daemon/preset_check.h"

#include <set>
#include <utility>

#include "clients/warmup/instances.h"
#include "clients/warmup/presets.h"
#include "service/log/log.h"

namespace gemmd::daemon {
namespace {

constexpr size_t kPage = 1000;

// The sources of which the cache has a kernel of `compiler`, or of any.
std::set<std::string> SourcesIn(jit::KernelCache& cache,
                                const std::string& compiler) {
  std::set<std::string> digests;
  std::string after;
  while (true) {
    const std::vector<jit::EntrySummary> page = cache.List(after, kPage);
    for (const jit::EntrySummary& kernel : page) {
      if (compiler.empty() || kernel.compiler == compiler) {
        digests.insert(kernel.source_digest);
      }
    }
    if (page.size() < kPage) return digests;
    after = page.back().key;
  }
}

}  // namespace

PresetCheck::PresetCheck(Options options, const jit::TemplateLibrary& templates,
                         jit::KernelCache& cache)
    : options_(std::move(options)),
      templates_(templates),
      cache_(cache),
      thread_([this] { Run(); }) {}

PresetCheck::~PresetCheck() {
  stop_ = true;
  thread_.join();
}

void PresetCheck::Run() const {
  std::set<int> seen;
  for (const jit::DeviceProperties& device : options_.devices) {
    if (!seen.insert(device.multiprocessors).second) continue;
    for (const std::string& preset : options_.presets) {
      if (!stop_) Check(preset, device);
    }
  }
}

void PresetCheck::Check(const std::string& preset,
                        const jit::DeviceProperties& device) const {
  const auto problems = warmup::Preset(
      preset, {.devices = {device}, .tokens = options_.tokens, .stop = &stop_});
  if (!problems.ok()) return;  // At the end, and only then.
  const auto instances = warmup::InstancesOf(templates_, *problems, device);
  if (!instances.ok()) {
    log::Write(log::Level::kWarning, "preset",
               {{"preset", preset}, {"message", instances.status().message()}});
    return;
  }
  const std::set<std::string> there =
      SourcesIn(cache_, options_.compiler ? options_.compiler() : "");
  size_t missing = 0;
  std::string first;
  for (const jit::Instance& instance : *instances) {
    if (there.contains(instance.source.digest())) continue;
    if (missing++ == 0) first = instance.name;
  }
  if (missing == 0) {
    log::Write(log::Level::kInfo, "preset_complete",
               {{"preset", preset},
                {"multiprocessors", device.multiprocessors},
                {"kernels", instances->size()}});
    return;
  }
  log::Write(log::Level::kWarning, "preset_incomplete",
             {{"preset", preset},
              {"multiprocessors", device.multiprocessors},
              {"kernels", instances->size()},
              {"missing", missing},
              {"first", first},
              {"message", "gemm-warmup check names them all"}});
}

}  // namespace gemmd::daemon
