// Those who wait for room on a device, oldest first: the first one is waited
// for, so that who needs much is not overtaken until he starves. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_ROOM_LINE_H_
#define GEMMD_SERVICE_RPC_ROOM_LINE_H_

#include <list>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace gemmd::rpc {

class RoomLine {
 public:
  // A place in the line, from its end on; left when it is destroyed.
  class Place {
   public:
    explicit Place(RoomLine& line) : line_(line) {
      std::lock_guard lock(line_.mutex_);
      line_.places_.push_back(this);
    }
    ~Place() {
      std::lock_guard lock(line_.mutex_);
      line_.places_.remove(this);
    }
    Place(const Place&) = delete;

    bool is_first() const {
      std::lock_guard lock(line_.mutex_);
      return line_.places_.front() == this;
    }
    // Lets the others pass: for one who waits for what he holds himself.
    void StepBack() {
      std::lock_guard lock(line_.mutex_);
      line_.places_.remove(this);
      line_.places_.push_back(this);
    }

   private:
    RoomLine& line_;
  };

 private:
  std::mutex mutex_;
  std::list<const Place*> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ROOM_LINE_H_
