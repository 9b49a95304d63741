// In which order requests use tensors, and that none of them blocks a thread.
#include "service/engine/tensor_locks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "service/host/host_device.h"
#include "tests/service/gate.h"

namespace gemmd::engine {
namespace {

class TensorLocksTest : public ::testing::Test {
 protected:
  using Locks = std::shared_ptr<TensorLocks>;

  std::shared_ptr<Tensor> Make() {
    const jit::MatrixLayout layout = {jit::DataType::kF32,
                                      jit::Order::kRowMajor, 4, 4};
    return std::make_shared<Tensor>(
        Tensor::Identity{},
        Tensor::Contents{QuotaHold(), lane_->Allocate(layout).value()});
  }

  // Notes in granted_ that it has its turn, at once or later.
  Locks Read(const std::shared_ptr<Tensor>& tensor) {
    return Use({tensor}, {});
  }
  Locks Write(const std::shared_ptr<Tensor>& tensor) {
    return Use({}, {tensor});
  }
  Locks Use(TensorLocks::Tensors read, TensorLocks::Tensors written) {
    auto locks = std::make_shared<TensorLocks>(table_);
    const auto grant = [this, locks = locks.get()] {
      granted_.push_back(locks);
    };
    if (locks->Acquire(read, written, grant)) grant();
    return locks;
  }
  bool Has(const Locks& locks) const {
    return std::ranges::count(granted_, locks.get()) == 1;
  }

