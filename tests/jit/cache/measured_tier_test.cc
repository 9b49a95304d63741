#include "jit/cache/measured_tier.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "jit/base/steady_time.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(20);

// Takes its time to load, and stores nothing.
class SlowTier final : public Tier {
 public:
  absl::StatusOr<CompiledKernel> Load(const std::string& key) override {
    absl::SleepFor(kPause);
    if (key == "missing") return absl::NotFoundError(key);
    if (key == "damaged") return absl::DataLossError(key);
    return FakeKernel(key);
  }
  absl::Status Store(const CompiledKernel&) override {
    return absl::UnavailableError("full");
  }
  absl::Status Remove(const std::string&) override { return absl::OkStatus(); }
};

TEST(MeasuredTierTest, CountsAndTimesEachUse) {
  MeasuredTier tier("slow", std::make_shared<SlowTier>());
  const absl::Time start = SteadyNow();
  for (const char* key : {"there", "missing", "damaged"}) {
    tier.Load(key).status().IgnoreError();
  }
  const absl::Duration took = SteadyNow() - start;
  EXPECT_TRUE(absl::IsUnavailable(tier.Store(FakeKernel("there"))));
  const TierStatistics statistics = tier.statistics();
  EXPECT_EQ(statistics.name, "slow");
  EXPECT_EQ(statistics.hits, 1);
  EXPECT_EQ(statistics.misses, 1);
  EXPECT_EQ(statistics.errors, 2);  // One of a load, one of the store.
  EXPECT_EQ(statistics.bytes_loaded, static_cast<int64_t>(FakeCubin().size()));
  EXPECT_EQ(statistics.bytes_stored, 0);
  EXPECT_GE(statistics.load_us, absl::ToInt64Microseconds(3 * kPause));
  EXPECT_LE(statistics.load_us, absl::ToInt64Microseconds(took));
}

}  // namespace
}  // namespace gemmd::jit
