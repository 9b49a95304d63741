// The streams and events of the fake driver. Work runs as late as it may: when
// somebody waits for it. So whoever forgets to wait sees what was there before.
// Used by one thread at a time.
#ifndef GEMMD_TESTS_SERVICE_GPU_FAKE_TIMELINE_H_
#define GEMMD_TESTS_SERVICE_GPU_FAKE_TIMELINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>

namespace gemmd::gpu {

class FakeTimeline {
 public:
  // What was enqueued on a stream before some moment. Streams are named by
  // their handles and remembered when destroyed: their work still ends.
  struct Point {
    uintptr_t stream = 0;
    uint64_t position = 0;
  };

  void Enqueue(uintptr_t stream, std::function<void()> work) {
    streams_[stream].waiting.push_back(std::move(work));
  }
  Point End(uintptr_t stream) {
    const Stream& s = streams_[stream];
    return {stream, s.done + s.waiting.size()};
  }
  // Runs what comes before `point`, and nothing else but what that waits for.
  void RunTo(Point point) {
    Stream& stream = streams_[point.stream];
    while (stream.done < point.position) {
      const std::function<void()> work = std::move(stream.waiting.front());
      stream.waiting.pop_front();
      ++stream.done;
      work();
    }
  }
  // Later work of `stream` waits for `point`.
  void Delay(uintptr_t stream, Point point) {
    Enqueue(stream, [this, point] { RunTo(point); });
  }
  void RunAll() {
    for (auto& [handle, stream] : streams_) RunTo(End(handle));
  }

 private:
  struct Stream {
    std::deque<std::function<void()>> waiting;
    uint64_t done = 0;
  };
  std::map<uintptr_t, Stream> streams_;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_TESTS_SERVICE_GPU_FAKE_TIMELINE_H_
