// What the management library says of a GPU: driver release, clocks, power.
#ifndef GEMMD_TESTS_BENCH_NVML_H_
#define GEMMD_TESTS_BENCH_NVML_H_

#include <optional>
#include <string>

namespace gemmd::bench {

// "driver 580.159.03, SM 1980 of 1980 MHz, limit 700 W"; empty where the
// library is not installed. `ordinal` counts in the order of PCI.
std::string DescribeClocks(int ordinal);

// The energy that a GPU has taken, all of its board counted. It knows more
// every 20 to 100 ms: what is measured should last for seconds.
class EnergyMeter {
 public:
  // Nothing where the library or the GPU has no such counter.
  static std::optional<EnergyMeter> Open(int ordinal);

  // Joules since the driver was loaded.
  double Joules() const;

 private:
  using Read = int (*)(void* device, unsigned long long* millijoules);
  EnergyMeter(Read read, void* device) : read_(read), device_(device) {}

  Read read_;
  void* device_;
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_NVML_H_
