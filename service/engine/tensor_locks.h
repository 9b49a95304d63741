// The order in which requests use tensors: many readers or one writer at a
// time, first come, first served, so that neither keeps the other waiting for
// ever. Nothing here blocks: who has to wait is told when it is his turn.
#ifndef GEMMD_SERVICE_ENGINE_TENSOR_LOCKS_H_
#define GEMMD_SERVICE_ENGINE_TENSOR_LOCKS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "service/engine/tensor.h"

namespace gemmd::engine {

// Guards who uses the tensors of an engine. Outlives every TensorLocks.
class LockTable {
 private:
  friend class TensorLocks;
  std::mutex mutex_;
};

// The tensors that one request uses: held, waited for, or neither. They are
// locked one after the other in the order of their addresses, so that no two
// requests wait for each other. Thread-safe; stays where it is.
class TensorLocks {
 public:
  using Granted = absl::AnyInvocable<void()>;
  using Tensors = absl::Span<const std::shared_ptr<Tensor>>;

  explicit TensorLocks(LockTable& table) : table_(table) {}
  TensorLocks(const TensorLocks&) = delete;
  ~TensorLocks() { Release(); }

  // True when all are held at once. Otherwise `granted` is called when they
  // are, unless they are released first, on a thread that releases others. It
  // releases nothing itself: each who waits would let in the next one within
  // its own call, and however many wait would need that much stack.
  // Null pointers are skipped; one that is `written` excludes every other user
  // and may be among `read`. Once in a lifetime.
  bool Acquire(Tensors read, Tensors written, Granted granted);

  // Gives back what is held and waits no more, also of an Acquire that is yet
  // to come. Does nothing the second time.
  void Release();

  // Of a held tensor.
  static device::Matrix& matrix(Tensor& tensor) {
    return *tensor.contents_.matrix;
  }
  static bool has_elements(const Tensor& tensor) {
    return tensor.contents_.matrix != nullptr;
  }
  static int64_t version(const Tensor& tensor) { return tensor.version_; }
  // One held for writing may change from now on: when it is released, it has
  // another version. Called before the first byte is written; who ends before
  // that has written nothing.
  static void NoteWrite(Tensor& tensor) { tensor.changes_ = true; }
  // Of one held for writing: an upload is finished, or the first elements have
  // a place. Returns the old contents.
  static Tensor::Contents Replace(Tensor& tensor, Tensor::Contents contents) {
    ++tensor.uploads_;
    return std::exchange(tensor.contents_, std::move(contents));
  }

 private:
  struct Use {
    std::shared_ptr<Tensor> tensor;
    bool writes;
  };

  // Takes what is free from next_ on. True when nothing is missing; otherwise
  // this is in the line of the tensor at next_.
  bool Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(table_.mutex_);
  // Lets in whoever is first in the line of `tensor`, as far as they go
  // together, and collects what is to be called.
  static void LetIn(Tensor& tensor, std::vector<Granted>& granted);

  LockTable& table_;
  absl::InlinedVector<Use, 4> uses_ ABSL_GUARDED_BY(table_.mutex_);
  size_t next_ ABSL_GUARDED_BY(table_.mutex_) = 0;  // Those before are held.
  std::list<TensorLocks*>::iterator place_
      ABSL_GUARDED_BY(table_.mutex_);  // In that line.
  Granted granted_ ABSL_GUARDED_BY(table_.mutex_);
  bool released_ ABSL_GUARDED_BY(table_.mutex_) = false;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_TENSOR_LOCKS_H_
