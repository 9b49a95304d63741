#include "tests/bench/wire/bare_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/rpc/grpc_settings.h"

namespace gemmd::wire {
namespace {

constexpr char kAwaited[] = "wire-awaited-bytes";
constexpr char kReturned[] = "wire-returned-bytes";
constexpr char kChunk[] = "wire-chunk-bytes";

int64_t Number(const grpc::GenericServerContext& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return 0;
  int64_t number = 0;
  const absl::string_view text(found->second.data(), found->second.size());
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

// One of each size, for all calls.
class Slices {
 public:
  grpc::Slice Of(int64_t size) {
    std::lock_guard lock(mutex_);
    const auto [it, is_new] = slices_.try_emplace(size);
    if (is_new) it->second = grpc::Slice(std::string(size, kFill));
    return it->second;
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, grpc::Slice> slices_ ABSL_GUARDED_BY(mutex_);
};

// A call, from when gRPC is asked for one; deletes itself when it is over. Used
// on the thread of its queue.
class Call {
 public:
  Call(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue,
       Slices& slices)
      : service_(service), queue_(queue), slices_(slices) {
    service_.RequestCall(&context_, &stream_, &queue_, &queue_, this);
  }

  // What was begun last is done.
  void Proceed(bool ok) {
    switch (state_) {
      case State::kAccepting:
        if (!ok) break;  // The server ends.
        new Call(service_, queue_, slices_);
        work_ = {.awaited_bytes = Number(context_, kAwaited),
                 .returned_bytes = Number(context_, kReturned),
                 .chunk_bytes = Number(context_, kChunk)};
        state_ = State::kReading;
        return stream_.Read(&message_, this);
      case State::kReading:
        if (!ok) return Send();
        read_bytes_ += static_cast<int64_t>(message_.Length());
        message_.Clear();
        return stream_.Read(&message_, this);
      case State::kSending:
        if (ok) return Send();
        break;  // The client has gone.
      case State::kEnding:
        break;
    }
    delete this;
  }

 private:
  enum class State { kAccepting, kReading, kSending, kEnding };

  // The next message, with the status if it is the last.
  void Send() {
    state_ = State::kEnding;
    if (read_bytes_ != work_.awaited_bytes) {
      const grpc::Status status(
          grpc::StatusCode::DATA_LOSS,
          absl::StrCat(read_bytes_,
                       " bytes have come; announced: ", work_.awaited_bytes));
      return stream_.Finish(status, this);
    }
    const int64_t size = std::min(work_.chunk_bytes, work_.returned_bytes);
    if (size <= 0) return stream_.Finish(grpc::Status::OK, this);
    const grpc::Slice slice = slices_.Of(size);
    const grpc::ByteBuffer message(&slice, 1);
    work_.returned_bytes -= size;
    if (work_.returned_bytes == 0) {
      return stream_.WriteAndFinish(message, {}, grpc::Status::OK, this);
    }
    state_ = State::kSending;
    stream_.Write(message, this);
  }

  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue& queue_;
  Slices& slices_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};
  State state_ = State::kAccepting;
  BareWork work_;
  grpc::ByteBuffer message_;
  int64_t read_bytes_ = 0;
};

void Poll(grpc::ServerCompletionQueue& queue) {
  void* tag;
  bool ok;
  while (queue.Next(&tag, &ok)) static_cast<Call*>(tag)->Proceed(ok);
}

// To the process that has begun this one.
absl::Status Tell(const std::string& line) {
  const ssize_t written = write(STDOUT_FILENO, line.data(), line.size());
  if (written == std::ssize(line)) return absl::OkStatus();
  return absl::UnknownError("standard output takes nothing");
}

void AwaitEndOfInput() {
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

}  // namespace

void AskBare(const BareWork& work, grpc::ClientContext& context) {
  context.AddMetadata(kAwaited, absl::StrCat(work.awaited_bytes));
  context.AddMetadata(kReturned, absl::StrCat(work.returned_bytes));
  context.AddMetadata(kChunk, absl::StrCat(work.chunk_bytes));
}

absl::Status ServeBare(const std::string& address, int loops) {
  grpc::AsyncGenericService service;
  Slices slices;
  grpc::ServerBuilder builder;
  rpc::SetLimits({}, builder);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < (loops > 0 ? loops : rpc::DefaultLoops()); ++i) {
    queues.push_back(builder.AddCompletionQueue());
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", address));
  }
  std::vector<std::thread> threads;
  for (auto& queue : queues) {
    new Call(service, *queue, slices);
    threads.emplace_back([&queue] { Poll(*queue); });
  }
  absl::Status told = Tell(absl::StrCat(port, "\n"));
  if (told.ok()) AwaitEndOfInput();
  server->Shutdown(std::chrono::system_clock::now());
  for (auto& queue : queues) queue->Shutdown();
  for (std::thread& thread : threads) thread.join();
  return told;
}

}  // namespace gemmd::wire
