// NVML as far as service/monitor/nvml.cc uses it, with one GPU. A library of
// its own, opened as the real one is.
#include <cstring>

namespace {
constexpr char kBusId[] = "0000:18:00.0";
int device;
}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  *handle = &device;
  return std::strcmp(bus_id, kBusId) == 0 ? 0 : 6;  // NVML_ERROR_NOT_FOUND
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {
  rates[0] = 75;  // Of kernels,
  rates[1] = 20;  // of memory.
  return 0;
}
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* celsius) {
  *celsius = 64;
  return sensor == 0 ? 0 : 2;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 512'500;
  return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 700'000;
  return 0;
}
// nvmlDeviceGetClockInfo is missing, as in an old library.
int nvmlDeviceGetTotalEccErrors(void*, int kind, int since,
                                unsigned long long* count) {
  if (kind == 1) return 3;  // NVML_ERROR_NOT_SUPPORTED
  *count = 17;
  return since == 0 ? 0 : 2;
}
}
