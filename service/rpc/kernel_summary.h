// How kernels are described to clients.
#ifndef GEMMD_SERVICE_RPC_KERNEL_SUMMARY_H_
#define GEMMD_SERVICE_RPC_KERNEL_SUMMARY_H_

#include <string>

#include "absl/status/status.h"
#include "gemmd/v1/kernels.pb.h"
#include "jit/cache/kernel_cache.h"
#include "service/engine/engine.h"

namespace gemmd::rpc {

v1::KernelSummary ToWire(const jit::CompiledKernel& kernel,
                         const engine::Engine& engine);

// INVALID_ARGUMENT unless `key` is 64 hexadecimal digits.
absl::Status CheckKey(const std::string& key);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_KERNEL_SUMMARY_H_
