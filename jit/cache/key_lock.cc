#include "jit/cache/key_lock.h"

#include <fcntl.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "jit/base/folder.h"

namespace gemmd::jit {
namespace {

// f_type of network file systems, from <linux/magic.h> and their sources.
constexpr uint32_t kRemote[] = {
    0x6969,      // NFS
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB2
    0x517b,      // SMB
    0x01021997,  // 9p
    0x00c36400,  // Ceph
    0x65735546,  // FUSE: sshfs, s3fs, GlusterFS and the like
    0x0bd00bd0,  // Lustre
    0x5346414f,  // AFS
    0x6b414653,  // AFS of the kernel
    0x19830326,  // BeeGFS, whose locks are each machine's own
    0x20030528,  // OrangeFS
    0x47504653,  // GPFS
};

// 60 bits of the key: what fits an offset.
off_t OffsetOf(const std::string& key) {
  return static_cast<off_t>(
      std::strtoull(key.substr(0, 15).c_str(), nullptr, 16));
}

}  // namespace

bool IsLocalFileSystem(const std::string& directory) {
  struct statfs facts;
  if (statfs(directory.c_str(), &facts) != 0) return false;
  return std::find(std::begin(kRemote), std::end(kRemote),
                   static_cast<uint32_t>(facts.f_type)) == std::end(kRemote);
}

KeyLock::KeyLock(const std::string& directory, const std::string& key) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!IsLocalFileSystem(directory)) return;
  absl::StatusOr<UniqueFd> file = OpenOwnFile(directory, kKeyLockFile);
  if (!file.ok()) return;
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = OffsetOf(key);
  range.l_len = 1;
  if (fcntl(file->get(), F_OFD_SETLK, &range) == 0) {
    file_ = *std::move(file);
  } else {
    taken_ = errno == EAGAIN || errno == EACCES;
  }
}

}  // namespace gemmd::jit
