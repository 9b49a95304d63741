#include "service/engine/tensor_store.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "service/host/host_device.h"

namespace {

// Added to the time of day, which the program asks for here: what the
// executable defines comes before the C library's.
std::atomic<int64_t> step_s = 0;

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += step_s;
  return result;
}

namespace gemmd::engine {
namespace {

using absl::StatusCode;

class TensorStoreTest : public testing::Test {
 protected:
  // 64 bytes on the device.
  std::shared_ptr<Tensor> Make(absl::Duration ttl = absl::Hours(1)) {
    const jit::MatrixLayout layout = {jit::DataType::kF32,
                                      jit::Order::kRowMajor, 4, 4};
    auto quota = store_.Reserve(layout.device_bytes());
    if (!quota.ok()) return nullptr;
    return std::make_shared<Tensor>(
        Tensor::Identity{.handle = TensorStore::NewHandle(), .ttl = ttl},
        lane_->Allocate(layout).value(), *std::move(quota));
  }

  std::unique_ptr<device::Device> device_ = host::CreateHostDevice({});
  std::unique_ptr<device::Lane> lane_ = device_->CreateLane().value();
  TensorStore store_{{.max_bytes = 200, .max_tensors = 2}};
};

TEST_F(TensorStoreTest, HandlesAreLongAndNeverAlike) {
  std::set<std::string> handles;
  for (int i = 0; i < 1000; ++i) handles.insert(TensorStore::NewHandle());
  EXPECT_EQ(handles.size(), 1000);
  for (const std::string& handle : handles) {
    ASSERT_EQ(handle.size(), 32);
    ASSERT_EQ(handle.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
}

TEST_F(TensorStoreTest, FindsUntilDeleted) {
  const auto tensor = Make();
  const std::string handle = tensor->identity().handle;
  ASSERT_TRUE(store_.Insert(tensor).ok());
  EXPECT_EQ(store_.Find(handle).value(), tensor);
  EXPECT_EQ(store_.List().size(), 1);
  EXPECT_TRUE(store_.Delete(handle).ok());
  EXPECT_EQ(store_.Find(handle).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_.Delete(handle).code(), StatusCode::kNotFound);
  EXPECT_EQ(store_.Find("").status().code(), StatusCode::kNotFound);
}

TEST_F(TensorStoreTest, QuotaIsGivenBackWhenTheLastUserIsDone) {
  auto first = Make();
  auto second = Make();
  auto third = Make();
  ASSERT_NE(third, nullptr);
  const auto refused = store_.Reserve(64);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message(),
            "a tensor of 64 bytes does not fit: 192 bytes of tensors are "
            "resident; the limit is 200");
  ASSERT_TRUE(store_.Insert(first).ok());
  ASSERT_TRUE(store_.Delete(first->identity().handle).ok());
  EXPECT_EQ(store_.bytes(), 192);  // A product may still use it.
  first.reset();
  EXPECT_EQ(store_.bytes(), 128);
  EXPECT_TRUE(store_.Reserve(64).ok());
}

TEST_F(TensorStoreTest, TheirNumberIsLimited) {
  ASSERT_TRUE(store_.Insert(Make()).ok());
  ASSERT_TRUE(store_.Insert(Make()).ok());
  EXPECT_EQ(store_.Insert(Make()).code(), StatusCode::kResourceExhausted);
}

TEST_F(TensorStoreTest, ExpiresWhatIsIdleAndUnused) {
  auto idle = Make(absl::Milliseconds(1));
  auto held = Make(absl::Milliseconds(1));
  ASSERT_TRUE(store_.Insert(idle).ok());
  ASSERT_TRUE(store_.Insert(held).ok());
  const std::string idle_handle = idle->identity().handle;
  idle.reset();
  absl::SleepFor(absl::Milliseconds(3));
  store_.Expire();
  EXPECT_EQ(store_.Find(idle_handle).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_.Find(held->identity().handle).ok());
}

TEST_F(TensorStoreTest, AStepOfTheTimeOfDayExpiresNothing) {
  auto tensor = Make(absl::Minutes(10));
  const std::string handle = tensor->identity().handle;
  ASSERT_TRUE(store_.Insert(std::move(tensor)).ok());
  const absl::Time before = absl::Now();
  step_s = 3600;
  EXPECT_GE(absl::Now() - before, absl::Hours(1));
  store_.Expire();
  EXPECT_TRUE(store_.Find(handle).ok());
  step_s = 0;
}

TEST_F(TensorStoreTest, AUseRestartsTheTimeToLive) {
  auto tensor = Make(absl::Hours(1));
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_GE(tensor->idle(), absl::Milliseconds(5));
  ASSERT_TRUE(store_.Insert(tensor).ok());
  ASSERT_TRUE(store_.Find(tensor->identity().handle).ok());
  EXPECT_LT(tensor->idle(), absl::Milliseconds(5));
}

TEST_F(TensorStoreTest, AWriterExcludesEveryOther) {
  const auto tensor = Make();
  const absl::Time soon = absl::Now() + absl::Milliseconds(10);
  {
    const auto reading = TensorLocks::Acquire({tensor}, nullptr, soon);
    ASSERT_TRUE(reading.ok());
    std::thread([&] {
      EXPECT_TRUE(TensorLocks::Acquire({tensor}, nullptr, soon).ok());
      EXPECT_EQ(TensorLocks::Acquire({}, tensor, soon).status().code(),
                StatusCode::kDeadlineExceeded);
    }).join();
  }
  const auto writing =
      TensorLocks::Acquire({tensor, tensor}, tensor, absl::InfiniteFuture());
  ASSERT_TRUE(writing.ok());
  std::thread([&] {
    const absl::Time again = absl::Now() + absl::Milliseconds(10);
    EXPECT_EQ(TensorLocks::Acquire({tensor}, nullptr, again).status().code(),
              StatusCode::kDeadlineExceeded);
  }).join();
}

TEST_F(TensorStoreTest, WritesCountAndReadsDoNot) {
  const auto tensor = Make();
  const auto version = [&] { return TensorLocks::version(*tensor); };
  const int64_t before = version();
  {
    const auto lock =
        TensorLocks::Acquire({tensor}, nullptr, absl::InfiniteFuture());
  }
  EXPECT_EQ(version(), before);
  {
    const auto lock = TensorLocks::Acquire({}, tensor, absl::InfiniteFuture());
  }
  EXPECT_EQ(version(), before + 1);
}

TEST_F(TensorStoreTest, CrossedOperandsDoNotDeadlock) {
  const auto x = Make();
  const auto y = Make();
  const auto work = [&](const auto& read, const auto& written) {
    for (int i = 0; i < 2000; ++i) {
      ASSERT_TRUE(
          TensorLocks::Acquire({read}, written, absl::InfiniteFuture()).ok());
    }
  };
  std::thread one([&] { work(x, y); });
  std::thread other([&] { work(y, x); });
  one.join();
  other.join();
}

}  // namespace
}  // namespace gemmd::engine
