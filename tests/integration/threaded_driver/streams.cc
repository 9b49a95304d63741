#include "tests/integration/threaded_driver/streams.h"

#include <chrono>
#include <random>
#include <utility>

#include "tests/integration/threaded_driver/faults.h"

namespace gemmd::threaded_driver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLongestDelayUs = 200;  // Of one piece of work of four.

void Dawdle() {
  thread_local std::minstd_rand random(std::random_device{}());
  if (random() % 4 == 0) {
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % kLongestDelayUs));
  }
}

// Its uses are numbered: who waits for an event waits for its last record. Kept
// by what waits for it, though it is destroyed.
class Event {
 public:
  int64_t Record() {
    std::lock_guard lock(mutex_);
    return ++recorded_;
  }
  void Pass(int64_t record) {
    std::lock_guard lock(mutex_);
    passed_ = record;
    time_ = Clock::now();
    changed_.notify_all();
  }
  int64_t recorded() {
    std::lock_guard lock(mutex_);
    return recorded_;
  }
  void WaitFor(int64_t record) {
    std::unique_lock lock(mutex_);
    while (passed_ < record) changed_.wait(lock);
  }
  Clock::time_point time() {
    std::lock_guard lock(mutex_);
    return time_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t recorded_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t passed_ ABSL_GUARDED_BY(mutex_) = 0;
  Clock::time_point time_ ABSL_GUARDED_BY(mutex_);
};
using Shared = std::shared_ptr<Event>;

const Shared& EventOf(CUevent handle) {
  return *reinterpret_cast<Shared*>(handle);
}

}  // namespace

Stream::Stream(int device) : device_(device), thread_([this] { Run(); }) {}

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Stream::Enqueue(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  ++enqueued_;
  changed_.notify_all();
}

void Stream::Synchronize() {
  std::unique_lock lock(mutex_);
  const int64_t until = enqueued_;
  while (done_ < until) changed_.wait(lock);
}

void Stream::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (!ends_ && work_.empty()) changed_.wait(lock);
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    Dawdle();
    work();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

Stream& StreamOf(CUstream handle) {
  static Stream& null_stream = *new Stream(0);
  return handle == nullptr ? null_stream : *reinterpret_cast<Stream*>(handle);
}

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  RETURN_IF_FAULT(cuStreamCreate, CurrentDevice());
  *stream = reinterpret_cast<CUstream>(new Stream(CurrentDevice()));
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  delete &StreamOf(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  StreamOf(stream).Synchronize();
  RETURN_IF_FAULT(cuStreamSynchronize, StreamOf(stream).device());
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  RETURN_IF_FAULT(cuStreamWaitEvent, StreamOf(stream).device());
  StreamOf(stream).Enqueue(
      [event = EventOf(event), record = EventOf(event)->recorded()] {
        event->WaitFor(record);
      });
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  RETURN_IF_FAULT(cuEventCreate, CurrentDevice());
  *event = reinterpret_cast<CUevent>(new Shared(std::make_shared<Event>()));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  delete &EventOf(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  RETURN_IF_FAULT(cuEventRecord, StreamOf(stream).device());
  StreamOf(stream).Enqueue(
      [event = EventOf(event), record = EventOf(event)->Record()] {
        event->Pass(record);
      });
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  EventOf(event)->WaitFor(EventOf(event)->recorded());
  RETURN_IF_FAULT(cuEventSynchronize, CurrentDevice());
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  *ms = std::chrono::duration<float, std::milli>(EventOf(end)->time() -
                                                 EventOf(start)->time())
            .count();
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace gemmd::threaded_driver
