// A connection to a gemmd daemon.
//
//   ASSIGN_OR_RETURN(auto client, Client::Connect("localhost:50051"));
//   Product product;
//   product.problem.set_m(300);
//   ...
//   product.a = Operand::Bytes(a);  // 300 x 500 bf16, row-major, tight.
//   product.b = Operand::Bytes(b);
//   ASSIGN_OR_RETURN(Result result, client->Matmul(product));
//
// Messages of the API (gemmd::v1) are the vocabulary; proto/gemmd/v1 says what
// every field means, its unit, limit and default. Errors are absl::Status with
// the code and text of the daemon; UNAVAILABLE when none answers, and
// DEADLINE_EXCEEDED when a timeout passes. Thread-safe.
#ifndef GEMMD_CLIENTS_CPP_CLIENT_H_
#define GEMMD_CLIENTS_CPP_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "clients/cpp/encoded_sequence.h"
#include "clients/cpp/product.h"
#include "clients/cpp/security.h"
#include "clients/cpp/shared_memory.h"
#include "gemmd/v1/kernels.grpc.pb.h"
#include "gemmd/v1/matmul.grpc.pb.h"
#include "gemmd/v1/models.grpc.pb.h"
#include "gemmd/v1/server.grpc.pb.h"
#include "gemmd/v1/tensors.grpc.pb.h"

namespace gemmd::client {

class Loan;

struct Options {
  // In place of those of `security`, unless it is null.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // Security::Default() is what the environment says; this is plaintext.
  Security security;
  // How long Connect waits for the daemon.
  absl::Duration connect_timeout = absl::Seconds(10);
  // Default time limit of every call, its compile included, and the waiting
  // before it is tried again: the daemon says when there may be room for what
  // it had none for. What is larger than 256 KiB, and what travels in chunks,
  // is not kept for another try.
  absl::Duration timeout = absl::InfiniteDuration();
  // Products whose operands and results that are neither tensors nor in shared
  // memory have more bytes in all, or more than the daemon takes in a message,
  // travel in chunks: of any size, and held by the daemon's memory a part at a
  // time. Smaller ones are one message, which is quicker for them.
  uint64_t stream_bytes = 64 << 20;
  // Of uploads and downloads of tensors, and of products that have so many
  // bytes of operands and results that are no tensors: where they go by several
  // connections those are tensors for the time of the call (Execution.paths),
  // two of each operand while it is sent. Where the daemon has no room for
  // that, and with an auxiliary result, products travel in chunks.
  Striping striping;
  // What carries matrices is guarded by a CRC-32C from memory to memory, in
  // both directions: DATA_LOSS when it was damaged on its way, and nothing of
  // it has counted.
  bool checksums = false;
  // How long a daemon may give no sign of life while calls run: then it is
  // asked for one, and after as long again they end with UNAVAILABLE. At least
  // 10 s: a daemon cuts off who asks more often. A call that is sending over
  // TCP when its timeout passes ends that much later at the latest.
  absl::Duration silence = absl::Seconds(20);
};

class Client {
 public:
  // `target` is "host:port" or "unix:/path". UNAVAILABLE when no daemon
  // answers within options.connect_timeout. INVALID_ARGUMENT as CheckSecurity.
  // The connection is this client's own.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(
      const std::string& target, Options options = {});
  // One more to the same daemon.
  absl::StatusOr<std::unique_ptr<Client>> Another() const {
    return Connect(target_, options_);
  }

  // INTERNAL when a result is not of the size that its buffer has. One message,
  // a stream of them, or several: Options::stream_bytes, Options::striping.
  absl::StatusOr<Result> Matmul(const Product& product);

  // All in one call, each of its own sizes. Errors name "groups[i]". The time
  // limit is this one (zero: Options::timeout) and not that of any product.
  absl::StatusOr<std::vector<Result>> MatmulGrouped(
      absl::Span<const Product> products,
      absl::Duration timeout = absl::ZeroDuration());

