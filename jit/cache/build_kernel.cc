#include "jit/cache/build_kernel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/base/text.h"
#include "jit/cache/cache_key.h"
#include "jit/compile/compile_log.h"
#include "jit/compile/cubin.h"

namespace gemmd::jit {
namespace {

constexpr char kProvenance[] = "gemmd " GEMMD_VERSION;

absl::StatusOr<CompiledKernel> Build(Compiler& compiler,
                                     const Instance& instance,
                                     absl::Time deadline) {
  const absl::Time start = SteadyNow();
  ASSIGN_OR_RETURN(CompileOutput output, compiler.Compile(instance, deadline));
  ASSIGN_OR_RETURN(const KernelResources resources, ReadCompileLog(output.log));
  CompiledKernel kernel;
  kernel.key = KeyOf(compiler, instance);
  kernel.name = instance.name;
  kernel.source = instance.source.text();
  kernel.options = compiler.CommandLine(instance);
  kernel.compiler = compiler.identity();
  kernel.log = ToPlainText(std::move(output.log));
  kernel.cubin = std::move(output.cubin);
  kernel.registers = resources.registers;
  kernel.static_shared_memory_bytes = resources.static_shared_memory_bytes;
  kernel.spill_bytes = resources.spill_bytes;
  kernel.compile_ms = absl::ToInt64Milliseconds(SteadyNow() - start);
  kernel.provenance = kProvenance;
  const absl::Status usable = CheckCubin(kernel);
  if (!usable.ok()) return absl::InternalError(usable.message());
  return kernel;
}

}  // namespace

std::string KeyOf(const Compiler& compiler, const Instance& instance) {
  return CacheKey(instance.source, compiler.CommandLine(instance),
                  compiler.identity());
}

absl::StatusOr<CompiledKernel> BuildKernel(Compiler& compiler,
                                           const Instance& instance,
                                           absl::Time deadline) {
  absl::StatusOr<CompiledKernel> kernel = Build(compiler, instance, deadline);
  if (kernel.ok()) return kernel;
  return absl::Status(
      kernel.status().code(),
      absl::StrCat("kernel ", instance.name, ": ", kernel.status().message()));
}

}  // namespace gemmd::jit
