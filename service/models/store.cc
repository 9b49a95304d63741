#include "service/models/store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/printable.h"
#include "jit/base/status.h"
#include "jit/problem/sizes.h"
#include "service/log/log.h"
#include "service/models/await.h"
#include "service/models/copy.h"
#include "service/models/model_file.h"

namespace gemmd::models {
namespace {

FileHeader HeaderOf(const Spec& spec) {
  return {.spec = spec,
          .has_bias = spec.problem.epilogue.bias != jit::Extent::kNone};
}

absl::Status Unknown(const std::string& name) {
  return absl::NotFoundError(
      absl::StrCat("no model ", jit::Printable(name.substr(0, 64)),
                   " of this client's: never created, or deleted"));
}

// Nobody waits for what is done at the start.
engine::RequestContext ContextOf(const std::string& owner) {
  return {.identity = owner, .is_principal = !owner.empty()};
}

std::vector<std::pair<std::shared_ptr<engine::Tensor>, const char*>> Parts(
    const Weights& weights) {
  std::vector<std::pair<std::shared_ptr<engine::Tensor>, const char*>> parts = {
      {weights.b, "b"}};
  if (weights.bias != nullptr) parts.push_back({weights.bias, "bias"});
  return parts;
}

}  // namespace

Store::Store(engine::Engine& engine, Options options)
    : engine_(engine),
      options_(std::move(options)),
      matmul_(std::make_shared<Model>(Spec{.name = kMatmul, .shared = true},
                                      Weights(), false)) {}

absl::Status Store::Restore(
    absl::FunctionRef<bool(const std::string&)> is_owner) {
  if (options_.directory.empty()) return absl::OkStatus();
  const auto files = ListFiles(options_.directory);
  if (!files.ok()) {
    return absl::Status(
        files.status().code(),
        absl::StrCat("--model-repository is ", options_.directory, ": ",
                     files.status().message()));
  }
  for (const auto& file : *files) {
    absl::StatusOr<FileReader> reader =
        FileReader::Open(options_.directory, file.name);
    std::optional<Spec> spec;
    if (reader.ok()) spec = reader->header().spec;
    absl::StatusOr<ModelPointer> model =
        reader.ok() ? Load(*std::move(reader), is_owner) : reader.status();
    if (model.ok()) {
      log::Write(log::Level::kInfo, "model_loaded",
                 {{"name", (*model)->spec().name},
                  {"principal", (*model)->spec().owner},
                  {"bytes", file.bytes}});
      continue;
    }
    if (absl::IsCancelled(model.status())) return model.status();
    {
      // It stays where it is, for whoever looks after it.
      std::lock_guard lock(mutex_);
      unloaded_[file.name] = {.spec = std::move(spec), .bytes = file.bytes};
      file_bytes_ += file.bytes;
    }
    log::Write(log::Level::kError, "model_not_loaded",
               {{"file", file.name}, {"message", model.status().message()}});
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelPointer> Store::Load(
    FileReader reader, absl::FunctionRef<bool(const std::string&)> is_owner) {
  const Spec& spec = reader.header().spec;
  if (!is_owner(spec.owner)) {
    return absl::NotFoundError(
        absl::StrCat("it belongs to ",
                     spec.owner.empty() ? "clients without a name" : spec.owner,
                     ", which this daemon does not know"));
  }
  const int64_t file_bytes = reader.header().file_bytes();
  RETURN_IF_ERROR(Reserve(spec, file_bytes));
  const auto load = [&]() -> absl::StatusOr<ModelPointer> {
    const engine::RequestContext context = ContextOf(spec.owner);
    int device = 0;
    for (int i = 1; i < engine_.device_count(); ++i) {
      const auto free = [&](int of) {
        return engine_.tensors().free_bytes(of, spec.owner);
      };
      if (free(i) > free(device)) device = i;
    }
    ASSIGN_OR_RETURN(Weights weights, MakeWeights(reader.header().layouts(),
                                                  device, spec.owner));
    std::string part(kPartBytes, '\0');
    for (const auto& [tensor, name] : Parts(weights)) {
      const jit::MatrixLayout& layout = tensor->layout();
      ASSIGN_OR_RETURN(Filler filler, Filler::Begin(engine_, tensor, context));
      for (int64_t at = 0; at < TightBytes(layout);) {
        if (options_.stops && options_.stops()) {
          return absl::CancelledError("the daemon is to end");
        }
        const absl::Span<char> bytes =
            absl::MakeSpan(part).first(BytesOf(layout, NextPart(layout, at)));
        RETURN_IF_ERROR(reader.Read(bytes));
        RETURN_IF_ERROR(filler.Add(bytes));
        at += static_cast<int64_t>(bytes.size());
      }
      RETURN_IF_ERROR(filler.Finish());
    }
    RETURN_IF_ERROR(reader.CheckDigest());
    return std::make_shared<Model>(spec, std::move(weights), true);
  };
  absl::StatusOr<ModelPointer> model = load();
  model.ok() ? Publish(*model) : Release(spec, file_bytes);
  return model;
}

void Store::Create(Spec spec, Weights weights, engine::RequestContext context,
                   engine::Done<ModelPointer> done) {
  const int64_t file_bytes =
      options_.directory.empty() ? 0 : HeaderOf(spec).file_bytes();
  absl::Status status = CheckUnloaded(spec);
  if (status.ok()) status = Reserve(spec, file_bytes);
  if (!status.ok()) return done(status);
  const std::string identity = context.identity;
  copying_.Submit(identity, [this, spec = std::move(spec),
                             weights = std::move(weights),
                             context = std::move(context), file_bytes,
                             done = std::move(done)]() mutable {
    absl::StatusOr<Copies> copies = Copy(spec, weights, context);
    if (!copies.ok()) {
      Release(spec, file_bytes);
      return done(copies.status());
    }
    thread_.Submit(context.identity, [this, spec = std::move(spec),
                                      copies = *std::move(copies), file_bytes,
                                      done = std::move(done)]() mutable {
      absl::StatusOr<ModelPointer> model = Make(spec, std::move(copies));
      model.ok() ? Publish(*model) : Release(spec, file_bytes);
      done(std::move(model));
    });
  });
}

absl::StatusOr<Store::Copies> Store::Copy(
    const Spec& spec, const Weights& weights,
    const engine::RequestContext& context) {
  RETURN_IF_ERROR(context.Check("the model was made"));
  const FileHeader header = HeaderOf(spec);
  std::optional<FileWriter> file;
  if (!options_.directory.empty()) {
    ASSIGN_OR_RETURN(FileWriter writer,
                     FileWriter::Create(options_.directory, header));
    file.emplace(std::move(writer));
  }
  ASSIGN_OR_RETURN(
      const Weights copies,
      MakeWeights(header.layouts(), weights.b->identity().device, spec.owner));
  // They count for the owner, who may be everybody.
  engine::RequestContext owner = context;
  owner.identity = spec.owner;
  const auto from = Parts(weights);
  const auto to = Parts(copies);
  for (size_t i = 0; i < from.size(); ++i) {
    ASSIGN_OR_RETURN(Filler filler, Filler::Begin(engine_, to[i].first, owner));
    const auto take = [&](absl::Span<const char> part) -> absl::Status {
      if (file) RETURN_IF_ERROR(file->Add(part));
      return filler.Add(part);
    };
    RETURN_IF_ERROR(Fetch(engine_, from[i].first, context, take));
    RETURN_IF_ERROR(filler.Finish());
  }
  if (file) RETURN_IF_ERROR(file->Flush());
  return Copies{.weights = copies, .file = std::move(file)};
}

absl::StatusOr<ModelPointer> Store::Make(const Spec& spec, Copies copies) {
  if (copies.file) RETURN_IF_ERROR(copies.file->Publish());
  return std::make_shared<Model>(spec, std::move(copies.weights),
                                 copies.file.has_value());
}

absl::StatusOr<Weights> Store::MakeWeights(
    const std::vector<jit::MatrixLayout>& layouts, int device,
    const std::string& owner) {
  ASSIGN_OR_RETURN(auto tensors,
                   engine_.MakeTemporaries(layouts, device, owner));
  for (const auto& tensor : tensors) engine_.tensors().Keep(*tensor);
  Weights weights = {.b = std::move(tensors[0]), .bias = nullptr};
  if (tensors.size() > 1) weights.bias = std::move(tensors[1]);
  return weights;
}

absl::Status Store::CheckUnloaded(const Spec& spec) const {
  std::lock_guard lock(mutex_);
  const auto is_taken = [&](const auto& entry) {
    const std::optional<Spec>& other = entry.second.spec;
    return other && other->shared && other->name == spec.name &&
           other->owner != spec.owner;
  };
  if (!spec.shared || std::ranges::none_of(unloaded_, is_taken)) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(
      absl::StrCat("there is a shared model ", spec.name,
                   ", which was not loaded; delete it first"));
}

std::optional<Store::Key> Store::FindToDelete(const std::string& name,
                                              const std::string& asker,
                                              bool administers) const {
  std::optional<Key> own, shared;
  const auto look = [&](const Key& key, bool is_shared) {
    if (key.second != name) return;
    if (key.first == asker) own = key;
    if (is_shared && !shared) shared = key;
  };
  const std::string own_file = FileNameOf(asker, name);
  std::lock_guard lock(mutex_);
  for (const auto& [key, place] : models_) {
    if (place.model != nullptr) look(key, place.shared);
  }
  // Known by its name alone: the file may be too damaged to tell.
  if (unloaded_.contains(own_file)) own = Key(asker, name);
  for (const auto& [file, unloaded] : unloaded_) {
    const std::optional<Spec>& spec = unloaded.spec;
    if (spec) look(Key(spec->owner, spec->name), spec->shared);
  }
  return own || !administers ? own : shared;
}

void Store::Delete(const std::string& name, const std::string& asker,
                   bool administers, engine::Done<std::monostate> done) {
  const std::optional<Key> key = FindToDelete(name, asker, administers);
  if (!key) return done(Unknown(name));
  thread_.Submit(asker, [this, key = *key, done = std::move(done)]() mutable {
    const absl::Status removed = Remove(key);
    if (!removed.ok()) return done(removed);
    done(std::monostate());
  });
}

// On the thread, so that nobody makes one of that name meanwhile.
absl::Status Store::Remove(const Key& key) {
  const std::string file = FileNameOf(key.first, key.second);
  ModelPointer model;  // Null: it was not loaded.
  {
    std::lock_guard lock(mutex_);
    const auto found = models_.find(key);
    if (found != models_.end()) model = found->second.model;
    if (model == nullptr && !unloaded_.contains(file)) {
      return Unknown(key.second);
    }
  }
  // First the file: what a client was told is gone does not come back.
  if (model == nullptr || model->persistent()) {
    RETURN_IF_ERROR(RemoveFile(options_.directory, file));
  }
  if (model == nullptr) {
    std::lock_guard lock(mutex_);
    Forget(file);
    return absl::OkStatus();
  }
  Release(model->spec(),
          model->persistent() ? HeaderOf(model->spec()).file_bytes() : 0);
  return absl::OkStatus();
}

absl::Status Store::Reserve(const Spec& spec, int64_t file_bytes) {
  std::lock_guard lock(mutex_);
  const Key key(spec.owner, spec.name);
  const auto is_taken = [&](const auto& entry) {
    return entry.first == key || (spec.shared && entry.second.shared &&
                                  entry.first.second == spec.name);
  };
  if (std::ranges::any_of(models_, is_taken)) {
    return absl::AlreadyExistsError(
        absl::StrCat("there is a model ", spec.name, "; delete it first"));
  }
  const int64_t all = static_cast<int64_t>(models_.size());
  const int64_t own = std::ranges::count_if(models_, [&](const auto& entry) {
    return entry.first.first == spec.owner;
  });
  const int64_t share = spec.owner.empty()
                            ? options_.max_models
                            : options_.max_models - options_.max_models / 4;
  if (all >= options_.max_models || own >= share) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "there are as many models as may be: ",
        own >= share ? absl::StrCat(share, " of one client")
                     : absl::StrCat(options_.max_models, " of all clients")));
  }
  const auto replaced = unloaded_.find(FileNameOf(spec.owner, spec.name));
  const int64_t replaced_bytes =
      replaced == unloaded_.end() ? 0 : replaced->second.bytes;
  if (options_.limit_bytes > 0 &&
      file_bytes > options_.limit_bytes - (file_bytes_ - replaced_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the model's file has ", file_bytes,
        " bytes, for which the folder of models has no room; its limit is ",
        options_.limit_bytes, " (--model-repository-limit-bytes)"));
  }
  file_bytes_ += file_bytes;
  models_[key] = {.shared = spec.shared, .model = nullptr};
  return absl::OkStatus();
}

