#include "service/rpc/region/door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/host/host_device.h"
#include "tests/service/gate.h"
#include "tests/service/rpc/lingering_socket.h"
#include "tests/service/rpc/region/create_region.h"
#include "tests/service/rpc/region/giver.h"

namespace gemmd::rpc::region {
namespace {

using testing::Eventually;
using testing::GivenMemory;
using testing::Giver;

int64_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

std::string NewFolder() {
  char folder[] = "/tmp/gemmd_test_XXXXXX";
  EXPECT_NE(mkdtemp(folder), nullptr);
  return folder;
}

class DoorTest : public ::testing::Test {
 protected:
  ~DoorTest() override {
    door_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open(Door::Options options = {}) {
    auto door = Door::Open({"127.0.0.1:0", absl::StrCat("unix:", path_)},
                           store_, options);
    ASSERT_TRUE(door.ok()) << door.status();
    door_ = *std::move(door);
  }
  Giver Connect() const { return Giver(path_ + ".memory"); }
  bool Create(const std::string& handle) {
    return testing::CreateRegion(store_, handle, {"alice"}, *device_).ok();
  }
  // Until the state of `handle` is this.
  bool Comes(const std::string& handle, Store::State state) const {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (store_.StateOf(handle) != state) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }

  const std::string folder_ = NewFolder();
  const std::string path_ = absl::StrCat(folder_, "/socket");
  const std::unique_ptr<device::Device> device_ =
      host::CreateHostDevice({.memory_bytes = 1 << 20});
  Store store_{1 << 20};
  std::unique_ptr<Door> door_;
};

TEST_F(DoorTest, GivesAHandleForADescriptor) {
  Open();
  const GivenMemory memory(4096);
  Giver giver = Connect();
  const std::string handle = giver.Give(memory);
  ASSERT_EQ(handle.size(), 32u);
  EXPECT_TRUE(std::ranges::all_of(handle, absl::ascii_isxdigit));
  EXPECT_TRUE(Create(handle));
  EXPECT_NE(Connect().Give(memory), handle);
}

TEST_F(DoorTest, GivesAHandleForWhatHasNoDescriptor) {
  Open();
  Giver giver = Connect();
  const std::string handle = giver.GiveNone();
  ASSERT_EQ(handle.size(), 32u);
  EXPECT_EQ(store_.StateOf(handle), Store::State::kOffered);
  EXPECT_FALSE(Create(handle)) << "it is no memory of the host";
  EXPECT_TRUE(giver.IsClosed());
}

// To close what is given may take long, wherever that is.
TEST_F(DoorTest, StandsStillForNobody) {
  Open();
  const GivenMemory memory(4096);
  const absl::Time start = absl::Now();
  for (const bool creates : {false, true}) {
    testing::LingeringSocket lingering;
    Giver giver = Connect();
    ASSERT_TRUE(lingering.Pass(giver.fd()));
    const std::string handle = giver.Receive();
    EXPECT_EQ(handle.size(), 32u);
    if (creates) {
      EXPECT_FALSE(Create(handle));
    }
    giver.Close();
    EXPECT_EQ(Connect().Give(memory).size(), 32u);
  }
  testing::LingeringSocket unread;
  Giver giver = Connect();
  EXPECT_EQ(giver.Give(memory).size(), 32u);
  ASSERT_TRUE(unread.Pass(giver.fd()));
  EXPECT_EQ(Connect().Give(memory).size(), 32u);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST_F(DoorTest, TakesNothingInWhileTooMuchIsNotClosed) {
  Open();
  const GivenMemory memory(4096);
  Giver region = Connect();
  const std::string handle = region.Give(memory);
  ASSERT_TRUE(Create(handle));
  Giver inside = Connect();
  ASSERT_EQ(Connect().Give(GivenMemory(4096)).size(), 32u);  // Came later.
  std::optional<testing::ClosingHeldUp> held(std::in_place);
  inside.Send("m", std::vector<int>(253, memory.fd()));
  EXPECT_TRUE(inside.IsClosed());
  Giver outside = Connect();
  outside.Send("m", {memory.fd()});
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_TRUE(outside.IsSilent());
  EXPECT_EQ(WaitingToBeClosed(), kMostWaiting + 1);
  EXPECT_EQ(store_.StateOf(handle), Store::State::kCreated);
  held.reset();
  EXPECT_EQ(outside.Receive().size(), 32u);
}

// Who is let in gets the number of a descriptor that is still open elsewhere.
TEST_F(DoorTest, WhoComesIsNotTakenForOneWhoWaitsToBeClosed) {
  Open();
  const GivenMemory memory(4096);
  Giver first = Connect();
  ASSERT_EQ(Connect().Give(memory).size(), 32u);  // Came later.
  testing::ClosingHeldUp held;
  testing::LingeringSocket lingering;
  { const GivenFd behind(lingering.Wrap()); }
  Giver next = Connect();
  first.Send("m", {memory.fd()});
  EXPECT_TRUE(first.IsClosed());
  ASSERT_TRUE(
      Eventually([] { return WaitingToBeClosed() == kMostWaiting + 2; }));
  held.GoOn();
  ASSERT_TRUE(Eventually([] { return WaitingToBeClosed() == 1; })) << "his";
  const std::string handle = next.Give(memory);
  EXPECT_EQ(handle.size(), 32u);
  EXPECT_TRUE(Create(handle));
  EXPECT_EQ(Connect().Give(memory).size(), 32u);
  EXPECT_EQ(store_.StateOf(handle), Store::State::kCreated);
}

TEST_F(DoorTest, IsNotThereWithoutAUnixSocket) {
  const auto door = Door::Open({"127.0.0.1:0"}, store_, {});
  ASSERT_TRUE(door.ok());
  EXPECT_EQ(*door, nullptr);
}

TEST_F(DoorTest, ARegionEndsWithItsConnection) {
  Open();
  const GivenMemory memory(4096);
  Giver giver = Connect();
  const std::string handle = giver.Give(memory);
  ASSERT_TRUE(Create(handle));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(store_.StateOf(handle), Store::State::kCreated);
  giver.Close();
  EXPECT_TRUE(Comes(handle, Store::State::kUnknown));
  EXPECT_EQ(store_.bytes(), 0);
}

TEST_F(DoorTest, WhoSaysMoreIsSentAway) {
  Open();
  const GivenMemory memory(4096);
  Giver giver = Connect();
  const std::string handle = giver.Give(memory);
  ASSERT_TRUE(Create(handle));
  giver.Send("m", {memory.fd()});
  EXPECT_TRUE(giver.IsClosed());
  EXPECT_EQ(store_.StateOf(handle), Store::State::kUnknown);
}

TEST_F(DoorTest, WhoSaysSomethingElseIsSentAwayAndNothingIsKept) {
  Open();
  const GivenMemory memory(4096);
  const int64_t before = OpenFiles();
  const std::vector<std::pair<std::string, std::vector<int>>> others = {
      {"m", {}},
      {"dd", {}},
      {"memory", {memory.fd()}},
      {"m", {memory.fd(), memory.fd()}},
      {"m", std::vector<int>(8, memory.fd())},
      {std::string(1 << 16, 'x'), {}}};
  for (const auto& [bytes, fds] : others) {
    Giver giver = Connect();
    giver.Send(bytes, fds);
    EXPECT_EQ(giver.Receive(), "") << bytes.size() << " bytes, " << fds.size();
  }
  // They are closed behind the back of the door.
  EXPECT_TRUE(Eventually([&] { return OpenFiles() == before; }))
      << OpenFiles() << " instead of " << before;
}

TEST_F(DoorTest, WhoIsSilentIsSentAway) {
  Open({.gift_time = absl::Milliseconds(50)});
  Giver giver = Connect();
  EXPECT_TRUE(giver.IsClosed());
}

TEST_F(DoorTest, WhatBecomesNoRegionIsDropped) {
  Open({.creation_time = absl::Milliseconds(50)});
  const GivenMemory memory(4096);
  Giver giver = Connect();
  const std::string handle = giver.Give(memory);
  EXPECT_EQ(handle.size(), 32u);
  EXPECT_TRUE(giver.IsClosed());
  EXPECT_FALSE(Create(handle));
}

TEST_F(DoorTest, WhatCannotBeARegionIsDropped) {
  Open();
  const GivenMemory large(2 << 20);  // More than the store has.
  Giver giver = Connect();
  const std::string handle = giver.Give(large);
  EXPECT_FALSE(Create(handle));
  EXPECT_TRUE(giver.IsClosed());
}

TEST_F(DoorTest, LetsInSoManyAtATime) {
  Open({.max_connections = 3});
  const GivenMemory memory(4096);
  std::vector<Giver> givers;
  for (int i = 0; i < 3; ++i) {
    givers.push_back(Connect());
    ASSERT_TRUE(Create(givers.back().Give(GivenMemory(4096))));
  }
  EXPECT_EQ(Connect().Give(memory), "");
  givers.pop_back();
  const absl::Time end = absl::Now() + absl::Seconds(30);
  while (Connect().Give(memory).empty() && absl::Now() < end) {
  }
  EXPECT_LT(absl::Now(), end);
}

// However many come and bring nothing, or make nothing of it.
TEST_F(DoorTest, TheOldestWhoWaitsMakesRoom) {
  Open({.max_connections = 3});
  Giver region = Connect();
  const std::string handle = region.Give(GivenMemory(4096));
  ASSERT_TRUE(Create(handle));
  for (int i = 0; i < 5; ++i) {
    Giver silent = Connect();
    Giver offered = Connect();
    const std::string offer = offered.Give(GivenMemory(4096));
    Giver next = Connect();
    EXPECT_TRUE(silent.IsClosed());
    EXPECT_EQ(next.Give(GivenMemory(4096)).size(), 32u);
    EXPECT_EQ(store_.StateOf(offer), Store::State::kOffered);
    Giver last = Connect();
    EXPECT_TRUE(offered.IsClosed());
  }
  EXPECT_EQ(store_.StateOf(handle), Store::State::kCreated);
}

// An eighth of them all, two for each guest.
TEST_F(DoorTest, FewDescriptorsLetFewIn) {
  rlimit usual = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  rlimit few = usual;
  few.rlim_cur = 160;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  Open({.gift_time = absl::Minutes(5)});
  std::vector<Giver> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(Connect());
  EXPECT_EQ(Connect().Give(GivenMemory(4096)).size(), 32u);
  EXPECT_TRUE(silent.front().IsClosed());
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
}

TEST_F(DoorTest, AllEndsWithTheDoor) {
  Open();
  const GivenMemory memory(4096);
  Giver giver = Connect();
  ASSERT_TRUE(Create(giver.Give(memory)));
  door_.reset();
  EXPECT_TRUE(giver.IsClosed());
  EXPECT_EQ(store_.bytes(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace gemmd::rpc::region
