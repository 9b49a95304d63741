// A daemon that comes back is found soon, however long it was away.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "clients/cpp/client.h"
#include "jit/base/steady_time.h"
#include "tests/loopback_listener.h"

namespace gemmd::client {
namespace {

// Ends every connection as it begins, and says when they did.
class ClosingServer {
 public:
  ClosingServer() {
    thread_ = std::thread([this] {
      for (int client; (client = listener_.Accept()) >= 0;) {
        close(client);
        times_.push_back(jit::SteadyNow());
      }
    });
  }
  ~ClosingServer() {
    if (thread_.joinable()) End();
  }

  const std::string& address() const { return listener_.address(); }

  std::vector<absl::Time> End() {
    listener_.End();
    thread_.join();
    return times_;
  }

 private:
  const LoopbackListener listener_{8};
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
