// CTAs that run at the same time, send each other words and load for each
// other: a cluster, often of one. They take turns on one thread of the host,
// each until it can go on no further, in an order that the seed gives.
//
// What a CTA knew of its shared memory when all had arrived at a meeting is
// known to whoever has waited for that. More a CTA knows of another only by
// arrivals at its barriers that come from there.
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
  void ArriveAtPeer(uint32_t barrier);
  // The copy engine's load, to the CTAs that have a bit.
  void Load(uint32_t to, const void* map, const BoxPlace& place,
            uint32_t barrier, uint32_t ctas);

 private:
  struct Member {
    std::unique_ptr<Cta> cta;
    // Of all its threads, as they arrived, and at the last meeting.
    Knowledge gathered, known;
    std::vector<int> arrivals, waits;  // By thread.
    Scheduler::Waiters waiters;
  };

  Member& Here();
  // A peer that the running thread does something to. Null, with a report, when
  // there is none any more.
  Cta* Reach(uint32_t rank, const char* what);
  // A thread of no CTA that knows as much of that one as the running thread.
  Actor ActorAt(uint32_t rank);
  void Report(const char* kind, const std::string& text);

  const Launch& launch_;
  Reports& reports_;
  std::vector<Member> members_;
  int missing_;       // Threads that have yet to arrive.
  int meetings_ = 0;  // That have been.
  std::minstd_rand random_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_CLUSTER_H_
