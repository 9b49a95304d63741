// The models of a daemon, and the folder from which a restart brings them back.
// Who may use which: its owner, and of a shared one everybody; nobody else is
// told that it is there. The name of a shared one is taken also while its file
// was not loaded: the next restart may load it, and what everybody infers with
// is not to become another. Thread-safe.
//
// What changes which models there are is done on a thread of the store, one
// model after the other. Before that, weights are copied on others, one model
// of each client at a time: that waits for disks, and for as long as a client
// has products that write them. Kernels of models are prepared on another one,
// for nobody who waits, so that the first inference waits for no compile.
#ifndef GEMMD_SERVICE_MODELS_STORE_H_
#define GEMMD_SERVICE_MODELS_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/engine/thread_pool.h"
#include "service/models/model.h"
#include "service/models/model_file.h"

namespace gemmd::models {

// Rows of A for which they are. Other numbers of rows have one of these kernels
// at once, while their own is prepared.
inline constexpr int64_t kPreparedRows[] = {1, 64, 1024};

// Clients that have weights copied at a time. Each has a part of them in the
// daemon's memory.
inline constexpr int kCopyingThreads = 8;

class Store {
 public:
  struct Options {
    std::string directory;  // Empty: models end with the daemon.
    // Of all files together; 0: no limit.
    int64_t limit_bytes = int64_t{16} << 30;
    // Of all owners together; one of several gets three quarters.
    int64_t max_models = 256;
    // Whether the daemon is to end; null: not before it serves.
    std::function<bool()> stops;
  };

  // `engine` outlives the store.
  Store(engine::Engine& engine, Options options);

  // Brings back what the folder has, before anybody asks. A file that is
  // damaged, has no room or belongs to a principal that `is_owner` does not
  // know costs its model and a line of the log. The error of a folder that
  // cannot be used at all. CANCELLED when Options::stops.
  absl::Status Restore(absl::FunctionRef<bool(const std::string&)> is_owner);

  // Makes a model of copies of `weights`, on the device where they are.
  // ALREADY_EXISTS, RESOURCE_EXHAUSTED and what the engine and the disk say.
  void Create(Spec spec, Weights weights, engine::RequestContext context,
              engine::Done<ModelPointer> done);
  // `asker`'s own or, where he `administers`, else a shared one. What was not
  // loaded goes, too. NOT_FOUND when there is none.
  void Delete(const std::string& name, const std::string& asker,
              bool administers, engine::Done<std::monostate> done);

  // The one that `asker` means: his own, then a shared one, then "matmul". Null
  // when there is none.
  ModelPointer Find(const std::string& name, const std::string& asker) const;
  // Those that Find can give, by name, "matmul" among them.
  std::vector<ModelPointer> ListOf(const std::string& asker) const;

 private:
  using Key = std::pair<std::string, std::string>;  // Owner and name.
  struct Place {
    bool shared = false;
    ModelPointer model;  // Null: it is being made.
  };
  // A file without a model.
  struct Unloaded {
    std::optional<Spec> spec;  // None: the file does not tell.
    int64_t bytes = 0;
  };

  // Takes a place for a model, and of the folder, until Release or Publish.
  absl::Status Reserve(const Spec& spec, int64_t file_bytes);
  void Release(const Spec& spec, int64_t file_bytes);
  void Publish(ModelPointer model);
  // Some time later; what cannot be had costs a line of the log.
  void PrepareKernels(const ModelPointer& model);

  // What a model is made of.
  struct Copies {
    Weights weights;
    std::optional<FileWriter> file;  // Flushed. None where models end with us.
  };
  absl::StatusOr<Copies> Copy(const Spec& spec, const Weights& weights,
                              const engine::RequestContext& context);
  absl::StatusOr<ModelPointer> Make(const Spec& spec, Copies copies);
  absl::StatusOr<ModelPointer> Load(
      FileReader reader, absl::FunctionRef<bool(const std::string&)> is_owner);
  absl::StatusOr<Weights> MakeWeights(
      const std::vector<jit::MatrixLayout>& layouts, int device,
      const std::string& owner);
  // ALREADY_EXISTS when a file that was not loaded has the name that `spec` is
  // to have for everybody.
  absl::Status CheckUnloaded(const Spec& spec) const;
  // What Delete is to delete.
  std::optional<Key> FindToDelete(const std::string& name,
                                  const std::string& asker,
                                  bool administers) const;
  absl::Status Remove(const Key& key);
  // If the file was not loaded: it counts no more.
  void Forget(const std::string& file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  engine::Engine& engine_;
  const Options options_;
  const ModelPointer matmul_;

  mutable std::mutex mutex_;
  std::map<Key, Place> models_ ABSL_GUARDED_BY(mutex_);
  // Of files that are there or to be there, without a model or with one.
  int64_t file_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those without one, by name. They count until they are deleted, or a model
  // that is made replaces them.
  std::map<std::string, Unloaded> unloaded_ ABSL_GUARDED_BY(mutex_);
  engine::ThreadPool preparing_{1};
  engine::ThreadPool thread_{1};
  engine::ThreadPool copying_{
      // Last: it uses the rest.
      kCopyingThreads, engine::ThreadPool::OfAnIdentity::kOneAtATime};
};

}  // namespace gemmd::models

#endif  // GEMMD_SERVICE_MODELS_STORE_H_
