#include "service/engine/kept_forms.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/gate.h"

namespace gemmd::engine {
namespace {

using jit::Form;

// Counts how many live, as memory does.
class CountedMatrix final : public device::Matrix {
 public:
  explicit CountedMatrix(int& live) : Matrix({}), live_(live) { ++live_; }
  ~CountedMatrix() override { --live_; }

 private:
  int& live_;
};

class KeptFormsTest : public ::testing::Test {
 protected:
  absl::StatusOr<KeptForms::Derived> Derive() {
    ++derivations_;
    if (!error_.ok()) return error_;
    KeptForms::Derived derived;
    if (has_quota_) derived.quota = quota_;
    derived.matrix = std::make_unique<CountedMatrix>(live_);
    return derived;
  }
  KeptForms::Shared Get(Form form, int64_t version) {
    return kept_.Get(form, version, [this] { return Derive(); }).value();
  }
  // Who holds quota beside this test.
  int64_t holds() const { return quota_.use_count() - 1; }

  int live_ = 0;
  int derivations_ = 0;
  bool has_quota_ = true;
  absl::Status error_;
  const std::shared_ptr<const void> quota_ = std::make_shared<int>();
  KeptForms kept_;
};

TEST_F(KeptFormsTest, AFormIsDerivedOncePerVersion) {
  const auto first = Get(Form::kTransposed, 1);
  EXPECT_EQ(Get(Form::kTransposed, 1), first);
  EXPECT_EQ(derivations_, 1);
  EXPECT_NE(Get(Form::kTransposed, 2), first);
  EXPECT_EQ(derivations_, 2);
}

TEST_F(KeptFormsTest, FormsAreKeptBesideEachOther) {
  const auto transposed = Get(Form::kTransposed, 1);
  const auto split = Get(Form::kSplit, 1);
  EXPECT_NE(transposed, split);
  EXPECT_EQ(Get(Form::kTransposed, 1), transposed);
  EXPECT_EQ(Get(Form::kSplit, 1), split);
  EXPECT_EQ(derivations_, 2);
  EXPECT_EQ(holds(), 2);
}

TEST_F(KeptFormsTest, OfAnOldVersionNothingIsKept) {
  Get(Form::kTransposed, 1);
  Get(Form::kTransposed, 2);
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(holds(), 1);
}

TEST_F(KeptFormsTest, AProductKeepsTheFormThatItUses) {
  auto used = Get(Form::kTransposed, 1);
  kept_.Clear();
  EXPECT_EQ(live_, 1);
  EXPECT_EQ(holds(), 1) << "memory that is in use counts";
  used.reset();
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(holds(), 0);
}

TEST_F(KeptFormsTest, ClearGivesMemoryAndQuotaBack) {
  Get(Form::kTransposed, 1);
  Get(Form::kSplit, 1);
  kept_.Clear();
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(holds(), 0);
  Get(Form::kSplit, 1);
  EXPECT_EQ(derivations_, 3);
}

TEST_F(KeptFormsTest, WithoutQuotaItServesButIsNotKept) {
  has_quota_ = false;
  EXPECT_NE(Get(Form::kTransposed, 1), nullptr);
  EXPECT_EQ(live_, 0);
  EXPECT_FALSE(kept_.MayHave(Form::kTransposed, 1));
  Get(Form::kTransposed, 1);
  EXPECT_EQ(derivations_, 2);
}

TEST_F(KeptFormsTest, AFailureIsNotRemembered) {
  error_ = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(kept_.Get(Form::kSplit, 1, [this] { return Derive(); }).status(),
            error_);
  EXPECT_FALSE(kept_.MayHave(Form::kSplit, 1));
  error_ = absl::OkStatus();
  EXPECT_NE(Get(Form::kSplit, 1), nullptr);
}

TEST_F(KeptFormsTest, WhoAsksMeanwhileWaitsInsteadOfDerivingToo) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      const auto derived = kept_.Get(Form::kTransposed, 1, [this] {
        absl::SleepFor(absl::Milliseconds(20));
        return Derive();
      });
      EXPECT_TRUE(derived.ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(derivations_, 1);
}

// Event loops forget forms, and ask whether there are some: they are not to
// stand still with a device.
TEST_F(KeptFormsTest, NobodyElseWaitsForADevice) {
  testing::Gate device;
  device.Close();
  std::thread product([&] {
    const auto derived = kept_.Get(Form::kTransposed, 1, [&] {
      device.Pass();
      return Derive();
    });
    EXPECT_TRUE(derived.ok());
  });
  ASSERT_TRUE(device.WaitForArrivals(1));
  auto loop = std::async(std::launch::async, [&] {
    EXPECT_TRUE(kept_.MayHave(Form::kTransposed, 1));
    EXPECT_FALSE(kept_.MayHave(Form::kSplit, 1));
    kept_.Clear();
    EXPECT_FALSE(kept_.MayHave(Form::kTransposed, 1));
  });
  EXPECT_EQ(loop.wait_for(testing::kPatience / 2), std::future_status::ready);
  device.Open();
  product.join();
  EXPECT_EQ(live_, 0) << "what was forgotten is not kept";
  EXPECT_EQ(holds(), 0);
}

}  // namespace
}  // namespace gemmd::engine
