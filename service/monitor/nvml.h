// What NVIDIA's management library says of GPUs. It is opened at run time and
// belongs to the driver; without it, nothing is known. Thread-safe.
#ifndef GEMMD_SERVICE_MONITOR_NVML_H_
#define GEMMD_SERVICE_MONITOR_NVML_H_

#include <memory>
#include <optional>
#include <string>

namespace gemmd::monitor {

class Nvml {
 public:
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();

  // Nothing where the library, or the GPU, does not say.
  struct Reading {
    std::optional<double> utilization;  // 0 to 1.
    std::optional<double> temperature_celsius;
    std::optional<double> power_watts;
    std::optional<double> power_limit_watts;
    std::optional<double> clock_hertz;
    std::optional<double> ecc_corrected;  // Since the driver was loaded.
    std::optional<double> ecc_uncorrected;
  };
  // Of the GPU with this PCI address, "0000:18:00.0": the order of NVML is not
  // that of CUDA.
  Reading Read(const std::string& bus_id) const;

 private:
  struct Library;

  const std::unique_ptr<const Library> library_;  // Null: there is none.
};

}  // namespace gemmd::monitor

#endif  // GEMMD_SERVICE_MONITOR_NVML_H_
