#include "service/monitor/nvml.h"

#include <dlfcn.h>

#include <utility>

namespace gemmd::monitor {
namespace {

// Declared after NVML's documentation (nvml.h belongs to the toolkit). Every
// function gives 0 where it succeeds.
using Device = struct NvmlDeviceTag*;
struct Utilization {
  unsigned gpu_percent;
  unsigned memory_percent;
};
constexpr int kTemperatureGpu = 0;  // NVML_TEMPERATURE_GPU
constexpr int kClockSm = 1;         // NVML_CLOCK_SM
constexpr int kEccCorrected = 0;    // NVML_MEMORY_ERROR_TYPE_CORRECTED
constexpr int kEccUncorrected = 1;
constexpr int kEccVolatile = 0;  // NVML_VOLATILE_ECC

}  // namespace

struct Nvml::Library {
  int (*Init)() = nullptr;
  int (*Shutdown)() = nullptr;
  int (*HandleByBusId)(const char*, Device*) = nullptr;
  // Each of these may be absent.
  int (*UtilizationRates)(Device, Utilization*) = nullptr;
  int (*Temperature)(Device, int, unsigned*) = nullptr;
  int (*PowerUsage)(Device, unsigned*) = nullptr;      // Milliwatts.
  int (*PowerLimit)(Device, unsigned*) = nullptr;      // Milliwatts.
  int (*ClockInfo)(Device, int, unsigned*) = nullptr;  // Megahertz.
  int (*EccErrors)(Device, int, int, unsigned long long*) = nullptr;

  static std::unique_ptr<const Library> Open(const std::string& name);
};

std::unique_ptr<const Nvml::Library> Nvml::Library::Open(
    const std::string& name) {
  // Stays open for the life of the process, as libcuda does.
  void* const opened = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return nullptr;
  auto library = std::make_unique<Library>();
  const auto resolve = [&]<typename Function>(const char* symbol,
                                              Function& function) {
    function = reinterpret_cast<Function>(dlsym(opened, symbol));
  };
  resolve("nvmlInit_v2", library->Init);
  resolve("nvmlShutdown", library->Shutdown);
  resolve("nvmlDeviceGetHandleByPciBusId_v2", library->HandleByBusId);
  resolve("nvmlDeviceGetUtilizationRates", library->UtilizationRates);
  resolve("nvmlDeviceGetTemperature", library->Temperature);
  resolve("nvmlDeviceGetPowerUsage", library->PowerUsage);
  resolve("nvmlDeviceGetEnforcedPowerLimit", library->PowerLimit);
  resolve("nvmlDeviceGetClockInfo", library->ClockInfo);
  resolve("nvmlDeviceGetTotalEccErrors", library->EccErrors);
  const bool usable = library->Init != nullptr &&
                      library->Shutdown != nullptr &&
                      library->HandleByBusId != nullptr && library->Init() == 0;
  return usable ? std::move(library) : nullptr;
}

Nvml::Nvml(const std::string& library) : library_(Library::Open(library)) {}

Nvml::~Nvml() {
  if (library_ != nullptr) library_->Shutdown();
}

Nvml::Reading Nvml::Read(const std::string& bus_id) const {
  Reading reading;
  Device device = nullptr;
  if (library_ == nullptr ||
      library_->HandleByBusId(bus_id.c_str(), &device) != 0) {
    return reading;
  }
  // `scale` of what `function` gives; nothing where it fails.
  const auto ask = [&](double scale, auto function,
                       auto... which) -> std::optional<double> {
    unsigned value = 0;
    if (function == nullptr || function(device, which..., &value) != 0) {
      return std::nullopt;
    }
    return value * scale;
  };
  const auto ecc = [&](int kind) -> std::optional<double> {
    unsigned long long count = 0;
    if (library_->EccErrors == nullptr ||
        library_->EccErrors(device, kind, kEccVolatile, &count) != 0) {
      return std::nullopt;
    }
    return static_cast<double>(count);
  };
  Utilization utilization = {};
  if (library_->UtilizationRates != nullptr &&
      library_->UtilizationRates(device, &utilization) == 0) {
    reading.utilization = utilization.gpu_percent / 100.0;
  }
  reading.temperature_celsius = ask(1, library_->Temperature, kTemperatureGpu);
  reading.power_watts = ask(1e-3, library_->PowerUsage);
  reading.power_limit_watts = ask(1e-3, library_->PowerLimit);
  reading.clock_hertz = ask(1e6, library_->ClockInfo, kClockSm);
  reading.ecc_corrected = ecc(kEccCorrected);
  reading.ecc_uncorrected = ecc(kEccUncorrected);
  return reading;
}

}  // namespace gemmd::monitor
