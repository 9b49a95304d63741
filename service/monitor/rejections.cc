#include "service/monitor/rejections.h"

namespace gemmd::monitor {

std::vector<std::pair<absl::string_view, int64_t>> AllRejections(
    const rpc::Runtime& runtime, engine::Engine& engine) {
  std::vector<std::pair<absl::string_view, int64_t>> all;
  for (size_t i = 0; i < static_cast<size_t>(rpc::Rejection::kCount); ++i) {
    const auto rejection = static_cast<rpc::Rejection>(i);
    all.emplace_back(rpc::NameOf(rejection),
                     runtime.metrics.rejected(rejection));
  }
  int64_t products = 0, transfers = 0, work = 0;
  for (int i = 0; i < engine.device_count(); ++i) {
    products += engine.served(i).products->places().refused();
    work += engine.served(i).products->refused_work();
    transfers += engine.served(i).transfers->places().refused();
  }
  all.emplace_back("product_queue", products);
  all.emplace_back("transfer_queue", transfers);
  all.emplace_back("work", work);
  all.emplace_back("compile_queue", engine.preparer().places().refused());
  all.emplace_back("tensor_memory", engine.tensors().refused());
  return all;
}

}  // namespace gemmd::monitor