  LockTable table_;
  std::unique_ptr<device::Device> device_ = host::CreateHostDevice({});
  std::unique_ptr<device::Lane> lane_ = device_->CreateLane().value();
  std::vector<TensorLocks*> granted_;
};

TEST_F(TensorLocksTest, ReadersShare) {
  const auto tensor = Make();
  const auto one = Read(tensor);
  const auto two = Read(tensor);
  EXPECT_TRUE(Has(one));
  EXPECT_TRUE(Has(two));
}

TEST_F(TensorLocksTest, AWriterExcludesEveryOther) {
  const auto tensor = Make();
  auto writer = Write(tensor);
  const auto reader = Read(tensor);
  const auto other = Write(tensor);
  EXPECT_TRUE(Has(writer));
  EXPECT_FALSE(Has(reader));
  EXPECT_FALSE(Has(other));
  writer->Release();
  EXPECT_TRUE(Has(reader));
  EXPECT_FALSE(Has(other));
  reader->Release();
  EXPECT_TRUE(Has(other));
}

// New readers do not overtake a writer that waits.
TEST_F(TensorLocksTest, ReadersDoNotStarveAWriter) {
  const auto tensor = Make();
  const auto first = Read(tensor);
  const auto writer = Write(tensor);
  const auto second = Read(tensor);
  EXPECT_FALSE(Has(second));
  first->Release();
  EXPECT_TRUE(Has(writer));
  EXPECT_FALSE(Has(second));
  writer->Release();
  EXPECT_TRUE(Has(second));
}

TEST_F(TensorLocksTest, WritersDoNotStarveAReader) {
  const auto tensor = Make();
  const auto first = Write(tensor);
  const auto reader = Read(tensor);
  const auto second = Write(tensor);
  first->Release();
  EXPECT_TRUE(Has(reader));
  EXPECT_FALSE(Has(second));
}

TEST_F(TensorLocksTest, WhoGivesUpLetsTheNextIn) {
  const auto tensor = Make();
  const auto first = Read(tensor);
  const auto writer = Write(tensor);
  const auto second = Read(tensor);
  writer->Release();
  EXPECT_FALSE(Has(writer));
  EXPECT_TRUE(Has(second));
}

TEST_F(TensorLocksTest, WhoGivesUpHalfWayGivesBackWhatHeHas) {
  const auto x = Make();
  const auto y = Make();
  const auto on_x = Write(x);
  const auto on_y = Write(y);
  const auto both = Use({x}, {y});
  on_x->Release();
  on_y->Release();
  EXPECT_TRUE(Has(both));
  both->Release();

  const auto again = Write(y);
  const auto half = Use({x}, {y});
  const auto other = Write(x);
  half->Release();
  EXPECT_FALSE(Has(half));
  EXPECT_TRUE(Has(other));
}

TEST_F(TensorLocksTest, WhoHasGivenUpTakesNothing) {
  const auto tensor = Make();
  TensorLocks locks(table_);
  locks.Release();
  EXPECT_TRUE(locks.Acquire({}, {tensor}, [] { FAIL() << "it gave up"; }));
  EXPECT_TRUE(Has(Write(tensor)));
}

TEST_F(TensorLocksTest, OneTensorMayBeNamedSeveralTimes) {
  const auto tensor = Make();
  const auto locks = Use({tensor, tensor, nullptr}, {tensor});
  EXPECT_TRUE(Has(locks));
  EXPECT_FALSE(Has(Read(tensor)));
}

// What a long product has used does not expire when it ends.
TEST_F(TensorLocksTest, AUseLastsUntilItIsReleased) {
  const auto read = Make(), written = Make();
  const auto locks = Use({read}, {written});
  absl::SleepFor(absl::Milliseconds(20));
  const absl::Time released = absl::Now();
  locks->Release();
  const absl::Duration idle = std::max(read->idle(), written->idle());
  EXPECT_LT(idle, absl::Now() - released + absl::Milliseconds(10));
}

TEST_F(TensorLocksTest, WritesCountAndReadsDoNot) {
  const auto read = Make();
  const auto written = Make();
  const auto locks = Use({read}, {written});
  TensorLocks::NoteWrite(*written);
  EXPECT_EQ(TensorLocks::version(*written), 0) << "it has not ended";
  locks->Release();
  EXPECT_EQ(TensorLocks::version(*written), 1);
  EXPECT_EQ(TensorLocks::version(*read), 0);
}

TEST_F(TensorLocksTest, AWriteThatNeverBeganDoesNotCount) {
  const auto tensor = Make();
  const auto holder = Write(tensor);
  const auto other = Write(tensor);
  other->Release();
  holder->Release();
  EXPECT_EQ(TensorLocks::version(*tensor), 0);
}

// Two that name the same tensors in opposite orders never wait for each other.
TEST_F(TensorLocksTest, TensorsAreTakenInOneOrderHoweverTheyAreNamed) {
  const auto x = Make();
  const auto y = Make();
  const auto& first = x < y ? x : y;
  const auto& second = x < y ? y : x;
  for (const auto& [read, written] :
       {std::pair(first, second), std::pair(second, first)}) {
    granted_.clear();
    const auto holder = Write(first);
    const auto both = Use({read}, {written});
    EXPECT_FALSE(Has(both));
    const auto other = Write(second);
    EXPECT_TRUE(Has(other)) << "the second was taken before the first";
    other->Release();
    holder->Release();
    EXPECT_TRUE(Has(both));
    both->Release();
  }
}

// Each thread takes two tensors, one to read and one to write, in another
// order than its neighbour. Were they locked in the order of naming, this would
// not end; here nobody waits for ever, and no two write at the same time.
TEST_F(TensorLocksTest, CrossedUsesComeToAnEnd) {
  const std::vector<std::shared_ptr<Tensor>> tensors = {Make(), Make(), Make()};
  constexpr int kRounds = 2000;
  std::atomic<int> writers[3] = {};
  std::atomic<int> done = 0;
  std::atomic<bool> together = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        testing::Gate turn;
        turn.Close();
        TensorLocks locks(table_);
        if (!locks.Acquire({tensors[i]}, {tensors[(i + 1) % 3]},
                           [&] { turn.Open(); })) {
          turn.Pass();
        }
        if (writers[(i + 1) % 3]++ != 0) together = true;
        --writers[(i + 1) % 3];
        locks.Release();
        ++done;
      }
    });
  }
  EXPECT_TRUE(testing::Eventually([&] { return done == 3 * kRounds; }));
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(together);
}

}  // namespace
}  // namespace gemmd::engine
