// A daemon that comes back is found soon, however long it was away.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "clients/cpp/client.h"
#include "jit/base/steady_time.h"

namespace gemmd::client {
namespace {

// Ends every connection as it begins, and says when they did.
class ClosingServer {
 public:
  ClosingServer() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, any, size), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    EXPECT_EQ(getsockname(socket_, any, &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    thread_ = std::thread([this] {
      for (;;) {
        const int client = accept(socket_, nullptr, nullptr);
        if (client < 0) return;
        close(client);
        times_.push_back(jit::SteadyNow());
      }
    });
  }
  ~ClosingServer() {
    if (thread_.joinable()) End();
    close(socket_);
  }

  const std::string& address() const { return address_; }

  std::vector<absl::Time> End() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    return times_;
  }

 private:
  const int socket_ = socket(AF_INET, SOCK_STREAM, 0);
  std::string address_;
  std::vector<absl::Time> times_;
  std::thread thread_;
};

TEST(Reconnect, TheNextTryIsNeverFarAway) {
  ClosingServer server;
  const auto client = Client::Connect(
      server.address(), {.connect_timeout = absl::Milliseconds(5500)});
  EXPECT_TRUE(absl::IsUnavailable(client.status())) << client.status();
  const std::vector<absl::Time> times = server.End();
  ASSERT_GE(times.size(), 5u);
  EXPECT_LT(times[4] - times[3], absl::Seconds(2));
}

}  // namespace
}  // namespace gemmd::client