void Store::Release(const Spec& spec, int64_t file_bytes) {
  ModelPointer dropped;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  const auto found = models_.find(Key(spec.owner, spec.name));
  dropped = std::move(found->second.model);
  models_.erase(found);
  file_bytes_ -= file_bytes;
}

void Store::PrepareKernels(const ModelPointer& model) {
  const int device = model->weights().b->identity().device;
  for (const int64_t rows : kPreparedRows) {
    Spec spec = model->spec();
    spec.problem.m = rows;
    if (!jit::CheckSizes(spec.problem).ok()) continue;  // Nor will one come.
    preparing_.SubmitBehind([this, device, spec = std::move(spec),
                             weak = std::weak_ptr(model)] {
      if (weak.expired()) return;  // It was deleted.
      const auto prepared =
          Await<engine::Execution>([&](engine::Done<engine::Execution> done) {
            engine_.Prepare(spec.problem, device, ContextOf(spec.owner),
                            std::move(done));
          });
      if (prepared.ok()) return;
      log::Write(log::Level::kWarning, "model_not_prepared",
                 {{"name", spec.name},
                  {"principal", spec.owner},
                  {"rows", spec.problem.m},
                  {"message", prepared.status().message()}});
    });
  }
}

void Store::Publish(ModelPointer model) {
  PrepareKernels(model);
  const Key key(model->spec().owner, model->spec().name);
  std::lock_guard lock(mutex_);
  models_[key].model = std::move(model);
  Forget(FileNameOf(key.first, key.second));
}

