// Memory whose client keeps it locked: it writes to it from a page that never
// comes. Whoever seals it waits in the kernel.
#ifndef GEMMD_TESTS_INTEGRATION_LOCKED_MEMORY_H_
#define GEMMD_TESTS_INTEGRATION_LOCKED_MEMORY_H_

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "jit/base/file.h"
#include "tests/service/rpc/region/giver.h"

namespace gemmd::testing {

class LockedMemory {
 public:
  // Why there is none here; "" where there is.
  static std::string Missing() {
    const jit::UniqueFd faults = NewFaults();
    return faults.ok() ? "" : std::string("no userfaultfd: ") + strerror(errno);
  }

  LockedMemory() {
    uffdio_api api = {.api = UFFD_API, .features = 0, .ioctls = 0};
    EXPECT_EQ(ioctl(faults_.get(), UFFDIO_API, &api), 0);
    page_ = mmap(nullptr, kPage, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(page_, MAP_FAILED);
    uffdio_register page = {};
    page.range = {.start = reinterpret_cast<uintptr_t>(page_), .len = kPage};
    page.mode = UFFDIO_REGISTER_MODE_MISSING;
    EXPECT_EQ(ioctl(faults_.get(), UFFDIO_REGISTER, &page), 0);
    writer_ = std::thread([this] {
      EXPECT_EQ(write(memory_.fd(), page_, kPage), ssize_t{kPage});
    });
    uffd_msg asked;  // For the page, by who has the lock then.
    EXPECT_EQ(read(faults_.get(), &asked, sizeof asked), ssize_t{sizeof asked});
  }
  LockedMemory(const LockedMemory&) = delete;
  ~LockedMemory() {
    faults_.Reset();  // The page comes.
    writer_.join();
    munmap(page_, kPage);
  }

  const GivenMemory& memory() const { return memory_; }

 private:
  static constexpr size_t kPage = 4096;

  static jit::UniqueFd NewFaults() {
    return jit::UniqueFd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC)));
  }

  const GivenMemory memory_{kPage};
  jit::UniqueFd faults_ = NewFaults();
  void* page_ = nullptr;
  std::thread writer_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_LOCKED_MEMORY_H_
