#include "service/rpc/region/mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "tests/service/rpc/region/giver.h"

namespace gemmd::rpc::region {
namespace {

using testing::GivenMemory;
using ::testing::HasSubstr;

absl::StatusOr<Mapping> Map(int fd) {
  const absl::StatusOr<int64_t> bytes = FixSize(fd);
  if (!bytes.ok()) return bytes.status();
  return Mapping::Of(fd, *bytes);
}

void ExpectRefused(int fd, const std::string& why) {
  const auto mapping = Map(fd);
  EXPECT_EQ(mapping.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(mapping.status().message()), HasSubstr(why));
}

TEST(MappingTest, BothSidesSeeWhatEitherWrites) {
  const GivenMemory memory(5000);
  const auto mapping = Map(memory.fd());
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  ASSERT_EQ(mapping->bytes().size(), 5000u);
  memory.bytes()[4999] = 'c';
  EXPECT_EQ(mapping->bytes()[4999], 'c');
  mapping->bytes()[0] = 'd';
  EXPECT_EQ(memory.bytes()[0], 'd');
}

// Each of these would end the daemon with SIGBUS, or charge it for pages.
TEST(MappingTest, NobodyTakesItsPagesAway) {
  const GivenMemory memory(1 << 20);
  const auto mapping = Map(memory.fd());
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_NE(ftruncate(memory.fd(), 4096), 0) << "it shrinks";
  EXPECT_NE(ftruncate(memory.fd(), 2 << 20), 0) << "it grows";
  EXPECT_NE(fallocate(memory.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      0, 4096),
            0)
      << "it has holes";
  EXPECT_NE(madvise(memory.bytes(), 4096, MADV_REMOVE), 0) << "it has holes";
  EXPECT_EQ(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(), 0),
      MAP_FAILED)
      << "it may be mapped for writing again";
}

TEST(MappingTest, WhatIsNoMemfdIsRefused) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ExpectRefused(ends[0], "is none of a memfd");
  ExpectRefused(ends[1], "is none of a memfd");
  close(ends[0]);
  close(ends[1]);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  ExpectRefused(null, "is none of a memfd");
  close(null);
  std::FILE* const file = std::tmpfile();
  ASSERT_EQ(ftruncate(fileno(file), 4096), 0);
  ExpectRefused(fileno(file), "memfd");  // On tmpfs it has seals.
  std::fclose(file);
}

TEST(MappingTest, MemfdsThatCouldChangeAreRefused) {
  ExpectRefused(GivenMemory(4096, 0).fd(), "cannot be sealed");
  ExpectRefused(GivenMemory(2 << 20, MFD_ALLOW_SEALING | MFD_HUGETLB).fd(),
                "has huge pages");
  ExpectRefused(GivenMemory(0).fd(), "has 0 bytes");
  ExpectRefused(GivenMemory(1 << 20, MFD_ALLOW_SEALING, false).fd(),
                "of the region's 1048576 bytes 0 are allocated");
}

TEST(MappingTest, PartlyAllocatedIsNotAllocated) {
  const GivenMemory memory(1 << 20, MFD_ALLOW_SEALING, false);
  memory.bytes()[0] = 1;
  memory.bytes()[(1 << 20) - 1] = 1;
  ExpectRefused(memory.fd(), "bytes 8192 are allocated");
}

// Pages that are not there would be charged to the daemon.
TEST(MappingTest, WhatIsAllocatedBehindTheEndDoesNotCount) {
  const GivenMemory memory(1 << 20, MFD_ALLOW_SEALING, false);
  ASSERT_EQ(fallocate(memory.fd(), FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20), 0);
  ExpectRefused(memory.fd(), "of the region's 1048576 bytes 0 are allocated");
}

TEST(MappingTest, OnesThatMayNotBeWrittenAreRefused) {
  const jit::UniqueFd sealed(
      memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(sealed.get(), 4096), 0);
  ASSERT_EQ(posix_fallocate(sealed.get(), 0, 4096), 0);
  ASSERT_EQ(fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  ExpectRefused(sealed.get(), "cannot be mapped for writing");

  const GivenMemory memory(4096);
  const std::string name = "/proc/self/fd/" + std::to_string(memory.fd());
  const jit::UniqueFd read_only(open(name.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(read_only.ok());
  ExpectRefused(read_only.get(), "cannot be sealed");
}

// A client may seal it itself, with all that the daemon wants.
TEST(MappingTest, OnesThatAreSealedAlreadyAreTaken) {
  const GivenMemory memory(4096);
  ASSERT_EQ(fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_TRUE(Map(memory.fd()).ok());
  const GivenMemory closed(4096);
  ASSERT_EQ(fcntl(closed.fd(), F_ADD_SEALS, F_SEAL_SEAL), 0);
  ExpectRefused(closed.fd(), "cannot be sealed");
}

}  // namespace
}  // namespace gemmd::rpc::region
