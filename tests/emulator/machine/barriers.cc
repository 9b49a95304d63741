#include "tests/emulator/machine/barriers.h"

#include <cstdio>

namespace gemmd::emulator {
namespace {

std::string Who(const Actor& actor) {
  return "thread " + std::to_string(actor.thread);
}

std::string At(uint32_t address) {
  char text[32];
  std::snprintf(text, sizeof text, " at 0x%x", address);
  return text;
}

}  // namespace

std::string Barriers::Describe(const Barrier& barrier, uint32_t address) {
  std::string text = "barrier " + std::to_string(barrier.number) +
                     emulator::At(address) + " (phase " +
                     std::to_string(barrier.phase) + ": ";
  if (barrier.pending > 0) {
    text += std::to_string(barrier.pending) + " of " +
            std::to_string(barrier.expected) + " arrivals missing";
  }
  if (barrier.bytes != 0) {
    text += std::string(barrier.pending > 0 ? ", " : "") +
            std::to_string(barrier.bytes) +
            " announced bytes that no copy brings";
  }
  if (barrier.pending > 0 && barrier.bytes == 0) text += ", no byte missing";
  return text + ")";
}

void Barriers::Init(Actor& actor, uint32_t address, uint32_t arrivals) {
  if (!memory_.Contains(address, 8, "a barrier")) return;
  if (address % 8 != 0) {
    reports_.Add("misaligned",
                 Who(actor) + " makes a barrier" + emulator::At(address));
  }
  if (barriers_.contains(address)) {
    reports_.Add("barrier made twice", Who(actor) + emulator::At(address));
    return;
  }
  if (arrivals == 0 || barriers_.size() >= kMaxBarriers) {
    reports_.Add("barrier of no use", Who(actor) + " makes one of " +
                                          std::to_string(arrivals) +
                                          " arrivals" + emulator::At(address));
  }
  memory_.MakeBarrier(actor, address);
  Barrier& barrier = barriers_[address];
  barrier.number = static_cast<int>(barriers_.size()) - 1;
  barrier.maker = actor.thread;
  barrier.made = actor.epoch();
  barrier.expected = barrier.pending = arrivals;
}

void Barriers::FenceInit() {
  for (auto& [address, barrier] : barriers_) barrier.fenced = true;
}

Barriers::Barrier* Barriers::At(const Actor& actor, uint32_t address,
                                const char* what) {
  const auto found = barriers_.find(address);
  if (found != barriers_.end()) {
    const Barrier& barrier = found->second;
    const auto maker = static_cast<size_t>(barrier.maker);
    if (actor.thread != barrier.maker &&
        actor.knowledge.seen[maker] < barrier.made) {
      reports_.Add("barrier not known to be made",
                   Who(actor) + " " + what + emulator::At(address) +
                       ", with nothing since thread " +
                       std::to_string(barrier.maker) + " made it");
    }
    return &found->second;
  }
  reports_.Add("no barrier", Who(actor) + " " + what + emulator::At(address) +
                                 ", where none was made");
  return nullptr;
}

void Barriers::MayComplete(Barrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  // Its copies have landed: a deed of the barrier.
  barrier.gathered.seen[kFirstBarrier + static_cast<size_t>(barrier.number)] =
      barrier.phase;
  barrier.released = barrier.gathered;
  barrier.released_of_peers = barrier.gathered_of_peers;
  scheduler_.Wake(barrier.waiters);
}

Barriers::Barrier* Barriers::Expecting(const Actor& actor, uint32_t address) {
  Barrier* barrier = At(actor, address, "arrives");
  if (barrier == nullptr || barrier->pending > 0) return barrier;
  reports_.Add("arrival too many",
               Who(actor) + " arrives at " + Describe(*barrier, address) +
                   ", which expects " + std::to_string(barrier->expected) +
                   " and has them");
  return nullptr;
}

void Barriers::ArriveFromPeer(int rank, const Actor& actor, uint32_t address) {
  Barrier* barrier = Expecting(actor, address);
  if (barrier == nullptr) return;
  barrier->gathered_of_peers[rank].Join(actor.of_peers.at(rank));
  --barrier->pending;
  MayComplete(*barrier);
}

void Barriers::Arrive(Actor& actor, uint32_t address) {
  Barrier* barrier = Expecting(actor, address);
  if (barrier == nullptr) return;
  barrier->gathered.Join(actor.knowledge);
  actor.Advance();
  --barrier->pending;
  MayComplete(*barrier);
}

void Barriers::Expect(const Actor& actor, uint32_t address, uint32_t bytes) {
  Barrier* barrier = At(actor, address, "announces bytes");
  if (barrier == nullptr) return;
  barrier->bytes += bytes;
  if (barrier->bytes >= 1 << 20) {
    reports_.Add("wrong transaction bytes",
                 Who(actor) + ": more than a barrier can count");
  }
}

bool Barriers::Find(const Actor& actor, uint32_t address, Target* target) {
  const Barrier* barrier = At(actor, address, "copies onto a barrier");
  if (barrier == nullptr) return false;
  if (!barrier->fenced) {
    reports_.Add("barrier not fenced",
                 Who(actor) + " gives the copy engine a barrier" +
                     emulator::At(address) +
                     " that no fence.mbarrier_init made known to it");
  }
  *target = {barrier->number, barrier->phase};
  return true;
}

void Barriers::Land(uint32_t address, uint32_t bytes) {
  Barrier& barrier = barriers_.at(address);
  barrier.bytes -= bytes;
  if (barrier.bytes < 0 && barrier.pending == 0) {
    reports_.Add("wrong transaction bytes",
                 std::to_string(-barrier.bytes) +
                     " bytes more than announced landed on barrier " +
                     std::to_string(barrier.number) + emulator::At(address));
  }
  MayComplete(barrier);
}

void Barriers::Wait(Actor& actor, uint32_t address, uint32_t parity) {
  Barrier* barrier = At(actor, address, "waits");
  if (barrier == nullptr) return;
  // The phase that is waited for: this one, or the one before it, which has
  // completed.
  const bool completed = (barrier->phase & 1) != parity;
  const uint32_t wanted = completed ? barrier->phase : barrier->phase + 1;
  while (barrier->phase < wanted) {
    scheduler_.Wait(barrier->waiters, [&] {
      return "for " + Describe(*barrier, address) + ", parity " +
             std::to_string(parity);
    });
  }
  if (barrier->phase > wanted) {
    reports_.Add("phase overtaken",
                 Who(actor) + " waited for phase " +
                     std::to_string(wanted - 1) + " of barrier " +
                     std::to_string(barrier->number) + emulator::At(address) +
                     ", which has gone a phase further: on hardware it may"
                     " wait for ever");
  }
  actor.knowledge.Join(barrier->released);
  for (const auto& [rank, known] : barrier->released_of_peers) {
    actor.of_peers[rank].Join(known);
  }
}

void Barriers::Meet(Actor& actor, int name, int threads) {
  Named& barrier = named_[name];
  if (barrier.arrived == 0) barrier.expected = threads;
  if (barrier.expected != threads || threads % 32 != 0) {
    reports_.Add("named barrier of two sizes",
                 Who(actor) + " brings " + std::to_string(threads) +
                     " threads to barrier " + std::to_string(name) +
                     ", others " + std::to_string(barrier.expected));
  }
  barrier.gathered.Join(actor.knowledge);
  actor.Advance();
  if (++barrier.arrived == barrier.expected) {
    barrier.arrived = 0;
    ++barrier.rounds;
    barrier.released = barrier.gathered;
    scheduler_.Wake(barrier.waiters);
  } else {
    const uint32_t round = barrier.rounds;
    while (barrier.rounds == round) {
      scheduler_.Wait(barrier.waiters, [&] {
        return "for named barrier " + std::to_string(name) + " (" +
               std::to_string(barrier.arrived) + " of " +
               std::to_string(barrier.expected) + " threads there)";
      });
    }
  }
  actor.knowledge.Join(barrier.released);
}

}  // namespace gemmd::emulator
