// The main function of every GoogleTest program: a test that hangs says which
// it is and ends the program, long before ctest would without a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::chrono::seconds kLimit(900);
#else
constexpr std::chrono::seconds kLimit(200);
#endif

// GoogleTest calls all of it on the main thread.
class HangingTests : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& test) override {
    running_ = true;
    watch_ = std::thread(
        [this, name = std::string(test.test_suite_name()) + "." + test.name()] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, kLimit, [this] { return !running_; }))
            return;
          std::fprintf(stderr, "[  HANGS   ] %s: no end within %d s\n",
                       name.c_str(), static_cast<int>(kLimit.count()));
          std::abort();
        });
  }

  void OnTestEnd(const testing::TestInfo&) override {
    {
      std::lock_guard lock(mutex_);
      running_ = false;
    }
    ended_.notify_all();
    watch_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool running_ = false;
  std::thread watch_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new HangingTests);
  return RUN_ALL_TESTS();
}
