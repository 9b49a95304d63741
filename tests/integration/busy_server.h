// A server of two devices, of which "host:1" holds a tensor and has three
// products to do, two of one shape: one runs, two wait, until the gate opens.
#ifndef GEMMD_TESTS_INTEGRATION_BUSY_SERVER_H_
#define GEMMD_TESTS_INTEGRATION_BUSY_SERVER_H_

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "tests/integration/test_server.h"
#include "tests/service/gate.h"

namespace gemmd::testing {

class BusyServer {
 public:
  static constexpr int kQueue = 7;
  static constexpr int64_t kDeviceBytes = 1 << 20;
  static constexpr int64_t kTensorBytes = 64 * 64 * 4;

  BusyServer() {
    v1::CreateTensorRequest tensor;
    tensor.set_dtype(v1::DATA_TYPE_F32);
    tensor.set_rows(64);
    tensor.set_columns(64);
    tensor.set_device("host:1");
    EXPECT_TRUE(server_
                    .CallRaw("/gemmd.v1.TensorService/CreateTensor",
                             tensor.SerializeAsString())
                    .ok());
    gate_.Close();
    for (const int64_t m : {2, 2, 3}) {
      calls_.push_back(std::async(std::launch::async, [this, m] {
        v1::MatmulRequest request = OnesTimesTwos(m, 2, 2);
        request.mutable_header()->set_device("host:1");
        return server_
            .CallRaw("/gemmd.v1.MatmulService/Matmul",
                     request.SerializeAsString())
            .ok();
      }));
    }
  }
  ~BusyServer() { gate_.Open(); }

  TestServer& server() { return server_; }

  // Lets all products end.
  void End() {
    gate_.Open();
    for (auto& call : calls_) EXPECT_TRUE(call.get());
    calls_.clear();
  }

 private:
  std::shared_ptr<Hooks> HooksOfGate() {
    auto hooks = std::make_shared<Hooks>();
    hooks->multiply = [this](const auto&, const auto&) {
      gate_.Pass();
      return absl::OkStatus();
    };
    return hooks;
  }

  Gate gate_;
  TestServer server_{{.executor = {.lanes = 1, .max_queue = kQueue},
                      .devices = 2,
                      .device_bytes = kDeviceBytes,
                      .hooks = HooksOfGate()}};
  std::vector<std::future<bool>> calls_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_BUSY_SERVER_H_
