// What the files of control groups say of the memory that a process may take.
#include "service/host/machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gemmd::host {
namespace {

constexpr int64_t kMachine = int64_t{64} << 30;

class MachineMemoryTest : public testing::Test {
 protected:
  MachineMemoryTest() { std::filesystem::remove_all(root_); }
  ~MachineMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_ + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  int64_t Least() const { return LeastGroupLimit(root_, kMachine); }

  const std::string root_ =
      testing::TempDir() + "/machine_memory." + std::to_string(getpid());
};

TEST_F(MachineMemoryTest, WithoutGroupsItIsTheMachines) {
  EXPECT_EQ(Least(), kMachine);
}

TEST_F(MachineMemoryTest, AContainerSeesItsGroupAsTheTop) {
  Write("/proc/self/cgroup", "0::/");
  Write("/sys/fs/cgroup/memory.max", "2147483648");
  EXPECT_EQ(Least(), int64_t{2} << 30);
}

TEST_F(MachineMemoryTest, TheGroupsAroundAServiceCount) {
  Write("/proc/self/cgroup", "0::/system.slice/gemmd.service");
  Write("/sys/fs/cgroup/system.slice/gemmd.service/memory.max", "max");
  EXPECT_EQ(Least(), kMachine);
  Write("/sys/fs/cgroup/system.slice/memory.max", "1000000000");
  EXPECT_EQ(Least(), 1'000'000'000);
  Write("/sys/fs/cgroup/system.slice/gemmd.service/memory.max", "900000000");
  EXPECT_EQ(Least(), 900'000'000);
}

TEST_F(MachineMemoryTest, VersionOneIsReadToo) {
  Write("/proc/self/cgroup",
        "9:name=systemd:/docker/1\n4:memory:/docker/1\n0::/");
  // No limit. In the container the folder of that name is not seen.
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(Least(), kMachine);
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000000");
  EXPECT_EQ(Least(), 3'000'000'000);
  // On the machine itself it is.
  Write("/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "5000000");
  EXPECT_EQ(Least(), 5'000'000);
}

TEST_F(MachineMemoryTest, WhatIsNoGroupIsPassedOver) {
  Write("/proc/self/cgroup", "0::\nnonsense\n1:memory\n::/../..\n");
  Write("/sys/fs/cgroup/memory.max", "all");
  EXPECT_EQ(Least(), kMachine);
}

}  // namespace
}  // namespace gemmd::host
