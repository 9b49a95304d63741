#include "tests/bench/cache/large.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "jit/base/status.h"
#include "jit/cache/entry.h"
#include "jit/cache/kernel_cache.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

constexpr int kEntries = 20000;
constexpr int64_t kBytes = int64_t{4} << 30;
constexpr size_t kSourceBytes = 48 << 10;  // As of our kernels.
constexpr int kStores = 500;
constexpr size_t kPage = 1000;

std::string SourceOf(int number) {
  std::string source = absl::StrCat("source ", number, "\n");
  source.resize(kSourceBytes, '/');
  return source;
}

// A row of an entry whose file has `kBytes / kEntries` bytes.
std::string EntryOf(int number) {
  CompiledKernel kernel = FakeKernel(SourceOf(number));
  const size_t rest =
      kBytes / kEntries -
      std::min<size_t>(kBytes / kEntries, EncodeEntry(kernel).size());
  kernel.cubin.append(rest, '\1');  // Behind its sections.
  return EncodeEntry(kernel);
}

absl::Status WriteCold(const std::string& path, const std::string& bytes) {
  const UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.ok()) return ErrnoStatus(errno, "make an entry");
  return WriteAll(file.get(), bytes);
}

// Lets the page cache forget the files of `folder`.
void Forget(const std::string& folder) {
  sync();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const UniqueFd file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

// Of /proc/self/status, in bytes.
int64_t StatusBytes(absl::string_view field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(": \t"), absl::SkipEmpty());
    int64_t kib = 0;
    if (words.size() > 1 && words[0] == field &&
        absl::SimpleAtoi(words[1], &kib)) {
      return kib << 10;
    }
  }
  return 0;
}

double Ms(absl::Time since) {
  return absl::ToDoubleMilliseconds(absl::Now() - since);
}

// Of this thread.
double CpuMs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 +
         static_cast<double>(now.tv_nsec) / 1e6;
}

// Without a compiler, so that all entries are looked at.
absl::Status TimeStart(const std::string& directory, const char* cached) {
  const absl::Time start = absl::Now();
  const auto cache = KernelCache::Create(
      {.directory = directory, .directory_limit_bytes = kBytes}, nullptr);
  const double created_ms = Ms(start);
  const Instance instance = {
      .name = "fake", .source = Source(SourceOf(kEntries / 2)), .options = {}};
  RETURN_IF_ERROR(cache->Get(instance, absl::InfiniteFuture()).status());
  absl::PrintF("start %s %8.1f ms, first answer without a compiler %.1f ms\n",
               cached, created_ms, Ms(start));
  return absl::OkStatus();
}

absl::Status TimeList(const std::string& directory) {
  const auto cache = KernelCache::Create(
      {.directory = directory, .directory_limit_bytes = kBytes}, nullptr);
  std::ofstream("/proc/self/clear_refs") << 5;  // The peak starts here.
  const int64_t before = StatusBytes("VmRSS");
  for (const char* const turn : {"first", "again"}) {
    const double cpu_before_ms = CpuMs();
    const absl::Time start = absl::Now();
    const size_t got = cache->List("", kPage).size();
    const double took_ms = Ms(start);
    const double cpu_ms = CpuMs() - cpu_before_ms;
    if (got != kPage) return absl::InternalError("the list is incomplete");
    absl::PrintF(
        "list %d of %d, %s  %8.1f ms (%.1f of a processor), %.1f MiB more at "
        "the peak\n",
        kPage, kEntries, turn, took_ms, cpu_ms,
        static_cast<double>(StatusBytes("VmHWM") - before) / (1 << 20));
  }
  return absl::OkStatus();
}

// The compiler takes no time: what is left is the cache's.
absl::Status TimeStores(const std::string& directory) {
  const auto control = std::make_shared<FakeCompiler::Control>();
  const auto cache = KernelCache::Create(
      {.directory = directory, .directory_limit_bytes = kBytes},
      std::make_unique<FakeCompiler>(control));
  std::vector<double> times_ms;
  for (int i = 0; i < kStores; ++i) {
    const Instance instance = {.name = "fake",
                               .source = Source(SourceOf(kEntries + i)),
                               .options = {}};
    const absl::Time start = absl::Now();
    RETURN_IF_ERROR(cache->Get(instance, absl::InfiniteFuture()).status());
    times_ms.push_back(Ms(start));
  }
  std::sort(times_ms.begin(), times_ms.end());
  const absl::Time start = absl::Now();
  cache->Flush();
  absl::PrintF(
      "store, as a request has it %7.2f ms median, %.2f ms at 99%%, %.2f ms at "
      "most; %d were on disk %.0f ms later\n",
      times_ms[kStores / 2], times_ms[kStores * 99 / 100], times_ms.back(),
      kStores, Ms(start));
  if (cache->statistics().write_errors != 0) {
    return absl::InternalError("an entry was not written");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TimeLargeCache(const std::string& parent) {
  const TemporaryDirectory outer(parent);
  const std::string directory = outer.path() + "/cache";
  const std::string entries = directory + "/entries";
  std::filesystem::create_directories(entries);
  std::filesystem::permissions(directory, std::filesystem::perms::owner_all);
  std::filesystem::permissions(entries, std::filesystem::perms::owner_all);
  for (int i = 0; i < kEntries; ++i) {
    const std::string key = FakeKernel(SourceOf(i)).key;
    RETURN_IF_ERROR(WriteCold(absl::StrCat(entries, "/", key), EntryOf(i)));
  }
  Forget(entries);
  RETURN_IF_ERROR(TimeStart(directory, "from disk  "));
  RETURN_IF_ERROR(TimeStart(directory, "page cache "));
  Forget(entries);
  RETURN_IF_ERROR(TimeList(directory));
  return TimeStores(directory);
}

}  // namespace gemmd::jit
