#include <array>
#include <string>

#include "service/monitor/collect.h"

namespace gemmd::monitor {
namespace {

using metrics::Metric;

constexpr std::array<absl::string_view, engine::kKernelSources> kSources = {
    "none", "loaded", "memory", "disk", "compiled"};

void AddProducts(const std::string& name, const engine::DeviceCounts& counts,
                 metrics::Exposition& out) {
  for (size_t i = 1; i < kSources.size(); ++i) {
    out.Add(Metric::kProducts, counts.products[i], {name, kSources[i]});
  }
  out.Add(Metric::kProductFailures, counts.failures, {name});
  out.Add(Metric::kProductOperations, counts.operations, {name});
  const auto phase = [&](absl::string_view phase,
                         const metrics::Histogram& times) {
    out.Add(Metric::kProductPhase, times.Read(), {name, phase});
  };
  phase("queue", counts.queue);
  phase("plan", counts.plan);
  phase("compile", counts.compile);
  phase("upload", counts.upload);
  phase("execute", counts.execute);
  phase("download", counts.download);
  phase("total", counts.all);
}

void AddQueue(const std::string& name, absl::string_view queue,
              const engine::Executor& executor, metrics::Exposition& out) {
  const engine::Places& places = executor.places();
  out.Add(Metric::kQueueWaiting, places.taken(), {name, queue});
  out.Add(Metric::kQueueLimit, places.limit(), {name, queue});
  out.Add(Metric::kLanesRunning, executor.activity().running, {name, queue});
  out.Add(Metric::kDeviceBusy, absl::ToDoubleSeconds(executor.busy()),
          {name, queue});
}

void AddMemory(const std::string& name, const engine::ServedDevice& served,
               metrics::Exposition& out) {
  const device::Device& device = *served.device;
  out.Add(Metric::kDeviceMemory, device.description().memory_bytes, {name});
  // A device that hangs would not answer.
  out.Add(Metric::kDeviceMemoryFree,
          served.health.failed() ? 0 : device.FreeBytes(), {name});
  const device::PinnedMemory pinned = device.pinned_memory();
  if (pinned.limit_bytes == 0) return;
  out.Add(Metric::kPinnedMemory, pinned.in_use_bytes, {name, "in_use"});
  out.Add(Metric::kPinnedMemory, pinned.idle_bytes, {name, "idle"});
  out.Add(Metric::kPinnedMemoryLimit, pinned.limit_bytes, {name});
}

void AddGpu(const std::string& name, const Nvml::Reading& gpu,
            metrics::Exposition& out) {
  const auto add = [&](Metric metric, const std::optional<double>& value) {
    if (value) out.Add(metric, *value, {name});
  };
  add(Metric::kGpuUtilization, gpu.utilization);
  add(Metric::kGpuTemperature, gpu.temperature_celsius);
  add(Metric::kGpuPower, gpu.power_watts);
  add(Metric::kGpuPowerLimit, gpu.power_limit_watts);
  add(Metric::kGpuClock, gpu.clock_hertz);
  if (gpu.ecc_corrected) {
    out.Add(Metric::kGpuEcc, *gpu.ecc_corrected, {name, "corrected"});
  }
  if (gpu.ecc_uncorrected) {
    out.Add(Metric::kGpuEcc, *gpu.ecc_uncorrected, {name, "uncorrected"});
  }
}

}  // namespace

void CollectDevices(engine::Engine& engine, const Nvml& nvml,
                    metrics::Exposition& out) {
  for (int i = 0; i < engine.device_count(); ++i) {
    const engine::ServedDevice& served = engine.served(i);
    const device::Description& what = served.device->description();
    const std::string& name = what.name;
    out.Add(Metric::kDeviceInfo, 1, {name, what.product, what.driver});
    out.Add(Metric::kDeviceUp, !served.health.failed(), {name});
    AddProducts(name, served.counts, out);
    AddQueue(name, "products", *served.products, out);
    AddQueue(name, "transfers", *served.transfers, out);
    AddMemory(name, served, out);
    out.Add(Metric::kTensorBytes, engine.tensors().bytes(i), {name});
    out.Add(Metric::kTensorLimit, engine.tensors().max_bytes(i), {name});
    out.Add(Metric::kKernelsLoaded, served.kernels->loaded(), {name});
    out.Add(Metric::kShapesKnown, served.kernels->shapes(), {name});
    out.Add(Metric::kKernelHits, served.kernels->hits(), {name});
    if (!what.bus_id.empty()) AddGpu(name, nvml.Read(what.bus_id), out);
  }
  out.Add(Metric::kTensors, engine.tensors().count());
}

}  // namespace gemmd::monitor
