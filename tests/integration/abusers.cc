#include "tests/integration/abusers.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "absl/time/clock.h"
#include "gemmd/v1/matmul.pb.h"
#include "gemmd/v1/tensors.grpc.pb.h"
#include "jit/base/file.h"
#include "tests/integration/call_flood.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/raw_http2.h"

namespace gemmd::testing {
namespace {

constexpr char kMatmul[] = "/gemmd.v1.MatmulService/Matmul";
constexpr char kUpload[] = "/gemmd.v1.TensorService/UploadTensor";
constexpr char kCreate[] = "/gemmd.v1.TensorService/CreateTensor";
constexpr absl::Duration kPause = absl::Milliseconds(50);

// A gRPC message: prefix and bytes.
std::string Framed(const std::string& message) {
  const uint32_t size = htonl(static_cast<uint32_t>(message.size()));
  return std::string(1, '\0') +
         std::string(reinterpret_cast<const char*>(&size), 4) + message;
}

constexpr absl::Duration kCallTime = absl::Seconds(5);

// A tensor of f32 that is soon forgotten; "" where there is no room.
std::string CreateTensor(v1::TensorService::Stub& stub, int64_t rows,
                         int64_t columns) {
  v1::CreateTensorRequest create;
  create.set_dtype(v1::DATA_TYPE_F32);
  create.set_rows(rows);
  create.set_columns(columns);
  create.set_ttl_s(1);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTime));
  v1::TensorInfo info;
  if (!stub.CreateTensor(&context, create, &info).ok()) {
    absl::SleepFor(kPause);
    return "";
  }
  return info.handle();
}

// The first message of an upload.
std::string UploadHeader(const std::string& handle) {
  v1::UploadTensorRequest header;
  header.mutable_header()->set_handle(handle);
  return Framed(header.SerializeAsString());
}

std::string Repeated(std::string_view unit, size_t bytes) {
  std::string all;
  while (all.size() < bytes) all.append(unit);
  return all;
}

}  // namespace

std::string LargeAnswerRequest(int side) {
  v1::MatmulRequest request;
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_m(side);
  problem.set_n(side);
  problem.set_k(0);
  problem.set_a_type(v1::DATA_TYPE_BF16);
  problem.set_b_type(v1::DATA_TYPE_BF16);
  problem.set_d_type(v1::DATA_TYPE_F32);
  return request.SerializeAsString();
}

void NeverRead(const std::string& address, const std::atomic<bool>& stop) {
  const std::string request = Framed(LargeAnswerRequest(4096));
  while (!stop) {
    RawHttp2 client(address);
    for (int i = 0; i < 24; ++i)
      client.Send(client.Open(kMatmul), request, true);
    while (!stop && client.alive()) client.Read(absl::Milliseconds(200));
    absl::SleepFor(kPause);
  }
}

void KeepSilent(const std::string& address, const std::atomic<bool>& stop) {
  std::vector<std::unique_ptr<RawHttp2>> clients(8);
  while (!stop) {
    for (auto& client : clients) {
      if (client == nullptr || !client->alive() || client->ended() > 0) {
        client = std::make_unique<RawHttp2>(address);
        for (int i = 0; i < 1024; ++i) client->Open(kMatmul);
      }
      client->Read(absl::Milliseconds(20));
    }
  }
}

void SendHalf(const std::string& address, const std::atomic<bool>& stop) {
  const std::string block(256 << 10, '\n');
  while (!stop) {
    RawHttp2 client(address);
    std::vector<uint32_t> streams;
    for (int i = 0; i < 4; ++i) {
      streams.push_back(client.Open(i % 2 == 0 ? kMatmul : kCreate));
      client.SendPrefix(streams.back(), 1 << 30);
    }
    while (!stop && client.alive() &&
           client.ended() < static_cast<int64_t>(streams.size())) {
      for (const uint32_t stream : streams) {
        client.Send(stream, block, false, absl::Milliseconds(20));
      }
    }
    absl::SleepFor(kPause);
  }
}

void SendBombs(const std::string& address, const std::atomic<bool>& stop) {
  const std::string bombs[] = {
      Repeated(std::string_view("\x0a\0", 2), 8 << 20),
      Repeated(std::string_view("\x12\0", 2), 8 << 20),
      Repeated(std::string_view("\x78\1", 2), 8 << 20),
      Repeated("\xf8\xff\xff\xff\x0f\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
               8 << 20),
  };
  const auto channel = Connect(address);
  while (!stop) {
    for (const std::string& bomb : bombs) {
      CallRaw(channel, kMatmul, bomb, kCallTime);
      CallRaw(channel, kCreate, bomb, kCallTime);
      if (stop) return;
    }
  }
}

void FloodConnections(const std::string& address,
                      const std::atomic<bool>& stop) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(
      std::atoi(address.substr(address.rfind(':') + 1).c_str())));
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const size_t most = std::min<rlim_t>(limit.rlim_cur / 2, 2000);
  while (!stop) {
    std::vector<jit::UniqueFd> flood;
    while (!stop && flood.size() < most) {
      flood.emplace_back(
          socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      connect(flood.back().get(), reinterpret_cast<sockaddr*>(&to), sizeof to);
      if (flood.size() % 50 == 0) absl::SleepFor(absl::Milliseconds(5));
    }
    for (int i = 0; !stop && i < 20; ++i) absl::SleepFor(kPause);
  }
}

