#include "service/gpu/module.h"

#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

// Lets every launch of `function` use all shared memory that a CTA can have.
absl::Status AllowAllSharedMemory(const Context& context, CUfunction function) {
  const DriverTable& driver = context.driver();
  ASSIGN_OR_RETURN(
      const int limit_bytes,
      context.Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  int static_bytes = 0;
  RETURN_IF_CUDA_ERROR(
      driver,
      cuFuncGetAttribute(&static_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                         function));
  RETURN_IF_CUDA_ERROR(
      driver, cuFuncSetAttribute(
                  function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                  limit_bytes - static_bytes));
  return absl::OkStatus();
}

// Lets launches of `function` have clusters of more than eight CTAs.
absl::Status AllowLargeClusters(const Context& context, CUfunction function) {
  RETURN_IF_CUDA_ERROR(
      context.driver(),
      cuFuncSetAttribute(
          function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Module> Module::Load(const Context* context,
                                    const std::string& cubin,
                                    const char* symbol) {
  RETURN_IF_ERROR(context->MakeCurrent());
  CUmodule handle;
  RETURN_IF_CUDA_ERROR(context->driver(),
                       cuModuleLoadData(&handle, cubin.data()));
  Module module(context, Handle(context, handle));
  ASSIGN_OR_RETURN(module.function_, module.Function(symbol));
  RETURN_IF_ERROR(AllowAllSharedMemory(*context, module.function_));
  RETURN_IF_ERROR(AllowLargeClusters(*context, module.function_));
  return module;
}

absl::StatusOr<CUfunction> Module::Function(const char* symbol) const {
  CUfunction function;
  RETURN_IF_CUDA_ERROR(context_->driver(),
                       cuModuleGetFunction(&function, handle_.get(), symbol));
  return function;
}

}  // namespace gemmd::gpu
