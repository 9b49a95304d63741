#include "service/daemon/drain_limit.h"

#include <unistd.h>

#include "service/log/log.h"

namespace gemmd::daemon {

void EndProcess(int exit_code) {
  log::Write(log::Level::kError, "given_up",
             {{"message", "work did not end in time and was given up"},
              {"exit_code", exit_code}});
  log::Flush(kLastLinesTime);
  _exit(exit_code);
}

DrainLimit::DrainLimit() : thread_([this] { Run(); }) {}

void DrainLimit::Start(absl::Duration limit, int exit_code) {
  {
    std::lock_guard lock(mutex_);
    limit_ = limit;
    exit_code_ = exit_code;
  }
  changed_.notify_all();
}

DrainLimit::~DrainLimit() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DrainLimit::Run() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return limit_.has_value() || stopped_; });
  if (stopped_ || changed_.wait_for(lock, absl::ToChronoNanoseconds(*limit_),
                                    [this] { return stopped_; })) {
    return;
  }
  const int exit_code = exit_code_;
  lock.unlock();
  EndProcess(exit_code);
}

}  // namespace gemmd::daemon