void StallUploads(const std::string& address, const std::atomic<bool>& stop) {
  const auto stub = v1::TensorService::NewStub(Connect(address));
  v1::UploadTensorRequest data;
  data.set_data(std::string(1 << 20, '\1'));
  while (!stop) {
    const std::string handle = CreateTensor(*stub, 1024, 1024);
    if (handle.empty()) continue;
    const std::string begun =
        UploadHeader(handle) + Framed(data.SerializeAsString());
    RawHttp2 client(address);
    for (int i = 0; i < 16; ++i) {
      client.Send(client.Open(kUpload), begun, false, absl::Seconds(1));
    }
    while (!stop && client.alive() && client.ended() < 16) {
      client.Read(absl::Milliseconds(200));
    }
  }
}

void PadUploads(const std::string& address, const std::atomic<bool>& stop) {
  const auto stub = v1::TensorService::NewStub(Connect(address));
  v1::UploadTensorRequest data;
  data.set_data("1");
  // Field 99, of 512 KiB.
  const std::string padded =
      Framed(data.SerializeAsString() + "\x9a\x06\x80\x80\x20" +
             std::string(512 << 10, 'p'));
  while (!stop) {
    // A line that takes long to be whole.
    const std::string handle = CreateTensor(*stub, 1, 1 << 16);
    if (handle.empty()) continue;
    RawHttp2 client(address);
    const uint32_t stream = client.Open(kUpload);
    client.Send(stream, UploadHeader(handle), false);
    for (int i = 0; !stop && client.alive() && client.ended() == 0 && i < 1000;
         ++i) {
      client.Send(stream, padded, false, absl::Seconds(1));
    }
  }
}

void StormResets(const std::string& address, const std::atomic<bool>& stop) {
  while (!stop) {
    RawHttp2 client(address);
    for (int i = 0; !stop && client.alive() && i < 20000; ++i) {
      client.Reset(client.Open(kMatmul));
      if (i % 100 == 0) client.Read(absl::Milliseconds(1));
    }
  }
}

void StormCalls(const std::string& address, const std::atomic<bool>& stop) {
  while (!stop) {
    RawHttp2 client(address);
    for (int i = 0; !stop && client.alive() && i < 20000; ++i) {
      client.Send(client.Open("/gemmd.v1.MatmulService/Guess"), "", true);
      if (i % 100 == 0) client.Read(absl::Milliseconds(1));
    }
  }
}

void CrowdCalls(const std::string& address, const std::atomic<bool>& stop) {
  constexpr int kConnections = 16, kCalls = 100;
  std::vector<std::unique_ptr<CallFlood>> floods(kConnections);
  while (!stop) {
    for (auto& flood : floods) {
      if (flood == nullptr) {
        flood = std::make_unique<CallFlood>(address, kCalls);
      }
      if (!flood->Go(absl::Milliseconds(1))) flood = nullptr;
    }
  }
}

void FloodFrames(const std::string& address, const std::atomic<bool>& stop) {
  constexpr uint8_t kEmptyData = 0, kHeaders = 1, kPriority = 2, kSettings = 4,
                    kPing = 6, kGoAway = 7, kWindow = 8, kContinuation = 9;
  // A header with a name of one letter and a value of megabytes begins.
  const std::string begun = RawHttp2::FrameOf(
      kHeaders, 0, 3, std::string("\0\1a\x7f\xff\xff\xff\x1f", 8));
  // A setting, of the window of new streams.
  const std::string_view window("\0\4\0\0\xff\xff", 6);
  const std::string floods[] = {
      RawHttp2::FrameOf(kContinuation, 0, 3, "y"),
      RawHttp2::FrameOf(kWindow, 0, 0, std::string("\0\0\0\1", 4)),
      RawHttp2::FrameOf(kEmptyData, 0, 1, ""),
      RawHttp2::FrameOf(kPriority, 0, 1, std::string(5, '\1')),
      RawHttp2::FrameOf(kPing, 0, 0, "12345678"),
      RawHttp2::FrameOf(kSettings, 0, 0, Repeated(window, 16380)),
      RawHttp2::FrameOf(kGoAway, 0, 0,
                        std::string(8, '\0') + std::string(16000, '\n')),
      RawHttp2::FrameOf(kHeaders, 5, 1, std::string(16000, '\x90')),
  };
  while (!stop) {
    for (const std::string& frame : floods) {
      const std::string flood = Repeated(frame, 64 << 10);
      RawHttp2 client(address);
      client.Open(kMatmul);
      if (&frame == floods) client.Write(begun);
      for (int i = 0; !stop && client.alive() && i < 100; ++i) {
        client.Write(flood);
      }
      client.Read(absl::Milliseconds(20));
    }
  }
}

void AnnounceCalls(const std::string& address, const std::atomic<bool>& stop) {
  constexpr int kConnections = 16, kCalls = 250;
  while (!stop) {
    std::vector<std::unique_ptr<RawHttp2>> clients;
    for (int i = 0; !stop && i < kConnections; ++i) {
      clients.push_back(std::make_unique<RawHttp2>(address));
      for (int j = 0; clients.back()->alive() && j < kCalls; ++j) {
        clients.back()->Open(kMatmul, "2S", "2097152");
      }
    }
    const absl::Time end = absl::Now() + absl::Seconds(3);
    while (!stop && absl::Now() < end) {
      for (const auto& client : clients) client->Read(absl::Milliseconds(2));
    }
  }
}

const std::vector<NamedAbuse>& AllAbuses() {
  static const auto& abuses = *new std::vector<NamedAbuse>{
      {"never_read", NeverRead},     {"keep_silent", KeepSilent},
      {"send_half", SendHalf},       {"send_bombs", SendBombs},
      {"flood", FloodConnections},   {"stall_uploads", StallUploads},
      {"storm_resets", StormResets}, {"storm_calls", StormCalls},
      {"flood_frames", FloodFrames}, {"pad_uploads", PadUploads},
      {"announce", AnnounceCalls}, {"crowd", CrowdCalls},
  };
  return abuses;
}

}  // namespace gemmd::testing
