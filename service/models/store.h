// The models of a daemon, and the folder from which a restart brings them back.
// Who may use which: its owner, and of a shared one everybody; nobody else is
// told that it is there. Thread-safe.
//
// What waits for disks and devices is done on a thread of the store, one model
// after the other. Kernels of models are prepared on another one, for nobody
// who waits, so that the first inference waits for no compile.
#ifndef GEMMD_SERVICE_MODELS_STORE_H_
#define GEMMD_SERVICE_MODELS_STORE_H_

#include <cstdint>
#include <map>
#include <mutex>
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

namespace gemmd::models {

// Rows of A for which they are. Other numbers of rows have one of these kernels
// at once, while their own is prepared.
inline constexpr int64_t kPreparedRows[] = {1, 64, 1024};

class Store {
 public:
  struct Options {
    std::string directory;  // Empty: models end with the daemon.
    // Of all files together; 0: no limit.
    int64_t limit_bytes = int64_t{16} << 30;
    // Of all owners together; one of several gets three quarters.
    int64_t max_models = 256;
  };

  // `engine` outlives the store.
  Store(engine::Engine& engine, Options options);

  // Brings back what the folder has, before anybody asks. A file that is
  // damaged, has no room or belongs to a principal that `is_owner` does not
  // know costs its model and a line of the log. The error of a folder that
  // cannot be used at all.
  absl::Status Restore(absl::FunctionRef<bool(const std::string&)> is_owner);

  // Makes a model of copies of `weights`, on the device where they are.
  // ALREADY_EXISTS, RESOURCE_EXHAUSTED and what the engine and the disk say.
  void Create(Spec spec, Weights weights, engine::RequestContext context,
              engine::Done<ModelPointer> done);
  // NOT_FOUND unless it is `owner`'s own.
  void Delete(const std::string& name, const std::string& owner,
              engine::Done<std::monostate> done);

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

  // Takes a place for a model, and of the folder, until Release or Publish.
  absl::Status Reserve(const Spec& spec, int64_t file_bytes);
  void Release(const Spec& spec, int64_t file_bytes);
  void Publish(ModelPointer model);
  // Some time later; what cannot be had costs a line of the log.
  void PrepareKernels(const ModelPointer& model);

  absl::StatusOr<ModelPointer> Make(const Spec& spec, const Weights& weights,
                                    const engine::RequestContext& context);
  absl::StatusOr<ModelPointer> Load(
      const std::string& file,
      absl::FunctionRef<bool(const std::string&)> is_owner);
  absl::StatusOr<Weights> MakeWeights(
      const std::vector<jit::MatrixLayout>& layouts, int device,
      const std::string& owner);
  absl::Status Remove(const Key& key);

  engine::Engine& engine_;
  const Options options_;
  const ModelPointer matmul_;

  mutable std::mutex mutex_;
  std::map<Key, Place> models_ ABSL_GUARDED_BY(mutex_);
  // Of files that are there or to be there, without a model or with one.
  int64_t file_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those without one: names, and bytes that count until a model that is made
  // replaces the file.
  std::map<std::string, int64_t> unloaded_ ABSL_GUARDED_BY(mutex_);
  engine::ThreadPool preparing_{1};
  engine::ThreadPool thread_{1};  // Last: it uses the rest.
};

}  // namespace gemmd::models

#endif  // GEMMD_SERVICE_MODELS_STORE_H_
