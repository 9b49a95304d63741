// Memory of the host that a client shares with a TestServer.
#ifndef GEMMD_TESTS_INTEGRATION_SHARED_REGION_H_
#define GEMMD_TESTS_INTEGRATION_SHARED_REGION_H_

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "gemmd/v1/regions.grpc.pb.h"
#include "tests/integration/test_server.h"
#include "tests/service/rpc/region/giver.h"

namespace gemmd::testing {

inline constexpr size_t kRegionBytes = 1 << 20;

// Those of memory that tests share, in this process.
inline int Mappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += absl::StrContains(line, "memfd:test");
  }
  return count;
}

// A region of one connection, as a client has it.
class SharedRegion {
 public:
  explicit SharedRegion(TestServer& server)
      : giver_(SocketOf(server)), handle_(giver_.Give(memory_)) {
    v1::CreateRegionRequest request;
    request.set_handle(handle_);
    grpc::ClientContext context;
    v1::RegionInfo info;
    const grpc::Status status =
        v1::RegionService::NewStub(server.unix_channel())
            ->CreateRegion(&context, request, &info);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(info.bytes(), static_cast<int64_t>(kRegionBytes));
    EXPECT_FALSE(info.pinned());
  }

  static std::string SocketOf(TestServer& server) {
    return server.server().addresses()[1].substr(5) + ".memory";
  }

  char* bytes() const { return memory_.bytes(); }
  const std::string& handle() const { return handle_; }
  void Close() { giver_.Close(); }

  void Put(int64_t offset, const std::string& bytes) {
    bytes.copy(memory_.bytes() + offset, bytes.size());
  }
  std::string Take(int64_t offset, size_t size) const {
    return std::string(memory_.bytes() + offset, size);
  }
  void Name(int64_t offset, v1::RegionPart& part) const {
    part.set_region(handle_);
    part.set_offset(offset);
  }

 private:
  GivenMemory memory_{kRegionBytes};
  Giver giver_;
  const std::string handle_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_SHARED_REGION_H_
