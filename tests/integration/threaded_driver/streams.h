// Streams that are threads: what a stream is given is done later, in order, and
// sometimes much later, as on a device that others keep busy.
#ifndef GEMMD_TESTS_INTEGRATION_THREADED_DRIVER_STREAMS_H_
#define GEMMD_TESTS_INTEGRATION_THREADED_DRIVER_STREAMS_H_

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"

namespace gemmd::threaded_driver {

// Thread-safe.
class Stream {
 public:
  explicit Stream(int device);
  // Once all is done.
  ~Stream();

  int device() const { return device_; }
  void Enqueue(std::function<void()> work);
  // Until all is done that was enqueued before.
  void Synchronize();

 private:
  void Run();

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  int64_t enqueued_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: it uses all of them.
};

// The stream of a handle; of none, the null stream.
Stream& StreamOf(CUstream handle);

}  // namespace gemmd::threaded_driver

#endif  // GEMMD_TESTS_INTEGRATION_THREADED_DRIVER_STREAMS_H_
