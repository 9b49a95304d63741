// Where spdlog's thread writes lines: standard error, which may be a pipe that
// nobody reads. Used by that one thread, but for WaitForFlush.
#ifndef GEMMD_SERVICE_LOG_STDERR_SINK_H_
#define GEMMD_SERVICE_LOG_STDERR_SINK_H_

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::log {

class StderrSink final
    : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  // `dropped` tells how many lines never came here because the queue was full;
  // `line` is what says that so many more have not.
  StderrSink(std::function<size_t()> dropped,
             std::function<std::string(size_t)> line)
      : dropped_(std::move(dropped)), line_(std::move(line)) {}

  // Flushes that were done.
  int64_t flushes();
  // Returns when there have been `count`, or after `limit`.
  void WaitForFlush(int64_t count, absl::Duration limit);

 private:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override;

  const std::function<size_t()> dropped_;
  const std::function<std::string(size_t)> line_;
  size_t told_dropped_ = 0;
  std::mutex flush_mutex_;
  std::condition_variable flushed_;
  int64_t flushes_ ABSL_GUARDED_BY(flush_mutex_) = 0;
};

}  // namespace gemmd::log

#endif  // GEMMD_SERVICE_LOG_STDERR_SINK_H_
