#include "service/rpc/region/own_threads.h"

#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::rpc::region {

absl::Status OwnThreads::Take(Counts& counts, const std::string& identity) {
  std::lock_guard lock(counts.mutex);
  const int most_of_one = counts.most - counts.most / 4;
  const auto own = counts.of.find(identity);
  if (own != counts.of.end() && own->second >= most_of_one) {
    return absl::ResourceExhaustedError(absl::StrCat(
        own->second,
        " regions of this client are being made, which whoever "
        "holds their memfds may hold up; the limit of one client is ",
        most_of_one));
  }
  if (counts.all >= counts.most) {
    return absl::ResourceExhaustedError(absl::StrCat(
        counts.all,
        " regions are being made, which whoever holds their memfds "
        "may hold up; the limit of all clients is ",
        counts.most));
  }
  ++counts.all;
  ++counts.of[identity];
  return absl::OkStatus();
}

void OwnThreads::GiveBack(Counts& counts, const std::string& identity) {
  std::lock_guard lock(counts.mutex);
  --counts.all;
  const auto own = counts.of.find(identity);
  if (--own->second == 0) counts.of.erase(own);
}

absl::Status OwnThreads::Run(const std::string& identity,
                             absl::AnyInvocable<void()> work) {
  RETURN_IF_ERROR(Take(*counts_, identity));
  try {
    std::thread([counts = counts_, identity, work = std::move(work)]() mutable {
      std::exchange(work, nullptr)();
      GiveBack(*counts, identity);
    }).detach();
  } catch (const std::system_error&) {
    GiveBack(*counts_, identity);
    return absl::ResourceExhaustedError(
        "the machine gives the daemon no thread that makes the region");
  }
  return absl::OkStatus();
}

}  // namespace gemmd::rpc::region
