#include "service/log/stderr_sink.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace gemmd::log {
namespace {

// Gives up a line that cannot be written: there is nowhere to say so.
void WriteAll(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(STDERR_FILENO, bytes.data(), bytes.size());
    if (put > 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
    } else if (errno == EAGAIN) {  // Somebody made it non-blocking.
      pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

void StderrSink::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t line;
  if (const size_t dropped = dropped_(); dropped != told_dropped_) {
    const std::string text = line_(dropped - told_dropped_);
    told_dropped_ = dropped;
    formatter_->format(spdlog::details::log_msg("", spdlog::level::warn, text),
                       line);
  }
  formatter_->format(message, line);
  WriteAll({line.data(), line.size()});
}

void StderrSink::flush_() {
  std::lock_guard lock(flush_mutex_);
  ++flushes_;
  flushed_.notify_all();
}

int64_t StderrSink::flushes() {
  std::lock_guard lock(flush_mutex_);
  return flushes_;
}

void StderrSink::WaitForFlush(int64_t count, absl::Duration limit) {
  std::unique_lock lock(flush_mutex_);
  flushed_.wait_for(lock, absl::ToChronoNanoseconds(limit),
                    [&] { return flushes_ >= count; });
}

}  // namespace gemmd::log
