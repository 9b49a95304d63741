#include "service/rpc/region/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "jit/base/file.h"
#include "jit/base/status.h"

namespace gemmd::rpc::region {
namespace {

// In which st_blocks counts.
constexpr int64_t kBlockBytes = 512;

absl::Status NoMemfd(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the descriptor of the region ", what,
      "; allowed: a memfd made with MFD_ALLOW_SEALING, without huge pages"));
}

absl::Status Seal(int memfd, int seals) {
  if (fcntl(memfd, F_ADD_SEALS, seals) == 0 ||
      (fcntl(memfd, F_GET_SEALS) & seals) == seals) {
    return absl::OkStatus();
  }
  return NoMemfd("cannot be sealed");
}

}  // namespace

absl::StatusOr<int64_t> FixSize(int memfd) {
  // Seals are for memfds alone; a page of a huge one may turn out not to be
  // there when it is first used.
  struct statfs system = {};
  if (fcntl(memfd, F_GET_SEALS) < 0 || fstatfs(memfd, &system) != 0) {
    return NoMemfd("is none of a memfd");
  }
  if (system.f_type != TMPFS_MAGIC) return NoMemfd("has huge pages");
  RETURN_IF_ERROR(Seal(memfd, F_SEAL_SHRINK | F_SEAL_GROW));
  struct stat status = {};
  if (fstat(memfd, &status) != 0) {
    return jit::ErrnoStatus(errno, "look at the region");
  }
  if (status.st_size > 0) return status.st_size;
  return absl::InvalidArgumentError(
      "the region has 0 bytes; allowed: at least 1");
}

absl::StatusOr<Mapping> Mapping::Of(int memfd, int64_t bytes) {
  void* const mapped = mmap(nullptr, static_cast<size_t>(bytes),
                            PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (mapped == MAP_FAILED) {
    return errno == EPERM || errno == EACCES
               ? NoMemfd("cannot be mapped for writing")
               : jit::ErrnoStatus(errno, "map the region");
  }
  Mapping mapping({static_cast<char*>(mapped), static_cast<size_t>(bytes)});
  // Who has mapped it for writing goes on writing, but its pages stay.
  RETURN_IF_ERROR(Seal(memfd, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
  // What was allocated behind its end would count for what is not there.
  struct stat status = {};
  if (ftruncate(memfd, bytes) != 0 || fstat(memfd, &status) != 0) {
    return jit::ErrnoStatus(errno, "look at the region");
  }
  if (status.st_blocks * kBlockBytes >= bytes) return mapping;
  return absl::InvalidArgumentError(absl::StrCat(
      "of the region's ", bytes, " bytes ", status.st_blocks * kBlockBytes,
      " are allocated; allowed: all of them (posix_fallocate)"));
}

Mapping::~Mapping() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace gemmd::rpc::region
