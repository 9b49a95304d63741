#include "service/rpc/kernel_summary.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::KernelDescription>> DescribeKernel(
    Runtime& runtime, Call&, const v1::DescribeKernelRequest& request) {
  CO_RETURN_IF_ERROR(CheckKey(request.key()));
  CO_ASSIGN_OR_RETURN(const auto kernel,
                      runtime.engine.cache().Find(request.key()));
  v1::KernelDescription out;
  *out.mutable_summary() = ToWire(*kernel, runtime.engine);
  out.set_source(kernel->source);
  out.set_compile_log(kernel->log);
  for (const std::string& option : kernel->options) out.add_options(option);
  out.set_registers(kernel->registers);
  out.set_shared_memory_bytes(kernel->static_shared_memory_bytes);
  out.set_spill_bytes(kernel->spill_bytes);
  out.set_compile_ms(kernel->compile_ms);
  out.set_compiler(kernel->compiler);
  co_return out;
}

}  // namespace gemmd::rpc