  // Products in order in one call. Errors name "steps[i]". Nothing is returned
  // of a call that fails; tensors that it was to write may have been written.
  absl::StatusOr<SequenceResult> Run(const Sequence& sequence);
  // The same of one that was encoded before, with the time limit (zero:
  // Options::timeout) and the idempotency key of this call.
  absl::StatusOr<SequenceResult> Run(
      const EncodedSequence& sequence,
      absl::Duration timeout = absl::ZeroDuration(),
      const std::string& idempotency_key = "");

  // Memory of `bytes` that is shared with the daemon, at a Unix socket on this
  // machine. FAILED_PRECONDITION where there is none, or its --region-bytes is
  // 0, RESOURCE_EXHAUSTED when the daemon has no room for it. More than it
  // takes of one client is not allocated.
  absl::StatusOr<std::unique_ptr<SharedMemory>> Share(int64_t bytes);

  // A tensor of zeros. RESOURCE_EXHAUSTED when memory or the quota is used up.
  absl::StatusOr<v1::TensorInfo> CreateTensor(
      const v1::CreateTensorRequest& request);
  // Replaces all elements. `bytes` lie as `layout` says and are read in place.
  // Where they go by several connections (Options::striping) the tensor has all
  // of them at once, too.
  absl::Status UploadTensor(const std::string& handle, const v1::Layout& layout,
                            absl::Span<const char> bytes);
  // Fills `bytes` as `layout` says. INTERNAL when the tensor has another size.
  // ABORTED when it is written meanwhile.
  absl::Status DownloadTensor(const std::string& handle,
                              const v1::Layout& layout, absl::Span<char> bytes);
  // The same with bytes from `offset` of `memory` on, which the daemon reads or
  // writes where they are. Sparse elements are not read there. After an error
  // of the second one the bytes may be any, and after DEADLINE_EXCEEDED or
  // CANCELLED they may still be written for a while.
  absl::Status UploadTensor(const std::string& handle, const v1::Layout& layout,
                            const SharedMemory& memory, int64_t offset);
  absl::Status DownloadTensor(const std::string& handle,
                              const v1::Layout& layout,
                              const SharedMemory& memory, int64_t offset);
  absl::StatusOr<v1::TensorInfo> DescribeTensor(const std::string& handle);
  // All of them, however many pages that takes, which have one time limit.
  absl::StatusOr<std::vector<v1::TensorInfo>> ListTensors();
  absl::Status DeleteTensor(const std::string& handle);

  // Products with weights under a name, for clients of the inference protocol.
  absl::StatusOr<v1::Model> CreateModel(const v1::CreateModelRequest& request);
  absl::StatusOr<v1::ListModelsResponse> ListModels();
  absl::Status DeleteModel(const std::string& name);

  // Compiles and loads what the problems would use; device "" means all.
  absl::StatusOr<std::vector<v1::Execution>> PrepareKernels(
      absl::Span<const v1::Problem> problems, const std::string& device = "");
  // Of groups, too.
  absl::StatusOr<std::vector<v1::Execution>> PrepareKernels(
      const v1::PrepareKernelsRequest& request);
  // All of them, as ListTensors.
  absl::StatusOr<std::vector<v1::KernelSummary>> ListKernels();
  absl::StatusOr<v1::KernelDescription> DescribeKernel(const std::string& key);
  absl::Status EvictKernel(const std::string& key);
  // Calls `done` for each problem and device, as it is tuned.
  absl::Status TuneKernels(
      const v1::TuneKernelsRequest& request,
      const std::function<void(const v1::TuneKernelsResponse&)>& done);

  absl::StatusOr<v1::ServerInfo> GetServerInfo();
  absl::StatusOr<v1::Statistics> GetStatistics();
  // OK when the daemon serves (grpc.health.v1), else UNAVAILABLE.
  absl::Status CheckHealth();

