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
    member.arrived.resize(static_cast<size_t>(launch.threads));
    member.met.resize(static_cast<size_t>(launch.threads));
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

void Cluster::Report(const char* kind, const char* text) {
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
  if (here.arrived[thread]) Report("cluster met twice", "arrives again");
  here.arrived[thread] = true;
  here.gathered.Join(here.cta->actor().knowledge);
  here.cta->actor().Advance();
  if (--missing_ != 0) return;
  for (Member& member : members_) member.cta->scheduler.Wake(member.waiters);
}

void Cluster::Wait() {
  Member& here = Here();
  const auto thread = static_cast<size_t>(here.cta->scheduler.current());
  if (!here.arrived[thread]) Report("cluster met twice", "waits, not arrived");
  while (missing_ > 0) {
    here.cta->scheduler.Wait(here.waiters, [this] {
      return "for the cluster (" + std::to_string(missing_) +
             " threads missing)";
    });
  }
  here.met[thread] = true;
  here.cta->actor().knowledge.Join(here.gathered);
}

void Cluster::Send(uint32_t to, uint32_t barrier, const void* words) {
  Member& here = Here();
  const uint32_t rank = (to >> kRankShift) - 1;
  if (rank >= members_.size() || rank != (barrier >> kRankShift) - 1) {
    Report("no such CTA",
           "sends to no peer, or completes on a barrier of another");
    return;
  }
  if (!here.met[static_cast<size_t>(here.cta->scheduler.current())]) {
    Report("peer not known to have begun", "sends before the cluster has met");
  }
  Cta& peer = *members_[rank].cta;
  if (peer.ended()) {
    Report("shared memory given back while in flight",
           "sends to a CTA that has ended");
    return;
  }
  to &= kAddressMask;
  barrier &= kAddressMask;
  if (to % kBytes != 0) Report("misaligned", "sends to no multiple of 16");
  Actor actor;
  actor.knowledge = members_[rank].gathered;
  Barriers::Target target;
  if (!peer.shared.Contains(to, kBytes, "a word from a peer") ||
      !peer.barriers.Find(actor, barrier, &target)) {
    return;
  }
  peer.shared.IssueLoad(actor, to, {}, target.number, target.phase);
  std::string bytes(static_cast<const char*>(words), kBytes);
  peer.scheduler.Later([&peer, to, barrier, bytes] {
    std::memcpy(peer.shared.At(to), bytes.data(), bytes.size());
    peer.barriers.Land(barrier, kBytes);
  });
}

}  // namespace gemmd::emulator
