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
#include "clients/cpp/security.h"
#include "clients/cpp/shared_memory.h"
#include "gemmd/v1/kernels.grpc.pb.h"
#include "gemmd/v1/matmul.grpc.pb.h"
#include "gemmd/v1/models.grpc.pb.h"
#include "gemmd/v1/server.grpc.pb.h"
#include "gemmd/v1/tensors.grpc.pb.h"

namespace gemmd::client {

class Loan;

// What moves many bytes goes by several connections at a time, by lines of its
// matrices: one connection moves some 3 GB/s. The client makes them when it
// first has use for them, and keeps them. What a daemon refuses that has no
// room for so many calls goes by one.
struct Striping {
  // 1 to 8; 1: none but its own. 0: as many as pay on this machine, half of its
  // cores, and 1 where it has less than 4.
  int connections = 0;
  // What has fewer bytes goes by one.
  uint64_t least_bytes = 32 << 20;
};

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
  // memory have more bytes in all travel in chunks: of any size, and held by
  // the daemon's memory a part at a time. Smaller ones are one message, which
  // is quicker for them.
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

// Where A, B or C comes from. The order of its lines is the problem's; of a
// sparse or quantized operand, bytes are counted where this says elements
// (types.proto, Sparsity, Quantization).
struct Operand {
  // Bytes here: lines `leading_dimension` elements apart (0: tight), the last
  // one with or without its padding; of a batch, one matrix behind the other,
  // unless batch_stride is set. They are read in place, not copied, and must
  // stay unchanged until the call returns.
  static Operand Bytes(absl::Span<const char> bytes,
                       int64_t leading_dimension = 0) {
    return {bytes, leading_dimension, {}, {}};
  }
  // A tensor on the device, by its handle; of one matrix it serves a whole
  // batch.
  static Operand Tensor(std::string handle) {
    return {{}, 0, std::move(handle), {}};
  }
  // Bytes from `offset` of `memory` on, as above, which the daemon reads where
  // they are. Not of sparse operands. They do not go in chunks, whatever else
  // of the product does.
  static Operand Shared(const SharedMemory& memory, int64_t offset,
                        int64_t leading_dimension = 0) {
    return {{}, leading_dimension, {}, {}, memory.handle(), offset};
  }

  absl::Span<const char> bytes;
  int64_t leading_dimension = 0;
  std::string tensor;
  // Elements between the first ones of two matrices of a batch: 0 lets one
  // matrix serve all of it; none means tight.
  std::optional<int64_t> batch_stride;
  std::string region;  // Handle of shared memory,
  int64_t offset = 0;  // and where in it.
};

// Where D, or the auxiliary result, goes. The default is its field of Result,
// tight.
struct Destination {
  // `bytes` receives it: lines `leading_dimension` elements apart (0: tight),
  // padding between them zero. Its size is ((lines - 1) * leading_dimension +
  // width) elements exactly.
  static Destination Bytes(absl::Span<char> bytes,
                           int64_t leading_dimension = 0) {
    return {bytes, leading_dimension, {}};
  }
  static Destination Tensor(std::string handle) {
    return {{}, 0, std::move(handle)};
  }
  // From `offset` of `memory` on; padding between lines is left alone. After an
  // error its bytes may be any, and after DEADLINE_EXCEEDED or CANCELLED they
  // may still be written for a while.
  static Destination Shared(const SharedMemory& memory, int64_t offset,
                            int64_t leading_dimension = 0) {
    return {{}, leading_dimension, {}, memory.handle(), offset};
  }

  absl::Span<char> bytes;
  int64_t leading_dimension = 0;
  std::string tensor;
  std::string region;  // As of an operand.
  int64_t offset = 0;
};

// One product, or problem.batch of them: D = alpha * A B + beta * C, and what
// problem.activation and problem.epilogue add.
struct Product {
  v1::Problem problem;
  Operand a;
  Operand b;
  Operand c;  // Left out of the request when problem.beta is 0.
  Destination d;
  // Values of problem.epilogue, f32, tight (or tensors of f32); left out of
  // the request where it asks for none.
  Operand bias;
  Operand a_scale;
  Operand b_scale;
  Operand d_scale;
  // Of what the activation is applied to, when problem.epilogue.auxiliary: of
  // D's type, shape and order.
  Destination auxiliary;
  std::string device;  // "": the daemon's choice.
  // Of this request alone, 16 to 64 printable characters drawn at random: who
  // does not know whether it was carried out, because the connection was lost,
  // asks again with the same one, and it is carried out once. For results that
  // stay where they are: ALREADY_EXISTS where more than 64 KiB would be
  // returned again. With one a product goes by one connection. "": none.
  std::string idempotency_key;
  absl::Duration timeout;                // Zero: Options::timeout.
  std::optional<uint64_t> stream_bytes;  // None: Options::stream_bytes.
  std::optional<Striping> striping;      // None: Options::striping.
};

struct Result {
  v1::Execution execution;    // Device, kernel, time of each phase.
  std::string d;              // Bytes of D when Product::d is the default.
  std::string auxiliary;      // Likewise.
  std::optional<float> amax;  // When problem.epilogue.amax.
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

  // Memory of `bytes` that is shared with the daemon, at a Unix socket on this
  // machine. FAILED_PRECONDITION where there is none, RESOURCE_EXHAUSTED when
  // the daemon has no room for it.
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
  // All of them, however many pages that takes.
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

  absl::StatusOr<Result> MatmulStream(const Product& product);
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
  // The stream of one of them.
  absl::Status UploadLines(const v1::UploadTensorRequest& first,
                           absl::Span<const char> bytes, Loan& loan,
                           grpc::ClientContext& context);
  absl::Status DownloadLines(const v1::DownloadTensorRequest& request,
                             absl::Span<char> bytes,
                             grpc::ClientContext& context);
  // Moves stripe i by `move`, all at the same time, each on a connection of its
  // own as far as the daemon takes so many. The first failure takes back the
  // others, and is returned.
  using Move = absl::FunctionRef<absl::Status(
      size_t i, Client& client, Loan& loan, grpc::ClientContext& context)>;
  absl::Status MoveStripes(size_t stripes, absl::Time end, Move move);
  // This one and others of its daemon, `count` in all if it takes so many.
  std::vector<Client*> Connections(size_t count);

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
  std::mutex others_mutex_;
  std::vector<std::unique_ptr<Client>> others_ ABSL_GUARDED_BY(others_mutex_);
  // The daemon has taken no more: each try would take its time.
  bool is_full_ ABSL_GUARDED_BY(others_mutex_) = false;
};

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_CLIENT_H_
