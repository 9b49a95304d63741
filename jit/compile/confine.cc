#include "jit/compile/confine.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>

#include "jit/base/file.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

// Rights of the first version of Landlock: all that it has ever known of files
// is refused but what is granted below.
constexpr uint64_t kAllRights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
constexpr uint64_t kReadRights =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;

// What the C library reads to learn of processors, memory and time.
constexpr const char* kReadable[] = {
    "/sys/devices/system/cpu", "/proc/self", "/proc/cpuinfo",
    "/proc/meminfo",           "/proc/stat", "/etc/localtime"};

int LandlockVersion() {
  return static_cast<int>(syscall(SYS_landlock_create_ruleset, nullptr, 0,
                                  LANDLOCK_CREATE_RULESET_VERSION));
}

absl::Status RestrictFiles() {
  if (LandlockVersion() < 1) return absl::OkStatus();
  const landlock_ruleset_attr attributes = {.handled_access_fs = kAllRights};
  const UniqueFd rules(static_cast<int>(syscall(
      SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0)));
  if (!rules.ok()) return ErrnoStatus(errno, "make rules for files");
  for (const char* path : kReadable) {
    const UniqueFd file(open(path, O_PATH | O_CLOEXEC));
    if (!file.ok()) continue;
    landlock_path_beneath_attr rule = {.allowed_access = kReadRights,
                                       .parent_fd = file.get()};
    // A right to list is refused for what is no folder.
    if (syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH,
                &rule, 0) != 0) {
      rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
      syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH,
              &rule, 0);
    }
  }
  if (syscall(SYS_landlock_restrict_self, rules.get(), 0) != 0) {
    return ErrnoStatus(errno, "restrict files");
  }
  return absl::OkStatus();
}

// Calls that a compile makes, whatever their arguments. Any other fails with
// EPERM.
constexpr int kAllowed[] = {
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev),
    SCMP_SYS(pread64), SCMP_SYS(lseek), SCMP_SYS(close), SCMP_SYS(fstat),
    SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
    SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
    SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getcwd),
    SCMP_SYS(getdents64), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg), SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(shutdown),
    // Memory.
    SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap),
    SCMP_SYS(mprotect), SCMP_SYS(madvise), SCMP_SYS(membarrier),
    // Threads, signals and ends.
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(gettid), SCMP_SYS(getpid),
    SCMP_SYS(getppid), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack), SCMP_SYS(exit),
    SCMP_SYS(exit_group), SCMP_SYS(restart_syscall),
    // What time it is, and what the machine is.
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep), SCMP_SYS(gettimeofday), SCMP_SYS(time),
    SCMP_SYS(times), SCMP_SYS(getrusage), SCMP_SYS(getrlimit),
    SCMP_SYS(sysinfo), SCMP_SYS(uname), SCMP_SYS(getrandom), SCMP_SYS(getuid),
    SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    SCMP_SYS(arch_prctl)};

// What may be done to a descriptor. By F_SETOWN and F_SETSIG a socket would
// send any process of this user any signal, and F_SETFL changes a file for
// others who have it open.
constexpr int kFileCommands[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD,
                                 F_GETFL};

constexpr uint64_t kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND |
                              (O_TMPFILE & ~O_DIRECTORY);

struct FreeFilter {
  void operator()(void* filter) const { seccomp_release(filter); }
};

absl::Status RestrictCalls() {
  const std::unique_ptr<void, FreeFilter> filter(
      seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (filter == nullptr) {
    return absl::ResourceExhaustedError("cannot make a filter of calls");
  }
  int error = 0;
  const auto add = [&](int result) { error = error != 0 ? error : result; };
  scmp_filter_ctx to = filter.get();
  for (const int call : kAllowed) {
    add(seccomp_rule_add(to, SCMP_ACT_ALLOW, call, 0));
  }
  for (const int command : kFileCommands) {
    add(seccomp_rule_add(
        to, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
        SCMP_A1(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command))));
  }
  // Files are opened to be read.
  add(seccomp_rule_add(to, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
                       SCMP_A1(SCMP_CMP_MASKED_EQ, kWriting, 0)));
  add(seccomp_rule_add(to, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
                       SCMP_A2(SCMP_CMP_MASKED_EQ, kWriting, 0)));
  // Threads are started, processes are not. The flags of clone3 lie in memory,
  // where a filter cannot see them: the C library falls back to clone.
  add(seccomp_rule_add(
      to, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
      SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)));
  add(seccomp_rule_add(to, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0));
  // An abort signals this process.
  add(seccomp_rule_add(
      to, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
      SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid()))));
  // Limits are read.
  add(seccomp_rule_add(to, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
                       SCMP_A2(SCMP_CMP_EQ, 0)));
  if (error == 0) error = seccomp_load(to);
  if (error != 0) return ErrnoStatus(-error, "restrict system calls");
  return absl::OkStatus();
}

}  // namespace

absl::Status ConfineThisProcess() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return ErrnoStatus(errno, "give up privileges");
  }
  const rlimit none = {0, 0}, few = {64, 64};
  // A write to a file fails instead of ending the process.
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &none);
  setrlimit(RLIMIT_NOFILE, &few);
  RETURN_IF_ERROR(RestrictFiles());
  return RestrictCalls();
}

std::string MissingConfinement() {
  if (LandlockVersion() >= 1) return "";
  return "This kernel lacks Landlock: compile workers are confined by a filter "
         "of system calls alone, and can read what this user can.";
}

}  // namespace gemmd::jit
