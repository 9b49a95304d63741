#include "tests/bench/ceiling.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/source/wgmma_source.h"
#include "service/gpu/grid.h"
#include "service/gpu/module.h"
#include "tests/bench/device_code.h"
#include "tests/bench/kernel_texts.h"

namespace gemmd::bench {

absl::StatusOr<jit::Instance> CeilingInstance(
    const jit::TemplateLibrary& templates,
    const jit::Instruction& instruction) {
  ASSIGN_OR_RETURN(const jit::Instance repitch,
                   jit::MakeRepitchInstance(templates));
  ASSIGN_OR_RETURN(
      std::string source,
      templates.Expand(absl::StrCat(
          "#define GEMMD_SPARSE ", instruction.sparse ? "1\n" : "0\n",
          kElementsText, kArgumentsText,
          "#include \"common/types.h\"\n"
          "namespace gemmd::bench {\n"
          "constexpr Element kInput = static_cast<Element>(",
          static_cast<int>(ElementOf(instruction.x)),
          ");\n}  // namespace gemmd::bench\nnamespace gemmd::ptx {\n",
          jit::WgmmaSource({.instruction = instruction}, kCeilingN),
          "}  // namespace gemmd::ptx\n", kCeilingText)));
  return jit::Instance{
      .name = absl::StrCat("bench_ceiling_", Name(instruction)),
      .source = std::move(source),
      .options = repitch.options};
}

absl::StatusOr<double> MeasureCeiling(
    const gpu::CudaDevice& device, const std::shared_ptr<gpu::Stream>& stream,
    const jit::TemplateLibrary& templates, jit::KernelCache& cache,
    const jit::Instruction& instruction, const Timer& timer) {
  ASSIGN_OR_RETURN(const jit::Instance instance,
                   CeilingInstance(templates, instruction));
  ASSIGN_OR_RETURN(const jit::CacheResult compiled,
                   cache.Get(instance, absl::Now() + absl::Minutes(5)));
  ASSIGN_OR_RETURN(const gpu::Module module,
                   gpu::Module::Load(&device.context(), compiled.kernel->cubin,
                                     jit::kKernelSymbol));
  const int grid = device.description().properties.multiprocessors;
  ASSIGN_OR_RETURN(
      const gpu::DeviceBuffer sums,
      device.memory().Allocate(stream, int64_t{4} * grid * kThreads));
  // About a millisecond: filling shared memory takes a few microseconds.
  constexpr int kIterations = 400;
  const CeilingArguments arguments = {
      .sums = reinterpret_cast<float*>(sums.get()),
      .iterations = kIterations,
      .seed = 7};
  const gpu::Grid launched = {.ctas = grid,
                              .threads = kThreads,
                              .shared_memory_bytes = kCeilingSharedBytes,
                              .start = gpu::Start::kAlone,
                              .starts_next_early = false};
  const Contender contender = {"ceiling", [&](int) {
                                 return gpu::EnqueueGrid(*stream,
                                                         module.function(),
                                                         launched, &arguments);
                               }};
  ASSIGN_OR_RETURN(const Timer::Prepared prepared, timer.Prepare(contender, 1));
  const Timer::Prepared* const contenders[] = {&prepared};
  ASSIGN_OR_RETURN(const std::vector<double> us, timer.Burst(contenders));
  const double flops = 2.0 * 64 * kCeilingN * KOf(instruction) *
                       kCeilingInstructions * kIterations * 2 /* warpgroups */ *
                       grid;
  return flops / us[0] / 1e6;
}

}  // namespace gemmd::bench
