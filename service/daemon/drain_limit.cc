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

void DrainLimit::Start(absl::Duration limit, int exit_code) {
  thread_ = std::thread([this, limit, exit_code] {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, absl::ToChronoNanoseconds(limit),
                            [this] { return stopped_; })) {
        return;
      }
    }
    EndProcess(exit_code);
  });
}

DrainLimit::~DrainLimit() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace gemmd::daemon