 private:
  Client(std::string target, std::shared_ptr<grpc::Channel> channel,
         Options options, std::unique_ptr<Authorization> authorization);

  // `parts` are those of `sequence`.
  absl::StatusOr<SequenceResult> Run(const Sequence& sequence,
                                     absl::Span<const SequencePart> parts,
                                     absl::Duration timeout,
                                     const std::string& idempotency_key);
  // `room` as MessageRoom.
  absl::StatusOr<Result> MatmulStream(const Product& product, uint64_t room,
                                      absl::Time end);
  // Nothing where the product does not go that way, or there is no room.
  absl::StatusOr<std::optional<Result>> MatmulStriped(const Product& product,
                                                      int connections);

  absl::StatusOr<v1::TensorInfo> Create(const v1::CreateTensorRequest& request,
                                        absl::Time end);
  absl::StatusOr<v1::TensorInfo> Describe(const std::string& handle,
                                          absl::Time end);
  absl::Status Delete(const std::string& handle, absl::Time end);
  // Until `end`, by so many connections where the tensor has the lines.
  absl::Status Upload(const std::string& handle, const v1::Layout& layout,
                      absl::Span<const char> bytes, int connections,
                      absl::Time end);
  absl::Status Download(const std::string& handle, const v1::Layout& layout,
                        absl::Span<char> bytes, int connections,
                        absl::Time end);
  // The stream of one of them. `room` as MessageRoom.
  absl::Status UploadLines(const v1::UploadTensorRequest& first,
                           absl::Span<const char> bytes, uint64_t room,
                           Loan& loan, grpc::ClientContext& context);
  absl::Status DownloadLines(const v1::DownloadTensorRequest& request,
                             absl::Span<char> bytes,
                             grpc::ClientContext& context);
  // Moves stripe i by `move`, all at the same time, each on a connection of its
  // own as far as the daemon takes so many. The first failure takes back the
  // others, and is returned; RESOURCE_EXHAUSTED where the system has too few
  // threads.
  using Move = absl::FunctionRef<absl::Status(
      size_t i, Client& client, Loan& loan, grpc::ClientContext& context)>;
  absl::Status MoveStripes(size_t stripes, absl::Time end, Move move);
  // This one and others of its daemon, `count` in all if it takes so many.
  std::vector<Client*> Connections(size_t count);

  absl::StatusOr<v1::ServerInfo> GetServerInfo(absl::Time end);
  // Bytes of matrices for one message, where `bytes` are to travel. The daemon
  // is asked once, and only where not every daemon takes them; of one that does
  // not say there is room for all, and what is sent learns why.
  uint64_t MessageRoom(uint64_t bytes, absl::Time end);

  // When a call ends that may take `timeout`; zero: Options::timeout.
  absl::Time EndOf(absl::Duration timeout) const;
  void Prepare(grpc::ClientContext& context, absl::Time end) const;
  // Says who calls, and sets the deadline of a call; zero means
  // Options::timeout.
  void Prepare(grpc::ClientContext& context, absl::Duration timeout) const;

  const std::string target_;
  const std::shared_ptr<grpc::Channel> channel_;
  const Options options_;
  const std::unique_ptr<Authorization> authorization_;
  const std::unique_ptr<v1::TensorService::Stub> tensors_;
  const std::unique_ptr<v1::ModelService::Stub> models_;
  const std::unique_ptr<v1::KernelService::Stub> kernels_;
  const std::unique_ptr<v1::ServerService::Stub> server_;
  // The daemon's --max-message-bytes: -1 is not asked for yet, 0 not told.
  std::atomic<int64_t> max_message_bytes_ = -1;
  std::mutex others_mutex_;
  std::vector<std::unique_ptr<Client>> others_ ABSL_GUARDED_BY(others_mutex_);
  // The daemon has taken no more: each try would take its time.
  bool is_full_ ABSL_GUARDED_BY(others_mutex_) = false;
};

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_CLIENT_H_
