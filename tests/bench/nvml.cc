#include "tests/bench/nvml.h"

#include <dlfcn.h>

#include "absl/strings/str_format.h"

namespace gemmd::bench {
namespace {

// Declared after NVML's documentation; 0 is success in all of them.
using Device = void*;
constexpr int kClockSm = 1;  // NVML_CLOCK_SM

struct Nvml {
  int (*Init)() = nullptr;
  int (*DriverVersion)(char*, unsigned) = nullptr;
  int (*Handle)(unsigned, Device*) = nullptr;
  int (*Clock)(Device, int, unsigned*) = nullptr;
  int (*MaxClock)(Device, int, unsigned*) = nullptr;
  int (*PowerLimit)(Device, unsigned*) = nullptr;        // Milliwatts.
  int (*Energy)(Device, unsigned long long*) = nullptr;  // Millijoules.
};

template <typename Function>
bool Resolve(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

bool Load(Nvml& nvml) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  return library != nullptr && Resolve(library, "nvmlInit_v2", nvml.Init) &&
         Resolve(library, "nvmlSystemGetDriverVersion", nvml.DriverVersion) &&
         Resolve(library, "nvmlDeviceGetHandleByIndex_v2", nvml.Handle) &&
         Resolve(library, "nvmlDeviceGetClockInfo", nvml.Clock) &&
         Resolve(library, "nvmlDeviceGetMaxClockInfo", nvml.MaxClock) &&
         Resolve(library, "nvmlDeviceGetEnforcedPowerLimit", nvml.PowerLimit) &&
         Resolve(library, "nvmlDeviceGetTotalEnergyConsumption", nvml.Energy);
}

}  // namespace

std::string DescribeClocks(int ordinal) {
  Nvml nvml;
  if (!Load(nvml) || nvml.Init() != 0) return "";
  char version[128] = {};
  Device device = nullptr;
  unsigned clock = 0, max_clock = 0, limit_mw = 0;
  if (nvml.DriverVersion(version, sizeof(version)) != 0 ||
      nvml.Handle(static_cast<unsigned>(ordinal), &device) != 0 ||
      nvml.Clock(device, kClockSm, &clock) != 0 ||
      nvml.MaxClock(device, kClockSm, &max_clock) != 0 ||
      nvml.PowerLimit(device, &limit_mw) != 0) {
    return "";
  }
  return absl::StrFormat("driver %s, SM %u of %u MHz, limit %u W", version,
                         clock, max_clock, limit_mw / 1000);
}

std::optional<EnergyMeter> EnergyMeter::Open(int ordinal) {
  Nvml nvml;
  Device device = nullptr;
  unsigned long long probe = 0;
  if (!Load(nvml) || nvml.Init() != 0 ||
      nvml.Handle(static_cast<unsigned>(ordinal), &device) != 0 ||
      nvml.Energy(device, &probe) != 0) {
    return std::nullopt;
  }
  return EnergyMeter(nvml.Energy, device);
}

double EnergyMeter::Joules() const {
  unsigned long long millijoules = 0;
  read_(device_, &millijoules);
  return static_cast<double>(millijoules) / 1000;
}

}  // namespace gemmd::bench
