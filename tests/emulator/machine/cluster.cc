#include "tests/emulator/machine/cluster.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace gemmd::emulator {
namespace {

constexpr uint32_t kRankShift = 24;
constexpr uint32_t kAddressMask = (1u << kRankShift) - 1;
constexpr uint32_t kBytes = 16;

}  // namespace

Cluster::Cluster(const Launch& launch, int first_cta, Reports& reports)
    : launch_(launch),
      reports_(reports),
      members_(static_cast<size_t>(launch.cluster)),
      missing_(launch.cluster * launch.threads),
      random_(launch.seed + static_cast<uint64_t>(first_cta)) {
  int index = first_cta;
  for (Member& member : members_) {
    member.cta = std::make_unique<Cta>(launch, index++, *this, reports);
    member.arrivals.resize(static_cast<size_t>(launch.threads));
    member.waits.resize(static_cast<size_t>(launch.threads));
  }
}

void Cluster::Run(const std::function<void()>& kernel) {
  std::vector<Cta*> order;
  for (Member& member : members_) order.push_back(member.cta.get());
  for (Cta* cta : order) cta->Begin(kernel);
  for (bool goes_on = true; goes_on;) {
    if (launch_.seed != 0) std::ranges::shuffle(order, random_);
    goes_on = false;
    for (Cta* cta : order) goes_on |= cta->GoOn();
  }
  for (Cta* cta : order) cta->End();
}

Cluster::Member& Cluster::Here() {
  return members_[static_cast<size_t>(Cta::Current().rank())];
}

void Cluster::Report(const char* kind, const std::string& text) {
  const Cta& cta = Cta::Current();
  reports_.Add(kind, "thread " + std::to_string(cta.scheduler.current()) +
                         " of CTA " + std::to_string(cta.index) + " " + text);
}

uint32_t Cluster::PeerAddress(uint32_t address, uint32_t rank) {
  if (rank >= members_.size()) Report("no such CTA", "addresses a peer");
  return address | (rank + 1) << kRankShift;
}

void Cluster::Arrive() {
  Member& here = Here();
  const auto thread = static_cast<size_t>(here.cta->scheduler.current());
  if (here.arrivals[thread]++ > here.waits[thread]) {
    Report("cluster met twice", "arrives again");
  }
  here.gathered.Join(here.cta->actor().knowledge);
  here.cta->actor().Advance();
  if (--missing_ != 0) return;
  missing_ = launch_.cluster * launch_.threads;
  ++meetings_;
  for (Member& member : members_) {
    member.known = member.gathered;
    member.cta->scheduler.Wake(member.waiters);
  }
}

void Cluster::Wait() {
  Member& here = Here();
  const auto thread = static_cast<size_t>(here.cta->scheduler.current());
  if (++here.waits[thread] > here.arrivals[thread]) {
    Report("cluster met twice", "waits, not arrived");
  }
  while (meetings_ < here.waits[thread]) {
    here.cta->scheduler.Wait(here.waiters, [this] {
      return "for the cluster (" + std::to_string(missing_) +
             " threads missing)";
    });
  }
  here.cta->actor().knowledge.Join(here.known);
}

Cta* Cluster::Reach(uint32_t rank, const char* what) {
  if (rank >= members_.size()) {
    Report("no such CTA", std::string(what) + " no peer");
    return nullptr;
  }
  Member& here = Here();
  if (here.waits[static_cast<size_t>(here.cta->scheduler.current())] == 0) {
    Report("peer not known to have begun",
           std::string(what) + " a peer before the cluster has met");
  }
  Cta& peer = *members_[rank].cta;
  if (!peer.ended()) return &peer;
  Report("shared memory given back while in flight",
         std::string(what) + " a CTA that has ended");
  return nullptr;
}

Actor Cluster::ActorAt(uint32_t rank) {
  const Actor& here = Here().cta->actor();
  if (static_cast<int>(rank) == Here().cta->rank()) return here;
  Actor there;
  there.knowledge = members_[rank].known;
  const auto told = here.of_peers.find(static_cast<int>(rank));
  if (told != here.of_peers.end()) there.knowledge.Join(told->second);
  return there;
}

void Cluster::Send(uint32_t to, uint32_t barrier, const void* words) {
  const uint32_t rank = (to >> kRankShift) - 1;
  if (rank != (barrier >> kRankShift) - 1) {
    Report("no such CTA", "sends, and completes on a barrier of another");
    return;
  }
  Cta* const peer = Reach(rank, "sends to");
  if (peer == nullptr) return;
  to &= kAddressMask;
  barrier &= kAddressMask;
  if (to % kBytes != 0) Report("misaligned", "sends to no multiple of 16");
  const Actor actor = ActorAt(rank);
  Barriers::Target target;
  if (!peer->shared.Contains(to, kBytes, "a word from a peer") ||
      !peer->barriers.Find(actor, barrier, &target)) {
    return;
  }
  peer->shared.IssueLoad(actor, to, {}, target.number, target.phase);
  std::string bytes(static_cast<const char*>(words), kBytes);
  peer->scheduler.Later([peer, to, barrier, bytes] {
    std::memcpy(peer->shared.At(to), bytes.data(), bytes.size());
    peer->barriers.Land(barrier, kBytes);
  });
}

void Cluster::ArriveAtPeer(uint32_t barrier) {
  const uint32_t rank = (barrier >> kRankShift) - 1;
  Cta* const peer = Reach(rank, "arrives at");
  if (peer == nullptr) return;
  barrier &= kAddressMask;
  Cta& here = *Here().cta;
  if (peer == &here) {
    here.barriers.Arrive(here.actor(), barrier);
    return;
  }
  Actor actor = ActorAt(rank);
  actor.of_peers[here.rank()] = here.actor().knowledge;
  here.actor().Advance();
  peer->scheduler.Later([this, peer, rank = here.rank(), barrier, actor] {
    if (peer->ended()) {
      reports_.Add("shared memory given back while in flight",
                   "an arrival of CTA " + std::to_string(rank) +
                       " of the cluster comes to one that has ended");
    }
    peer->barriers.ArriveFromPeer(rank, actor, barrier);
  });
}

void Cluster::Load(uint32_t to, const void* map, const BoxPlace& place,
                   uint32_t barrier, uint32_t ctas) {
  for (uint32_t rank = 0; ctas >> rank != 0; ++rank) {
    if ((ctas >> rank & 1) == 0) continue;
    Cta* const peer = Reach(rank, "loads for");
    if (peer == nullptr) continue;
    peer->copy_engine.Load(ActorAt(rank), to, map, place, barrier);
  }
}

}  // namespace gemmd::emulator
