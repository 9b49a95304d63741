#include <memory>
#include <utility>

#include "service/rpc/engine_call.h"
#include "service/rpc/kernel_summary.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::KernelDescription>> DescribeKernel(
    Runtime& runtime, Call& call, const v1::DescribeKernelRequest& request) {
  CO_RETURN_IF_ERROR(CheckKey(request.key()));
  using Found = std::shared_ptr<const jit::CompiledKernel>;
  auto find = CallEngine<Found>(call.loop(), [&](engine::Done<Found> done) {
    runtime.engine.InBackground<Found>(
        call.request_context().identity,
        [&runtime, &request] {
          return runtime.engine.cache().Find(request.key());
        },
        std::move(done));
  });
  absl::StatusOr<Found> found = co_await find;
  if (!found.ok()) co_return found.status();
  const jit::CompiledKernel& kernel = **found;
  v1::KernelDescription out;
  *out.mutable_summary() =
      ToWire(jit::Summarize(kernel), LoadedKernels(runtime.engine));
  out.set_source(kernel.source);
  out.set_compile_log(kernel.log);
  for (const std::string& option : kernel.options) out.add_options(option);
  out.set_registers(kernel.registers);
  out.set_shared_memory_bytes(kernel.static_shared_memory_bytes);
  out.set_spill_bytes(kernel.spill_bytes);
  out.set_compile_ms(kernel.compile_ms);
  out.set_compiler(kernel.compiler);
  co_return out;
}

}  // namespace gemmd::rpc
