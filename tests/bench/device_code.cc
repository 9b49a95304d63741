#include "tests/bench/device_code.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/gpu/status.h"
#include "tests/bench/kernel_texts.h"

namespace gemmd::bench {
namespace {

enum Kernel { kFill, kCompare, kForeign, kRepitch };

// Enough CTAs to fill any device several times; kernels stride over the rest.
constexpr int kMaxGrid = 2048;

int GridFor(int64_t lines) {
  return static_cast<int>(std::clamp<int64_t>(lines, 1, kMaxGrid));
}

}  // namespace

Element ElementOf(jit::DataType type) {
  switch (type) {
    case jit::DataType::kBf16:
      return Element::kBf16;
    case jit::DataType::kF16:
      return Element::kF16;
    case jit::DataType::kF32:
      return Element::kF32;
    case jit::DataType::kE4m3:
      return Element::kE4m3;
    case jit::DataType::kE5m2:
      return Element::kE5m2;
    case jit::DataType::kS8:
      return Element::kS8;
    case jit::DataType::kU8:
    case jit::DataType::kS4:  // Two of them.
    case jit::DataType::kU4:
      return Element::kU8;
    case jit::DataType::kB1:
      return Element::kBits;
    case jit::DataType::kS32:
      break;
  }
  return Element::kS32;
}

absl::StatusOr<std::vector<jit::Instance>> DeviceCode::Instances(
    const jit::TemplateLibrary& templates) {
  ASSIGN_OR_RETURN(jit::Instance repitch, jit::MakeRepitchInstance(templates));
  const auto own = [&repitch](const char* name, const char* text) {
    return jit::Instance{
        .name = absl::StrCat("bench_", name),
        .source = absl::StrCat(kElementsText, kArgumentsText, text),
        .options = repitch.options};
  };
  return std::vector<jit::Instance>{own("fill", kFillText),
                                    own("compare", kCompareText),
                                    own("foreign", kForeignText), repitch};
}

absl::StatusOr<std::unique_ptr<DeviceCode>> DeviceCode::Load(
    const gpu::Context* context, const jit::TemplateLibrary& templates,
    jit::KernelCache& cache) {
  ASSIGN_OR_RETURN(const std::vector<jit::Instance> instances,
                   Instances(templates));
  std::vector<gpu::Module> modules;
  for (const jit::Instance& instance : instances) {
    ASSIGN_OR_RETURN(const jit::CacheResult compiled,
                     cache.Get(instance, absl::Now() + absl::Minutes(5)));
    ASSIGN_OR_RETURN(
        gpu::Module module,
        gpu::Module::Load(context, compiled.kernel->cubin, jit::kKernelSymbol));
    modules.push_back(std::move(module));
  }
  return std::unique_ptr<DeviceCode>(new DeviceCode(std::move(modules)));
}

absl::Status DeviceCode::Fill(const FillArguments& arguments,
                              const gpu::Stream& stream) const {
  return Launch(modules_[kFill].function(), GridFor(arguments.lines), kThreads,
                0, &arguments, stream);
}

absl::Status DeviceCode::Compare(const CompareArguments& arguments,
                                 const gpu::Stream& stream) const {
  return Launch(modules_[kCompare].function(), GridFor(arguments.lines),
                kThreads, 0, &arguments, stream);
}

absl::Status DeviceCode::CountForeign(const ForeignArguments& arguments,
                                      const gpu::Stream& stream) const {
  return Launch(modules_[kForeign].function(), GridFor(arguments.lines),
                kThreads, 0, &arguments, stream);
}

absl::Status DeviceCode::Repitch(const RepitchArguments& arguments,
                                 const gpu::Stream& stream) const {
  return Launch(modules_[kRepitch].function(), kMaxGrid, kRepitchThreads, 0,
                &arguments, stream);
}

absl::Status Launch(CUfunction function, int grid, int threads,
                    int shared_memory_bytes, const void* arguments,
                    const gpu::Stream& stream) {
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(grid);
  config.gridDimY = 1;
  config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(threads);
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(shared_memory_bytes);
  config.hStream = stream.get();
  void* parameters[] = {const_cast<void*>(arguments)};
  RETURN_IF_CUDA_ERROR(stream.driver(), cuLaunchKernelEx(&config, function,
                                                         parameters, nullptr));
  stream.set_starts_next_early(true);  // Repitching does.
  return absl::OkStatus();
}

}  // namespace gemmd::bench
