#include <string>
#include <utility>

#include "jit/problem/problem.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::ServerInfo>> GetServerInfo(
    Runtime& runtime, Call& call, const v1::GetServerInfoRequest&) {
  auto ask =
      CallEngine<std::string>(call.loop(), [&](engine::Done<std::string> done) {
        runtime.engine.InBackground<std::string>(
            call.request_context().identity,
            [&runtime]() -> absl::StatusOr<std::string> {
              return runtime.facts.compiler();
            },
            std::move(done));
      });
  absl::StatusOr<std::string> compiler = co_await ask;
  if (!compiler.ok()) co_return compiler.status();
  v1::ServerInfo info;
  info.set_version(runtime.facts.version);
  for (int i = 0; i < runtime.engine.device_count(); ++i) {
    const device::Device& device = runtime.engine.device(i);
    const device::Description& description = device.description();
    v1::DeviceInfo& out = *info.add_devices();
    out.set_name(description.name);
    out.set_description(description.product);
    out.set_multiprocessors(description.properties.multiprocessors);
    out.set_memory_bytes(description.memory_bytes);
    // What is free tells what others hold.
    if (call.may_administer() || call.principal() == nullptr) {
      out.set_free_bytes(device.FreeBytes());
    } else {
      out.set_free_bytes(runtime.engine.tensors().own_free_bytes(
          i, call.request_context().identity));
    }
    out.set_driver(description.driver);
    out.set_uuid(description.uuid);
    const bool shares = runtime.limits.max_region_bytes > 0;
    out.set_shares_vmm(shares && description.imports_vmm);
    out.set_shares_ipc(shares && description.imports_ipc);
  }
  info.set_compiler(*compiler);
  info.set_can_compile(runtime.facts.can_compile);
  v1::Limits& limits = *info.mutable_limits();
  limits.set_max_message_bytes(runtime.limits.max_message_bytes);
  limits.set_max_dimension(jit::kMaxDimension);
  limits.set_max_tensor_bytes(runtime.limits.max_tensor_bytes);
  limits.set_tensor_ttl_s(absl::ToInt64Seconds(runtime.limits.tensor_ttl));
  limits.set_max_queue(runtime.limits.max_queue);
  limits.set_max_region_bytes(runtime.limits.max_region_bytes);
  info.set_template_digest(runtime.facts.template_digest);
  for (const std::string& sentence : runtime.facts.missing) {
    info.add_missing(sentence);
  }
  co_return info;
}

}  // namespace gemmd::rpc
