// Uploads that several streams bring together, a part each
// (UploadTensorRequest.Part in tensors.proto).
//
// A transfer lives as long as calls have a part of it: so there are never more
// of them than calls, and of clients that vanish nothing stays but its name,
// for a while, so that a part that comes too late is told so. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_TRANSFERS_H_
#define GEMMD_SERVICE_RPC_TRANSFERS_H_

#include <grpcpp/alarm.h>

#include <coroutine>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/engine.h"
#include "service/rpc/event_loop.h"

namespace gemmd::rpc {

class Transfers {
 public:
  static constexpr size_t kMostParts = 64;
  // Names of transfers that have ended: so many, for so long.
  static constexpr size_t kMostEnded = 4096;
  static constexpr absl::Duration kRemembered = absl::Minutes(1);

  // Who does not know all of it has no part in it.
  struct Name {
    std::string principal;  // "": nobody says who he is.
    std::string handle;     // Of the tensor.
    std::string id;         // The client's.

    friend bool operator==(const Name&, const Name&) = default;
    template <typename Hash>
    friend Hash AbslHashValue(Hash hash, const Name& name) {
      return Hash::combine(std::move(hash), name.principal, name.handle,
                           name.id);
    }
  };
  class Part;
  class Wait;
  using Upload = std::shared_ptr<engine::TensorUpload>;

  // A part of `lines` of the transfer of that name, which `begin` begins where
  // there is none. INVALID_ARGUMENT for lines that another part has,
  // RESOURCE_EXHAUSTED for too many parts, ABORTED when the transfer has ended.
  absl::StatusOr<std::unique_ptr<Part>> Join(
      const Name& name, device::LineRange lines, absl::Time now,
      absl::FunctionRef<absl::StatusOr<Upload>()> begin);

  // Those that have not ended, and names of those that have.
  size_t open() const;
  size_t remembered() const;

 private:
  struct Transfer {
    explicit Transfer(Name name) : name(std::move(name)) {}

    const Name name;
    std::weak_ptr<engine::TensorUpload> upload;  // Its parts keep it.
    int64_t lines = 0;                           // Of the tensor.
    std::vector<device::LineRange> parts;        // By ascending lines.
    int64_t landed_lines = 0;
    int64_t receiving = 0;  // Parts that have not landed.
    absl::Time progress;    // When a part last came, or landed.
    std::optional<absl::Status> end;
    std::vector<Wait*> waiting;  // For the end.
  };

  void End(Transfer& transfer, absl::Status status, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Held while an upload begins, and so before the locks that this takes.
  mutable std::mutex mutex_;
  absl::flat_hash_map<Name, std::shared_ptr<Transfer>> transfers_
      ABSL_GUARDED_BY(mutex_);
  // Of those in transfers_, the ones that have ended; the oldest first.
  std::deque<std::pair<Name, absl::Time>> ended_ ABSL_GUARDED_BY(mutex_);
};

// One stream's part of a transfer. A part that goes before the transfer is
// complete is the end of that. Used by one call; `transfers` outlives it.
class Transfers::Part {
 public:
  Part(Transfers& transfers, std::shared_ptr<Transfer> transfer, Upload upload,
       device::LineRange lines)
      : transfers_(transfers),
        transfer_(std::move(transfer)),
        upload_(std::move(upload)),
        lines_(lines) {}
  Part(const Part&) = delete;
  ~Part();

  const Upload& upload() const { return upload_; }
  device::LineRange lines() const { return lines_; }

  // Why the transfer has ended; OK while it has not.
  absl::Status Check() const;
  // Its lines are on the device, once. True where these were the last that
  // lacked: whoever brought them finishes the upload, and says how that ended.
  bool Land(absl::Time now);
  // Where only its own call was given up, all others end with the part.
  void Finish(absl::Status status);
  // Ends the transfer when lines lack and nobody has brought any for `limit`.
  void EndIfOverdue(absl::Time now, absl::Duration limit);

 private:
  friend class Wait;

  Transfers& transfers_;
  const std::shared_ptr<Transfer> transfer_;
  const Upload upload_;
  const device::LineRange lines_;
  bool finishes_ = false;
};

// co_await: how the transfer of `part` ended; nothing when it did not within
// `time`.
class [[nodiscard]] Transfers::Wait final : public Event {
 public:
  Wait(Part& part, EventLoop& loop, absl::Duration time)
      : part_(part), loop_(loop), time_(time) {}
  Wait(const Wait&) = delete;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle);
  std::optional<absl::Status> await_resume();

  // On the loop: ends the wait at once.
  void GiveUp() { alarm_.Cancel(); }

  void Complete(bool) override;

 private:
  friend class Transfers;

  Part& part_;
  EventLoop& loop_;
  const absl::Duration time_;
  grpc::Alarm alarm_;
  std::coroutine_handle<> handle_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_TRANSFERS_H_