void Store::Forget(const std::string& file) {
  const auto gone = unloaded_.find(file);
  if (gone == unloaded_.end()) return;
  file_bytes_ -= gone->second.bytes;
  unloaded_.erase(gone);
}

ModelPointer Store::Find(const std::string& name,
                         const std::string& asker) const {
  if (name == kMatmul) return matmul_;
  std::lock_guard lock(mutex_);
  const auto own = models_.find(Key(asker, name));
  if (own != models_.end() && own->second.model != nullptr) {
    return own->second.model;
  }
  for (const auto& [key, place] : models_) {
    if (key.second == name && place.shared && place.model != nullptr) {
      return place.model;
    }
  }
  return nullptr;
}

std::vector<ModelPointer> Store::ListOf(const std::string& asker) const {
  std::map<std::string, ModelPointer> named = {{kMatmul, matmul_}};
  std::lock_guard lock(mutex_);
  for (const auto& [key, place] : models_) {
    if (place.model == nullptr) continue;
    if (key.first == asker) {
      named[key.second] = place.model;
    } else if (place.shared) {
      named.try_emplace(key.second, place.model);
    }
  }
  std::vector<ModelPointer> models;
  for (auto& [name, model] : named) models.push_back(std::move(model));
  return models;
}

}  // namespace gemmd::models
