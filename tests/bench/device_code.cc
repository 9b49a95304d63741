#include "tests/bench/device_code.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "service/gpu/grid.h"
#include "tests/bench/kernel_texts.h"

namespace gemmd::bench {
namespace {

enum Kernel { kFill, kCompare, kForeign, kRepitch };

// Enough CTAs to fill any device several times; kernels stride over the rest.
constexpr int kMaxGrid = 2048;

// Of kernels that know nothing of those before and behind them.
gpu::Grid OwnGrid(int64_t lines) {
  return {.ctas = static_cast<int>(std::clamp<int64_t>(lines, 1, kMaxGrid)),
          .threads = kThreads,
          .start = gpu::Start::kAlone,
          .starts_next_early = false};
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
  return gpu::EnqueueGrid(stream, modules_[kFill].function(),
                          OwnGrid(arguments.lines), &arguments);
}

absl::Status DeviceCode::Compare(const CompareArguments& arguments,
                                 const gpu::Stream& stream) const {
  return gpu::EnqueueGrid(stream, modules_[kCompare].function(),
                          OwnGrid(arguments.lines), &arguments);
}

absl::Status DeviceCode::CountForeign(const ForeignArguments& arguments,
                                      const gpu::Stream& stream) const {
  return gpu::EnqueueGrid(stream, modules_[kForeign].function(),
                          OwnGrid(arguments.lines), &arguments);
}

absl::Status DeviceCode::Repitch(const RepitchArguments& arguments,
                                 const gpu::Stream& stream) const {
  return gpu::EnqueueGrid(stream, modules_[kRepitch].function(),
                          {.ctas = kMaxGrid,
                           .threads = kRepitchThreads,
                           .start = gpu::Start::kAlone},
                          &arguments);
}

}  // namespace gemmd::bench
