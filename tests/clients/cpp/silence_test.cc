// A daemon that takes nothing of what it is sent: calls end all the same, and
// give back the operands that they read in place.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/string_view.h"
#include "clients/cpp/client.h"
#include "tests/loopback_listener.h"

namespace gemmd::client {
namespace {

struct Manners {
  bool room = true;  // For all that HTTP/2 can send; else for 64 KiB.
  int pings = 0;     // So many it reads and answers,
  int refusals = 0;  // and so many calls, then it reads nothing.
};

// HEADERS that end the call of stream 0, which is to be another one: :status
// 200, content-type, and the grpc-status of UNIMPLEMENTED.
constexpr absl::string_view kRefusal(
    "\0\0\x30\1\5\0\0\0\0\x88"
    "\0\x0c"
    "content-type"
    "\x10"
    "application/grpc"
    "\0\x0b"
    "grpc-status"
    "\x02"
    "12",
    57);

// Greets one client over HTTP/2, and falls silent.
class SilentServer {
 public:
  explicit SilentServer(Manners manners) : manners_(manners) {
    thread_ = std::thread([this] { Serve(); });
  }
  ~SilentServer() {
    listener_.End();
    shutdown(client_, SHUT_RDWR);
    thread_.join();
    close(client_);
  }

  const std::string& address() const { return listener_.address(); }

 private:
  void Serve() {
    client_ = listener_.Accept();
    // SETTINGS with INITIAL_WINDOW_SIZE, and WINDOW_UPDATE of the connection.
    Write(manners_.room ? std::string("\0\0\6\4\0\0\0\0\0\0\4\x7f\xff\xff\xff"
                                      "\0\0\4\10\0\0\0\0\0\x7f\xff\0\0",
                                      28)
                        : std::string("\0\0\0\4\0\0\0\0\0", 9));
    const int answers = manners_.pings + manners_.refusals;
    if (answers == 0) return;
    Read(24);  // The preface.
    for (int left = answers; left > 0;) {
      std::string frame = Read(9);
      if (frame.empty()) return;
      const auto byte = [&](int i) { return static_cast<uint8_t>(frame[i]); };
      const std::string payload = Read(byte(0) << 16 | byte(1) << 8 | byte(2));
      if (frame[3] == 1 && manners_.refusals > 0) {  // HEADERS.
        std::string refusal(kRefusal);
        refusal.replace(5, 4, frame, 5, 4);
        Write(refusal);
        --left;
      }
      if (frame[3] != 6 || frame[4] != 0) continue;
      frame[4] = 1;  // ACK.
      Write(frame + payload);
      --left;
    }
  }
  void Write(const std::string& bytes) {
    EXPECT_EQ(send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Empty at the end of the connection.
  std::string Read(size_t size) {
    std::string bytes(size, '\0');
    const ssize_t got = recv(client_, bytes.data(), size, MSG_WAITALL);
    return got == static_cast<ssize_t>(size) ? bytes : "";
  }

  const Manners manners_;
  const LoopbackListener listener_{1, 4096};
  std::atomic<int> client_ = -1;
  std::thread thread_;
};

Product ProductOf(absl::Span<const char> operand) {
  Product product;
  product.a = Operand::Bytes(operand);
  return product;
}

struct Method {
  const char* name;
  bool asks;  // For the daemon's limits, before it sends much.
  absl::Status (*call)(Client&, absl::Span<const char> operand);
};

constexpr Method kMethods[] = {
    {"Matmul", true,
     [](Client& client, absl::Span<const char> operand) {
       return client.Matmul(ProductOf(operand)).status();
     }},
    {"MatmulGrouped", false,
     [](Client& client, absl::Span<const char> operand) {
       return client.MatmulGrouped({ProductOf(operand)}).status();
     }},
    {"UploadTensor", true,
     [](Client& client, absl::Span<const char> operand) {
       return client.UploadTensor("handle", {}, operand);
     }},
};

// How `method` with an operand of `bytes` ends; CANCELLED when it does not.
absl::Status Call(Manners manners, const Method& method, size_t bytes,
                  absl::Duration timeout) {
  SilentServer server(manners);
  auto client =
      Client::Connect(server.address(),
                      {.timeout = timeout, .silence = absl::Milliseconds(300)});
  if (!client.ok()) return client.status();
  // A call that does not end is left behind with all that it uses.
  std::packaged_task<absl::Status()> task(
      [method, bytes, client = std::shared_ptr<Client>(*std::move(client))] {
        const std::string operand(bytes, 'o');
        return method.call(*client, operand);
      });
  std::future<absl::Status> status = task.get_future();
  std::thread(std::move(task)).detach();
  if (status.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
    return absl::CancelledError("it does not end");
  }
  return status.get();
}

TEST(SilenceTest, AWriteThatIsUnderWayEnds) {
  for (const bool room : {false, true}) {
    for (const Method& method : kMethods) {
      // More than the sockets hold.
      const absl::Status status =
          Call({.room = room, .refusals = method.asks ? 1 : 0}, method,
               32 << 20, absl::Milliseconds(100));
      EXPECT_TRUE(absl::IsDeadlineExceeded(status) ||
                  absl::IsUnavailable(status))
          << method.name << " with " << (room ? "all" : "little")
          << " room: " << status;
    }
  }
}

TEST(SilenceTest, WhoWaitsForAnAnswerLearnsThatNoneComes) {
  for (const int pings : {0, 3}) {
    const absl::Status status =
        Call({.pings = pings}, kMethods[0], 100, absl::InfiniteDuration());
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  }
}

}  // namespace
}  // namespace gemmd::client
