#include "service/rpc/region/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/host/host_device.h"
#include "tests/service/rpc/region/create_region.h"
#include "tests/service/rpc/region/giver.h"

namespace gemmd::rpc::region {
namespace {

using testing::GivenMemory;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

class StoreTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const device::Region>> Create(
      int64_t bytes, const std::string& owner, bool exclusive = false) {
    handle_ = store_.Offer(GivenMemory(bytes).Duplicate());
    return testing::CreateRegion(store_, handle_, {owner, exclusive}, *device_);
  }
  void ExpectFull(int64_t bytes, const std::string& owner,
                  const std::string& why) {
    const auto region = Create(bytes, owner);
    EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(region.status().message()), HasSubstr(why));
    EXPECT_EQ(store_.StateOf(handle_), Store::State::kUnknown);
  }

  const std::unique_ptr<device::Device> device_ =
      host::CreateHostDevice({.memory_bytes = kMiB});
  Store store_{8 * kMiB};
  std::string handle_;  // Of the last one.
};

TEST_F(StoreTest, ARegionHasItsHandle) {
  ASSERT_TRUE(Create(3 * kMiB, "alice").ok());
  const auto found = store_.Find(handle_, "bob");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->bytes().size(), static_cast<size_t>(3 * kMiB));
  EXPECT_FALSE((*found)->pinned());
  EXPECT_EQ(store_.bytes(), 3 * kMiB);
  store_.Withdraw(handle_);
  EXPECT_EQ(store_.Find(handle_, "alice").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, APrincipalsIsHisAlone) {
  ASSERT_TRUE(Create(kMiB, "alice", /*exclusive=*/true).ok());
  EXPECT_TRUE(store_.Find(handle_, "alice").ok());
  const absl::Status bobs = store_.Find(handle_, "bob").status();
  EXPECT_EQ(bobs.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(bobs, store_.Find("unknown", "bob").status());
}

TEST_F(StoreTest, AnOfferIsNoRegion) {
  const std::string handle = store_.Offer(GivenMemory(kMiB).Duplicate());
  EXPECT_EQ(store_.StateOf(handle), Store::State::kOffered);
  EXPECT_FALSE(store_.Find(handle, "alice").ok());
  EXPECT_EQ(store_.bytes(), 0);
  ASSERT_TRUE(testing::CreateRegion(store_, handle, {"alice"}, *device_).ok());
  EXPECT_EQ(store_.StateOf(handle), Store::State::kCreated);
  EXPECT_EQ(testing::CreateRegion(store_, handle, {"alice"}, *device_)
                .status()
                .code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(store_.Find(handle, "alice").ok());
}

TEST_F(StoreTest, OneClientHasThreeQuarters) {
  ASSERT_TRUE(Create(4 * kMiB, "alice").ok());
  ExpectFull(3 * kMiB, "alice",
             "this client has 4194304 bytes of regions; the limit of one is "
             "6291456");
  ASSERT_TRUE(Create(4 * kMiB, "bob").ok());
  ExpectFull(kMiB, "carol", "the limit is 8388608");
}

TEST_F(StoreTest, OneClientHasSixtyFour) {
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(Create(4096, "alice").ok());
  }
  ExpectFull(4096, "alice", "this client has 64 regions");
  EXPECT_TRUE(Create(4096, "bob").ok());
}

// What is refused leaves nothing behind.
TEST_F(StoreTest, RoomThatIsNotUsedIsGivenBack) {
  const std::string handle =
      store_.Offer(GivenMemory(6 * kMiB, MFD_ALLOW_SEALING, false).Duplicate());
  EXPECT_EQ(testing::CreateRegion(store_, handle, {"alice"}, *device_)
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_.bytes(), 0);
  EXPECT_TRUE(Create(6 * kMiB, "alice").ok());
}

TEST_F(StoreTest, OneThatIsUsedCountsUntilItIsNot) {
  auto region = *Create(6 * kMiB, "alice");
  store_.Withdraw(handle_);
  region->bytes()[0] = 1;  // Still there.
  ExpectFull(6 * kMiB, "bob", "beside those of all clients");
  ExpectFull(kMiB, "alice", "this client has 6291456 bytes of regions");
  EXPECT_TRUE(Create(kMiB, "bob").ok());
  store_.Withdraw(handle_);
  region.reset();
  EXPECT_EQ(store_.bytes(), 0);
  EXPECT_TRUE(Create(6 * kMiB, "bob").ok());
}

}  // namespace
}  // namespace gemmd::rpc::region
