// Coroutines: Task runs by itself, Async<T> is awaited for a T. Both run on
// the thread that resumes them; neither throws.
#ifndef GEMMD_SERVICE_RPC_ASYNC_H_
#define GEMMD_SERVICE_RPC_ASYNC_H_

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "jit/base/status.h"

// RETURN_IF_ERROR and ASSIGN_OR_RETURN for coroutines.
#define CO_RETURN_IF_ERROR(expr)                        \
  do {                                                  \
    if (absl::Status status_ = (expr); !status_.ok()) { \
      co_return status_;                                \
    }                                                   \
  } while (false)
#define CO_ASSIGN_OR_RETURN(lhs, expr) \
  GEMMD_CO_ASSIGN_OR_RETURN_(GEMMD_CONCAT_(status_or_, __LINE__), lhs, expr)
#define GEMMD_CO_ASSIGN_OR_RETURN_(result, lhs, expr) \
  auto result = (expr);                               \
  if (!result.ok()) co_return result.status();        \
  lhs = *std::move(result)

namespace gemmd::rpc {

// Starts at once and frees itself at its end: nobody waits for it.
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// Starts when it is awaited, once; belongs to the one who awaits it.
template <typename T>
class [[nodiscard]] Async {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct Resume {
    bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle handle) noexcept {
      return handle.promise().awaiting;
    }
    void await_resume() noexcept {}
  };

  struct promise_type {
    Async get_return_object() { return Async(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Resume final_suspend() noexcept { return {}; }
    template <typename U>
    void return_value(U&& result) {
      value.emplace(std::forward<U>(result));
    }
    void unhandled_exception() { std::terminate(); }

    std::optional<T> value;
    std::coroutine_handle<> awaiting;
  };

  Async(Async&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  Async& operator=(Async&&) = delete;
  ~Async() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
    handle_.promise().awaiting = awaiting;
    return handle_;
  }
  T await_resume() { return *std::move(handle_.promise().value); }

 private:
  explicit Async(Handle handle) : handle_(handle) {}

  Handle handle_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ASYNC_H_
