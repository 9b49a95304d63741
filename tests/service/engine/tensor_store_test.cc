#include "service/engine/tensor_store.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "service/host/host_device.h"
#include "tests/settable_clock.h"

namespace gemmd::engine {
namespace {

using absl::StatusCode;

class TensorStoreTest : public testing::Test {
 protected:
  // 64 bytes on the device.
  std::shared_ptr<Tensor> Make(Tensor::Identity identity) {
    const jit::MatrixLayout layout = {jit::DataType::kF32,
                                      jit::Order::kRowMajor, 4, 4};
    auto quota = store_.Reserve(0, layout.device_bytes());
    if (!quota.ok()) return nullptr;
    identity.handle = TensorStore::NewHandle();
    return std::make_shared<Tensor>(
        std::move(identity),
        Tensor::Contents{*std::move(quota), lane_->Allocate(layout).value()});
  }
  std::shared_ptr<Tensor> Make(absl::Duration ttl = absl::Hours(1)) {
    return Make(Tensor::Identity{.ttl = ttl});
  }

  std::unique_ptr<device::Device> device_ = host::CreateHostDevice({});
  std::unique_ptr<device::Lane> lane_ = device_->CreateLane().value();
  TensorStore store_{{.max_bytes = 200, .max_tensors = 2}, {1000, 1000}};
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
  const auto refused = store_.Reserve(0, 64);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.status().message(),
            "a tensor of 64 bytes does not fit beside those of all clients; "
            "the limit is 200");
  ASSERT_TRUE(store_.Insert(first).ok());
  ASSERT_TRUE(store_.Delete(first->identity().handle).ok());
  EXPECT_EQ(store_.bytes(), 192);  // A product may still use it.
  first.reset();
  EXPECT_EQ(store_.bytes(), 128);
  EXPECT_TRUE(store_.Reserve(0, 64).ok());
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
  clock_step_s = 3600;
  EXPECT_GE(absl::Now() - before, absl::Hours(1));
  store_.Expire();
  EXPECT_TRUE(store_.Find(handle).ok());
  clock_step_s = 0;
}

TEST_F(TensorStoreTest, AUseRestartsTheTimeToLive) {
  auto tensor = Make(absl::Hours(1));
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_GE(tensor->idle(), absl::Milliseconds(5));
  ASSERT_TRUE(store_.Insert(tensor).ok());
  ASSERT_TRUE(store_.Find(tensor->identity().handle).ok());
  EXPECT_LT(tensor->idle(), absl::Milliseconds(5));
}

TEST_F(TensorStoreTest, EachDeviceHasAQuota) {
  const auto one = store_.Reserve(0, 200);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(store_.Reserve(0, 1).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(store_.free_bytes(0), 0);
  EXPECT_EQ(store_.free_bytes(1), 200);
  const auto other = store_.Reserve(1, 150);
  EXPECT_TRUE(other.ok());
  EXPECT_EQ(store_.bytes(), 350);
  EXPECT_EQ(store_.max_bytes(), 400);
}

TEST_F(TensorStoreTest, AQuotaIsThreeQuartersOfTheMemoryUnlessSaid) {
  const TensorStore store({}, {1000, 4000});
  EXPECT_EQ(store.free_bytes(0), 750);
  EXPECT_EQ(store.free_bytes(1), 3000);
}

TEST_F(TensorStoreTest, OneIdentityHoldsItsShareAtMost) {
  auto mine = store_.Reserve(0, 100, "me");
  ASSERT_TRUE(mine.ok()) << mine.status();
  EXPECT_EQ(store_.free_bytes(0, "me"), 50);
  EXPECT_EQ(store_.free_bytes(0, "you"), 100);
  EXPECT_EQ(store_.free_bytes(1, "me"), 150);
  const auto more = store_.Reserve(0, 51, "me");
  EXPECT_EQ(more.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(more.status().message(),
            "a tensor of 51 bytes does not fit: this client has 100 bytes of "
            "tensors; the limit of one is 150");
  EXPECT_TRUE(store_.Reserve(1, 150, "me").ok());
  EXPECT_TRUE(store_.Reserve(0, 100, "you").ok());
  mine = absl::CancelledError();
  EXPECT_TRUE(store_.Reserve(0, 150, "me").ok());
  // What another holds is no share of mine that I could be refused for.
  const auto all = store_.Reserve(0, 200);
  EXPECT_EQ(store_.Reserve(0, 150, "me").status().message(),
            "a tensor of 150 bytes does not fit beside those of all clients; "
            "the limit is 200");
}

TEST_F(TensorStoreTest, OneIdentityCreatesItsPartOfTheNumber) {
  TensorStore store({.max_bytes = 200, .max_tensors = 4}, {1000});
  const auto insert = [&](const std::string& owner) {
    Tensor::Identity identity = {.handle = TensorStore::NewHandle(),
                                 .owner = owner};
    const jit::MatrixLayout layout = {jit::DataType::kF32,
                                      jit::Order::kRowMajor, 1, 1};
    return store.Insert(std::make_shared<Tensor>(
        identity,
        Tensor::Contents{QuotaHold(), lane_->Allocate(layout).value()}));
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(insert("me").ok());
  const absl::Status refused = insert("me");
  EXPECT_EQ(refused.message(),
            "this client has created 3 tensors; the limit of one is 3");
  EXPECT_TRUE(insert("you").ok());
  ASSERT_TRUE(store.Delete(store.ListOf("me")[0]->identity().handle).ok());
  EXPECT_TRUE(insert("me").ok());
}

TEST_F(TensorStoreTest, WhoIsRefusedWhatOthersHoldPressesThem) {
  const auto mine = store_.Reserve(0, 150, "me");
  EXPECT_FALSE(store_.Reserve(0, 1, "me").ok());
  EXPECT_FALSE(store_.contended());
  EXPECT_FALSE(store_.Reserve(0, 51, "you").ok());
  EXPECT_TRUE(store_.contended());
}

TEST_F(TensorStoreTest, WhatNobodyDeletesCannotBeHadByWaiting) {
  auto tensor = Make();
  const auto passing = store_.Reserve(0, 36);
  EXPECT_EQ(store_.attainable_bytes(0), 200);
  ASSERT_TRUE(store_.Insert(tensor).ok());
  EXPECT_EQ(store_.attainable_bytes(0), 136);
  EXPECT_EQ(store_.attainable_bytes(1), 200);
  ASSERT_TRUE(store_.Delete(tensor->identity().handle).ok());
  tensor.reset();
  EXPECT_EQ(store_.attainable_bytes(0), 200);
}

TEST_F(TensorStoreTest, NobodyIsPressedForWhatWouldNotBeEnough) {
  ASSERT_TRUE(store_.Insert(Make()).ok());
  const auto passing = store_.Reserve(0, 100);
  EXPECT_FALSE(store_.Reserve(0, 137, "you").ok());
  EXPECT_FALSE(store_.contended());
  EXPECT_FALSE(store_.Reserve(0, 136, "you").ok());
  EXPECT_TRUE(store_.contended());
}

TEST_F(TensorStoreTest, ManyIdentitiesLeaveNothingBehind) {
  for (int i = 0; i < 1000; ++i) {
    const std::string identity = std::to_string(i);
    ASSERT_TRUE(store_.Reserve(0, 100, identity).ok()) << i;
  }
  EXPECT_EQ(store_.bytes(), 0);
}

// However many others come and go.
TEST_F(TensorStoreTest, WhoHasSomethingIsNotForgotten) {
  const auto mine = store_.Reserve(0, 100, "bytes");
  ASSERT_TRUE(store_.Insert(Make({.owner = "tensors"})).ok());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(store_.Reserve(1, 1, std::to_string(i)).ok()) << i;
  }
  EXPECT_EQ(store_.UseOf("bytes").bytes, 100);
  EXPECT_EQ(store_.own_free_bytes(0, "bytes"), 50);
  EXPECT_EQ(store_.UseOf("tensors").tensors, 1);
}

TEST_F(TensorStoreTest, WhatIsExclusiveIsUnknownToOthers) {
  const auto mine = Make({.owner = "me", .exclusive = true});
  ASSERT_TRUE(store_.Insert(mine).ok());
  const std::string handle = mine->identity().handle;
  const std::string unknown =
      "no tensor " + handle + ": never created, deleted, or expired";
  EXPECT_EQ(store_.Find(handle, "you").status().message(), unknown);
  EXPECT_EQ(store_.Find(handle).status().message(), unknown);
  EXPECT_EQ(store_.Delete(handle, "you").message(), unknown);
  EXPECT_EQ(store_.Find(handle, "me").value(), mine);
  EXPECT_TRUE(store_.Delete(handle, "me").ok());
}

// Who left it behind may not come back.
TEST_F(TensorStoreTest, WhoAdministersDeletesAlsoWhatIsExclusive) {
  const auto mine = Make({.owner = "me", .exclusive = true});
  ASSERT_TRUE(store_.Insert(mine).ok());
  const std::string handle = mine->identity().handle;
  EXPECT_TRUE(store_.Delete(handle, "you", /*administers=*/true).ok());
  EXPECT_FALSE(store_.Find(handle, "me").ok());
  EXPECT_EQ(store_.UseOf("me").tensors, 0);
}

TEST_F(TensorStoreTest, OneIdentityIsGrantedMoreOrLess) {
  store_.SetGrants({{"me", {.max_bytes = 20, .max_tensors = 1}}});
  EXPECT_EQ(store_.free_bytes(0, "me"), 20);
  EXPECT_FALSE(store_.Reserve(0, 21, "me").ok());
  const auto mine = store_.Reserve(0, 20, "me");
  EXPECT_TRUE(mine.ok());
  EXPECT_EQ(store_.own_free_bytes(0, "me"), 0);
  EXPECT_EQ(store_.UseOf("me").bytes, 20);
  EXPECT_FALSE(store_.contended()) << "nobody else is in the way";
  EXPECT_TRUE(store_.Reserve(0, 150, "you").ok()) << "as everybody";
  ASSERT_TRUE(store_.Insert(Make({.owner = "me"})).ok());
  EXPECT_EQ(store_.Insert(Make({.owner = "me"})).message(),
            "this client has created 1 tensors; the limit of one is 1");
  EXPECT_EQ(store_.UseOf("me").tensors, 1);
  EXPECT_EQ(store_.max_bytes_of_one(0, "me"), 20);
  store_.SetGrants({{"me", {.max_bytes = 500}}});
  EXPECT_EQ(store_.max_bytes_of_one(0, "me"), 200) << "there are no more";
  store_.SetGrants({});
  EXPECT_EQ(store_.own_free_bytes(0, "me"), 130);
}

TEST_F(TensorStoreTest, NoBytesAreGrantedAlsoToWhoHasTooMany) {
  const auto mine = store_.Reserve(0, 100, "me");
  store_.SetGrants({{"me", {.max_bytes = 20}}});
  EXPECT_TRUE(store_.Reserve(0, 0, "me").ok());
  EXPECT_FALSE(store_.Reserve(0, 1, "me").ok());
}

TEST_F(TensorStoreTest, ListsToACreatorWhatIsHis) {
  const auto mine = Make({.owner = "me"});
  const auto yours = Make({.owner = "you"});
  ASSERT_TRUE(store_.Insert(mine).ok());
  ASSERT_TRUE(store_.Insert(yours).ok());
  EXPECT_EQ(store_.ListOf("me"), std::vector{mine});
  EXPECT_TRUE(store_.ListOf("nobody").empty());
  EXPECT_EQ(store_.List().size(), 2);
}

TEST_F(TensorStoreTest, ListsAPageAtATimeInOrder) {
  TensorStore store({.max_bytes = 200, .max_tensors = 100}, {1000});
  for (int i = 0; i < 20; ++i) {
    const jit::MatrixLayout layout = {jit::DataType::kF32,
                                      jit::Order::kRowMajor, 1, 1};
    ASSERT_TRUE(
        store
            .Insert(std::make_shared<Tensor>(
                Tensor::Identity{.handle = TensorStore::NewHandle(),
                                 .owner = i % 2 ? "me" : "you"},
                Tensor::Contents{QuotaHold(), lane_->Allocate(layout).value()}))
            .ok());
  }
  const auto pages =
      [&](const std::function<TensorStore::Tensors(const std::string&)>&
              page_after) {
        TensorStore::Tensors all;
        std::string after;
        for (TensorStore::Tensors page; !(page = page_after(after)).empty();) {
          EXPECT_LE(page.size(), 3);
          for (const auto& tensor : page) {
            EXPECT_GT(tensor->identity().handle, after);
            after = tensor->identity().handle;
            all.push_back(tensor);
          }
        }
        return all;
      };
  const auto all =
      pages([&](const auto& after) { return store.List(after, 3); });
  EXPECT_EQ(all, store.List());
  EXPECT_EQ(all.size(), 20);
  const auto mine =
      pages([&](const auto& after) { return store.ListOf("me", after, 3); });
  EXPECT_EQ(mine.size(), 10);
  for (const auto& tensor : mine) EXPECT_EQ(tensor->identity().owner, "me");
  // A page begins behind what is gone, too.
  ASSERT_TRUE(store.Delete(mine[4]->identity().handle).ok());
  EXPECT_EQ(store.ListOf("me", mine[4]->identity().handle, 1)[0], mine[5]);
  store.Clear();
  EXPECT_TRUE(store.ListOf("me").empty());
  EXPECT_EQ(store.UseOf("me").tensors, 0);
}

TEST_F(TensorStoreTest, WhatIsBoundToAConnectionEndsWithIt) {
  const auto bound = Make(
      {.owner = "me", .lifetime = Lifetime::kConnection, .connection = "here"});
  const auto kept = Make({.owner = "me"});
  ASSERT_TRUE(store_.Insert(bound).ok());
  ASSERT_TRUE(store_.Insert(kept).ok());
  store_.Disconnect("me");
  EXPECT_EQ(store_.count(), 2);
  store_.Disconnect("here");
  EXPECT_EQ(store_.List(), std::vector{kept});
}

TEST_F(TensorStoreTest, WhatIsBoundMayEndBeforeItsConnection) {
  const auto bound = [&] {
    return Make({.lifetime = Lifetime::kConnection, .connection = "here"});
  };
  const auto first = bound();
  const auto second = bound();
  ASSERT_TRUE(store_.Insert(first).ok());
  ASSERT_TRUE(store_.Insert(second).ok());
  ASSERT_TRUE(store_.Delete(first->identity().handle).ok());
  store_.Disconnect("here");
  EXPECT_EQ(store_.count(), 0);
  ASSERT_TRUE(store_.Insert(bound()).ok());
  store_.Clear();
  store_.Disconnect("here");
  EXPECT_EQ(store_.count(), 0);
}

// Each looked at all tensors, for 2 ms.
TEST_F(TensorStoreTest, ConnectionsWithoutTensorsEndAtNoCost) {
  constexpr int kTensors = 50000;
  TensorStore store({.max_bytes = 200, .max_tensors = kTensors}, {1000});
  const jit::MatrixLayout layout = {jit::DataType::kF32, jit::Order::kRowMajor,
                                    1, 1};
  for (int i = 0; i < kTensors; ++i) {
    ASSERT_TRUE(store
                    .Insert(std::make_shared<Tensor>(
                        Tensor::Identity{.handle = TensorStore::NewHandle(),
                                         .lifetime = Lifetime::kConnection,
                                         .connection = "here"},
                        layout, QuotaHold()))
                    .ok());
  }
  const absl::Time start = absl::Now();
  for (int i = 0; i < 2000; ++i) store.Disconnect(std::to_string(i));
  EXPECT_LT(absl::Now() - start, absl::Milliseconds(500));
  EXPECT_EQ(store.count(), kTensors);
}

TEST_F(TensorStoreTest, FormsAreDroppedOnlyForWhatFitsThen) {
  const auto tensor = Make();
  ASSERT_TRUE(store_.Insert(tensor).ok());
  const auto derive = [&]() -> absl::StatusOr<KeptForms::Derived> {
    auto quota = store_.ReserveSpare(0, 64);
    return KeptForms::Derived{
        std::make_shared<const QuotaHold>(*std::move(quota)),
        lane_->Allocate(tensor->layout()).value()};
  };
  KeptForms& forms = tensor->forms(0);
  ASSERT_TRUE(forms.Get(jit::Form::kStored, 0, derive).ok());
  EXPECT_EQ(store_.bytes(0), 128);
  // Of 200 bytes, those of the tensor itself stay.
  EXPECT_FALSE(store_.Reserve(0, 137, "you").ok());
  EXPECT_TRUE(forms.MayHave(jit::Form::kStored, 0));
  {
    const auto passing = store_.Reserve(0, 40);
    EXPECT_FALSE(store_.Reserve(0, 97, "you").ok());
    EXPECT_TRUE(forms.MayHave(jit::Form::kStored, 0));
  }
  EXPECT_TRUE(store_.Reserve(0, 136, "you").ok());
  EXPECT_FALSE(forms.MayHave(jit::Form::kStored, 0));
}

TEST_F(TensorStoreTest, CountsWhomItRefuses) {
  const auto first = Make();
  const auto second = Make();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(store_.refused(), 0);
  EXPECT_FALSE(store_.Reserve(0, 1000).ok());
  EXPECT_EQ(store_.refused(), 1);
  // What can be done without is refused to nobody.
  EXPECT_FALSE(store_.ReserveSpare(0, 1000).ok());
  EXPECT_EQ(store_.refused(), 1);
  ASSERT_TRUE(store_.Insert(first).ok());
  ASSERT_TRUE(store_.Insert(second).ok());
  EXPECT_FALSE(store_.Insert(Make()).ok());
  EXPECT_EQ(store_.refused(), 2);
}

}  // namespace
}  // namespace gemmd::engine
