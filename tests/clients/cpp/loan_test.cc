// Memory that is lent stays lent until the transport has let go of it.
#include "clients/cpp/loan.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace gemmd::client {
namespace {

TEST(LoanTest, NothingIsCopied) {
  const std::string bytes(1000, 'x');
  Loan loan;
  const grpc::Slice slice = loan.Lend(bytes);
  EXPECT_EQ(static_cast<const void*>(slice.begin()), bytes.data());
  EXPECT_EQ(slice.size(), bytes.size());
}

TEST(LoanTest, EndsOnlyOnceAllSlicesAreGivenBack) {
  const std::string bytes(1000, 'x');
  // In memory that outlasts it, so that one that ends early fails this test
  // and does no more.
  std::optional<Loan> loan(std::in_place);
  std::optional<grpc::Slice> first = loan->Lend(bytes);
  std::optional<grpc::Slice> second = loan->Lend(bytes);
  std::optional<grpc::Slice> kept = second;  // As the transport keeps one.
  std::atomic<bool> ended = false;
  std::thread owner([&] {
    loan.reset();
    ended = true;
  });
  for (auto* slice : {&first, &second, &kept}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(ended);
    slice->reset();
  }
  owner.join();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace gemmd::client
