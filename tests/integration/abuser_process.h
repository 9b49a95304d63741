// Abusers in a process of their own, as they are in the world: what they do to
// gRPC's threads, and where there are cores enough to those, is not in what the
// clients of this process see.
#ifndef GEMMD_TESTS_INTEGRATION_ABUSER_PROCESS_H_
#define GEMMD_TESTS_INTEGRATION_ABUSER_PROCESS_H_

#include <sched.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace gemmd::testing {

// Where there are eight cores or more, this thread, and what it starts, keeps
// to one half of them; the other one is the abusers'. With fewer all use all.
class AbuserCores {
 public:
  AbuserCores();

  const cpu_set_t& theirs() const { return theirs_; }
  const cpu_set_t& ours() const { return ours_; }

 private:
  cpu_set_t theirs_;
  cpu_set_t ours_;
};

// Runs this program again as one that calls RunAbusers, and ends it.
class AbuserProcess {
 public:
  // Its first argument; the others are RunAbusers'.
  static constexpr char kFlag[] = "--abuse";

  // Of those names, or all.
  AbuserProcess(const AbuserCores& cores, const std::string& address,
                const std::vector<std::string>& names);
  ~AbuserProcess();

 private:
  pid_t pid_ = 0;
  int until_closed_ = -1;  // It goes on.
};

// An address, and names of abusers or none for all, which go on until standard
// input ends. The exit code.
int RunAbusers(const std::vector<std::string>& arguments);

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_ABUSER_PROCESS_H_
