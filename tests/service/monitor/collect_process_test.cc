// What is told of the process is what the system says of it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/monitor/collect.h"

namespace gemmd::monitor {
namespace {

double Value(absl::string_view series) {
  metrics::Exposition values;
  CollectProcess(values);
  const std::string text = values.Text();
  const std::string line = absl::StrCat("\n", series, " ");
  const size_t from = text.find(line) + line.size();
  double value = -1;
  (void)absl::SimpleAtod(text.substr(from, text.find('\n', from) - from),
                         &value);
  return value;
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(CollectProcessTest, TimeIsThatOfUserAndSystem) {
  // Of both kinds: reading a file of /proc is work of the system.
  const double end = CpuSeconds() + 0.3;
  std::string line;
  while (CpuSeconds() < end) {
    std::ifstream maps("/proc/self/maps");
    while (std::getline(maps, line)) {
    }
  }
  EXPECT_NEAR(Value("process_cpu_seconds_total"), CpuSeconds(), 0.1);
}

TEST(CollectProcessTest, MemoryIsWhatIsResident) {
  const std::vector<char> touched(64 << 20, 'x');
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  const auto bytes =
      static_cast<double>(resident) * static_cast<double>(getpagesize());
  EXPECT_GT(bytes, 64 << 20);
  EXPECT_NEAR(Value("process_resident_memory_bytes"), bytes, 16 << 20);
}

TEST(CollectProcessTest, FilesAreThoseThatItMayOpen) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  --limit.rlim_cur;  // Below what it may be raised to.
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(Value("process_max_fds"), static_cast<double>(limit.rlim_cur));
  const double before = Value("process_open_fds");
  const int more = dup(0);
  EXPECT_EQ(Value("process_open_fds"), before + 1);
  close(more);
}

}  // namespace
}  // namespace gemmd::monitor
