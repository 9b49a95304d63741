#include <optional>
#include <string>

#include "jit/problem/problem.h"
#include "service/rpc/background.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {
namespace {

void AddDevices(const Runtime& runtime, const std::optional<std::string>& asker,
                v1::ServerInfo& info) {
  for (int i = 0; i < runtime.engine.device_count(); ++i) {
    const device::Device& device = runtime.engine.device(i);
    const device::Description& description = device.description();
    v1::DeviceInfo& out = *info.add_devices();
    out.set_name(description.name);
    out.set_description(description.product);
    out.set_multiprocessors(description.properties.multiprocessors);
    out.set_memory_bytes(description.memory_bytes);
    out.set_free_bytes(asker
                           ? runtime.engine.tensors().own_free_bytes(i, *asker)
                           : device.FreeBytes());
    out.set_driver(description.driver);
    out.set_uuid(description.uuid);
    const bool shares = runtime.limits.max_region_bytes > 0;
    out.set_shares_vmm(shares && description.imports_vmm);
    out.set_shares_ipc(shares && description.imports_ipc);
  }
}

// `asker`: who may see only what is his.
v1::ServerInfo Info(const Runtime& runtime,
                    const std::optional<std::string>& asker) {
  v1::ServerInfo info;
  info.set_version(runtime.facts.version);
  AddDevices(runtime, asker, info);
  info.set_compiler(runtime.facts.compiler());
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
  return info;
}

}  // namespace

Async<absl::StatusOr<v1::ServerInfo>> GetServerInfo(
    Runtime& runtime, Call& call, const v1::GetServerInfoRequest&) {
  // What is free tells what others hold.
  std::optional<std::string> asker;
  if (call.principal() != nullptr && !call.may_administer()) {
    asker = call.request_context().identity;
  }
  auto info = InBackground<v1::ServerInfo>(
      runtime, call, [&] { return Info(runtime, asker); });
  co_return co_await info;
}

}  // namespace gemmd::rpc
