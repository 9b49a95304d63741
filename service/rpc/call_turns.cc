#include "service/rpc/call_turns.h"

#include "jit/base/steady_time.h"

namespace gemmd::rpc {

void CallTurns::Add(const void* connection, std::coroutine_handle<> call) {
  auto& own = calls_[connection];
  if (own.empty()) order_.push_back(connection);
  own.push_back(call);
}

void CallTurns::TakeSome() {
  const absl::Time end = jit::SteadyNow() + at_a_time_;
  do {
    BeginNext();
  } while (!empty() && jit::SteadyNow() < end);
}

void CallTurns::BeginNext() {
  const auto own = calls_.find(order_.front());
  const std::coroutine_handle<> call = own->second.front();
  own->second.pop_front();
  if (own->second.empty()) {
    calls_.erase(own);
    order_.pop_front();
  } else {
    order_.splice(order_.end(), order_, order_.begin());
  }
  call.resume();
}

}  // namespace gemmd::rpc
