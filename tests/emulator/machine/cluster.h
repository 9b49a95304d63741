// CTAs that run at the same time and send each other words: a cluster, often of
// one. They take turns on one thread of the host, each until it can go on no
// further, in an order that the seed gives.
//
// The CTAs meet once. What a CTA knew of its shared memory when all its threads
// had arrived is known to whoever has waited for that: more than that no CTA
// knows of another.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_CLUSTER_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "tests/emulator/machine/cta.h"

namespace gemmd::emulator {

class Cluster {
 public:
  Cluster(const Launch& launch, int first_cta, Reports& reports);

  // Runs `kernel` in every thread of every CTA.
  void Run(const std::function<void()>& kernel);

  // By the running thread. A peer's address is made of an address and the rank
  // of a CTA.
  uint32_t PeerAddress(uint32_t address, uint32_t rank);
  void Arrive();
  void Wait();
  // 16 bytes to a peer, whose barrier they complete on.
  void Send(uint32_t to, uint32_t barrier, const void* words);

 private:
  struct Member {
    std::unique_ptr<Cta> cta;
    Knowledge gathered;              // Of all its threads, as they arrived.
    std::vector<bool> arrived, met;  // By thread.
    Scheduler::Waiters waiters;
  };

  Member& Here();
  void Report(const char* kind, const char* text);

  const Launch& launch_;
  Reports& reports_;
  std::vector<Member> members_;
  int missing_;  // Threads that have yet to arrive.
  std::minstd_rand random_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_CLUSTER_H_
