// Makes a region of a memfd that was offered, step by step, for tests.
#ifndef GEMMD_TESTS_SERVICE_RPC_REGION_CREATE_REGION_H_
#define GEMMD_TESTS_SERVICE_RPC_REGION_CREATE_REGION_H_

#include <string>
#include <utility>

#include "jit/base/status.h"
#include "service/rpc/region/store.h"

namespace gemmd::testing {

inline rpc::region::Store::Made CreateRegion(rpc::region::Store& store,
                                             const std::string& handle,
                                             rpc::region::Owner owner,
                                             device::Device& device) {
  ASSIGN_OR_RETURN(const rpc::GivenFd memfd,
                   store.Take(handle, std::move(owner)));
  auto mapped = store.Map(handle, memfd.get());
  if (!mapped.ok()) {
    store.Withdraw(handle);
    return mapped.status();
  }
  return store.Create(handle, *std::move(mapped), device);
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_RPC_REGION_CREATE_REGION_H_
