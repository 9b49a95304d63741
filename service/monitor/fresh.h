// A text that is made anew when it is asked for, but not more often than so:
// who asks without end costs the daemon no more than others. Of one thread.
#ifndef GEMMD_SERVICE_MONITOR_FRESH_H_
#define GEMMD_SERVICE_MONITOR_FRESH_H_

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace gemmd::monitor {

class Fresh {
 public:
  Fresh(absl::Duration age, std::function<std::string()> make)
      : age_(absl::ToChronoNanoseconds(age)), make_(std::move(make)) {}

  const std::string& Get() {
    const Clock::time_point now = Clock::now();
    if (text_.empty() || now - made_ >= age_) {
      text_ = make_();
      made_ = now;
    }
    return text_;
  }

 private:
  using Clock = std::chrono::steady_clock;  // Nobody sets it.

  const std::chrono::nanoseconds age_;
  const std::function<std::string()> make_;
  std::string text_;
  Clock::time_point made_;
};

}  // namespace gemmd::monitor

#endif  // GEMMD_SERVICE_MONITOR_FRESH_H_
