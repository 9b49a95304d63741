#include <memory>

#include "service/rpc/background.h"
#include "service/rpc/kernel_summary.h"
#include "service/rpc/methods.h"
#include "service/rpc/wire_writer.h"

namespace gemmd::rpc {
namespace {

v1::KernelDescription ToWire(const jit::CompiledKernel& kernel,
                             const engine::Engine& engine) {
  v1::KernelDescription out;
  *out.mutable_summary() =
      rpc::ToWire(jit::Summarize(kernel), LoadedKernels(engine));
  out.set_source(kernel.source);
  out.set_compile_log(kernel.log);
  for (const std::string& option : kernel.options) out.add_options(option);
  out.set_registers(kernel.registers);
  out.set_shared_memory_bytes(kernel.static_shared_memory_bytes);
  out.set_spill_bytes(kernel.spill_bytes);
  out.set_compile_ms(kernel.compile_ms);
  out.set_compiler(kernel.compiler);
  return out;
}

}  // namespace

Async<absl::StatusOr<grpc::ByteBuffer>> DescribeKernel(
    Runtime& runtime, Call& call, const v1::DescribeKernelRequest& request) {
  CO_RETURN_IF_ERROR(CheckKey(request.key()));
  auto description = InBackground<grpc::ByteBuffer>(
      runtime, call, [&]() -> absl::StatusOr<grpc::ByteBuffer> {
        ASSIGN_OR_RETURN(const std::shared_ptr<const jit::CompiledKernel> found,
                         runtime.engine.cache().Find(request.key()));
        return Serialize(ToWire(*found, runtime.engine));
      });
  co_return co_await description;
}

}  // namespace gemmd::rpc
