// Little messages among much else, each of which keeps the buffer in which it
// came: of calls that read them, and of those that do not.
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "gemmd/v1/tensors.grpc.pb.h"
#include "tests/integration/create_tensor.h"
#include "tests/integration/eventually.h"
#include "tests/integration/raw_http2.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::CreateTensor;
using testing::Eventually;
using testing::RawHttp2;
using testing::TestServer;

// More than may be kept, and less than a call's window has room for.
constexpr int kRounds = 900;

std::string Framed(const std::string& message) {
  std::string framed(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) {
    framed += static_cast<char>(message.size() >> shift);
  }
  return framed + message;
}

class UnreadBytes : public ::testing::Test {
 protected:
  // Messages on `stream`, with a call that is over at once between two of them.
  void SendAmongMuch(uint32_t stream, const std::string& message) {
    const std::string framed = Framed(message);
    // A field that nobody knows.
    const std::string much =
        Framed(std::string("\x7a\xe0\xd4\x03") + std::string(60'000, 'm'));
    for (int i = 0; i < kRounds && client_.alive(); ++i) {
      client_.Send(stream, framed, false);
      client_.Send(client_.Open("/grpc.health.v1.Health/Check"), much, true);
    }
  }

  TestServer server_;
  RawHttp2 client_{server_.address()};
};

TEST_F(UnreadBytes, EndTheConnectionThatKeepsTooMuchByThem) {
  const uint32_t watch = client_.Open("/grpc.health.v1.Health/Watch");
  client_.Send(watch, Framed(""), false);
  SendAmongMuch(watch, "\x7a\x39" + std::string(57, 's'));
  EXPECT_FALSE(client_.alive());
}

TEST_F(UnreadBytes, OfACallThatReadsThereAreNone) {
  const v1::TensorInfo tensor =
      CreateTensor(server_.channel(), v1::DATA_TYPE_F32, 1024, 1024);
  const uint32_t upload = client_.Open("/gemmd.v1.TensorService/UploadTensor");
  v1::UploadTensorRequest request;
  request.mutable_header()->set_handle(tensor.handle());
  client_.Send(upload, Framed(request.SerializeAsString()), false);
  request.set_data(std::string(1024, 'd'));
  SendAmongMuch(upload, request.SerializeAsString());
  EXPECT_TRUE(Eventually([this] {
    client_.Read(absl::Milliseconds(10));
    return client_.ended() == kRounds;
  }));
  EXPECT_TRUE(client_.alive());
}

}  // namespace
}  // namespace gemmd
