#include "tests/emulator/machine/isa.h"

#include <bit>
#include <cstring>

#include "tests/emulator/machine/cluster.h"
#include "tests/emulator/machine/cta.h"

namespace gemmd::emulator::isa {
namespace {

// The running CTA, after others may have run.
Cta& Here() {
  Cta& cta = Cta::Current();
  cta.scheduler.MayYield();
  return cta;
}

// A row of 8x8 matrices: where it is in shared memory, and the fragments.
struct Rows {
  uint32_t address;
  const uint32_t* from;
  uint32_t* to;
};

constexpr int kRowBytes = 16;

// Element (row, column) of matrix `matrix`, in the fragment of a lane: half
// `column % 2` of its register.
struct Place {
  int lane;
  int half;
};
Place PlaceOf(int row, int column, bool transposed) {
  if (transposed) std::swap(row, column);
  return {row * 4 + column / 2, column % 2};
}

void CheckNumber(bool poisoned) {
  if (!poisoned) return;
  Cta& cta = Cta::Current();
  cta.reports.Add("sums touched in flight",
                  "thread " + std::to_string(cta.scheduler.current()) +
                      " uses sums before their wgmma was waited for");
}

}  // namespace

uint32_t ThreadIndex() {
  return static_cast<uint32_t>(Cta::Current().scheduler.current());
}
uint32_t CtaIndex() { return static_cast<uint32_t>(Cta::Current().index); }
uint32_t CtaCount() {
  return static_cast<uint32_t>(Cta::Current().launch.ctas);
}

uint32_t Shuffle(uint32_t value, int lane) {
  Cta& cta = Here();
  struct Mine {
    uint32_t value;
    size_t from;
    uint32_t result;
  } mine = {value, static_cast<size_t>(lane), 0};
  cta.warp().Together(
      "shfl.sync", cta.lane(), &mine, [](const Warp::Lanes& lanes) {
        for (void* each : lanes) {
          auto& reader = *static_cast<Mine*>(each);
          reader.result = static_cast<const Mine*>(lanes[reader.from])->value;
        }
      });
  return mine.result;
}

bool Elect() {
  Cta& cta = Here();
  cta.warp().Together("elect.sync", cta.lane(), nullptr,
                      [](const Warp::Lanes&) {});
  return cta.lane() == 0;
}

// redux.sync: `combine` over the lanes' values, from `first` on.
template <typename Combine>
uint32_t Redux(uint32_t value, uint32_t first, const Combine& combine) {
  Cta& cta = Here();
  uint32_t mine = value;
  cta.warp().Together(
      "redux.sync", cta.lane(), &mine, [&](const Warp::Lanes& lanes) {
        uint32_t all = first;
        for (const void* each : lanes) {
          all = combine(all, *static_cast<const uint32_t*>(each));
        }
        for (void* each : lanes) {
          *static_cast<uint32_t*>(each) = all;
        }
      });
  return mine;
}

uint32_t MaxOfWarp(uint32_t value) {
  return Redux(value, 0, [](uint32_t a, uint32_t b) { return std::max(a, b); });
}

uint32_t SumOfWarp(uint32_t value) {
  return Redux(value, 0, [](uint32_t a, uint32_t b) { return a + b; });
}

void SyncWarp() {
  Cta& cta = Here();
  cta.warp().Together("bar.warp.sync", cta.lane(), &cta.actor(),
                      [](const Warp::Lanes& lanes) {
                        Knowledge all;
                        for (void* each : lanes) {
                          all.Join(static_cast<Actor*>(each)->knowledge);
                        }
                        for (void* each : lanes) {
                          auto* actor = static_cast<Actor*>(each);
                          actor->knowledge.Join(all);
                          actor->Advance();
                        }
                      });
}

void SyncCta() {
  Cta& cta = Here();
  cta.barriers.Meet(cta.actor(), 0, cta.launch.threads);
}

void SyncThreads(int barrier, int threads) {
  Cta& cta = Here();
  cta.barriers.Meet(cta.actor(), barrier, threads);
}

void InitBarrier(uint32_t barrier, uint32_t arrivals) {
  Cta& cta = Here();
  cta.barriers.Init(cta.actor(), barrier, arrivals);
}

void Arrive(uint32_t barrier) {
  Cta& cta = Here();
  cta.barriers.Arrive(cta.actor(), barrier);
}

void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  Cta& cta = Here();
  cta.barriers.Expect(cta.actor(), barrier, bytes);
  cta.barriers.Arrive(cta.actor(), barrier);
}

void Wait(uint32_t barrier, uint32_t parity) {
  Cta& cta = Here();
  cta.barriers.Wait(cta.actor(), barrier, parity);
}

void FenceAsyncShared() {
  Cta& cta = Here();
  cta.actor().knowledge.Fence();
  cta.actor().Advance();
}

void FenceBarrierInit() { Here().barriers.FenceInit(); }

uint32_t ClusterRank() { return static_cast<uint32_t>(Cta::Current().rank()); }

void ArriveCluster() { Here().cluster.Arrive(); }

void WaitCluster() { Here().cluster.Wait(); }

uint32_t PeerAddress(uint32_t address, uint32_t rank) {
  return Here().cluster.PeerAddress(address, rank);
}

void ArriveAtPeer(uint32_t barrier) { Here().cluster.ArriveAtPeer(barrier); }

void SendToPeer(uint32_t to, uint32_t barrier, const void* words) {
  Here().cluster.Send(to, barrier, words);
}

uint32_t SharedBase() { return SharedMemory::kBase; }

void StoreShared(uint32_t address, const void* from, uint32_t bytes) {
  Cta& cta = Here();
  cta.shared.Write(cta.actor(), address, from, bytes);
}

void LoadShared(uint32_t address, void* to, uint32_t bytes) {
  Cta& cta = Here();
  cta.shared.Read(cta.actor(), address, to, bytes);
}

void StoreMatrices(uint32_t address, const uint32_t* values, int count,
                   bool transposed) {
  Cta& cta = Here();
  Rows mine = {address, values, nullptr};
  cta.warp().Together(
      "stmatrix", cta.lane(), &mine, [&](const Warp::Lanes& lanes) {
        const auto rows = [&](int lane) -> const Rows& {
          return *static_cast<const Rows*>(lanes[static_cast<size_t>(lane)]);
        };
        for (int i = 0; i < 8 * count; ++i) {
          uint16_t line[8];
          for (int column = 0; column < 8; ++column) {
            const Place place = PlaceOf(i % 8, column, transposed);
            line[column] = static_cast<uint16_t>(rows(place.lane).from[i / 8] >>
                                                 16 * place.half);
          }
          cta.shared.Write(cta.actor(), rows(i).address, line, kRowBytes);
        }
      });
}

void LoadMatrices(uint32_t address, uint32_t* values, int count,
                  bool transposed) {
  Cta& cta = Here();
  Rows mine = {address, nullptr, values};
  cta.warp().Together(
      "ldmatrix", cta.lane(), &mine, [&](const Warp::Lanes& lanes) {
        const auto rows = [&](int lane) -> const Rows& {
          return *static_cast<const Rows*>(lanes[static_cast<size_t>(lane)]);
        };
        for (int lane = 0; lane < Warp::kLanes; ++lane) {
          for (int i = 0; i < count; ++i) rows(lane).to[i] = 0;
        }
        for (int i = 0; i < 8 * count; ++i) {
          uint16_t line[8];
          cta.shared.Read(cta.actor(), rows(i).address, line, kRowBytes);
          for (int column = 0; column < 8; ++column) {
            const Place place = PlaceOf(i % 8, column, transposed);
            rows(place.lane).to[i / 8] |= uint32_t{line[column]}
                                          << 16 * place.half;
          }
        }
      });
}

void Prefetch(const void*) { Here(); }

void AcquireTensorMap(const void* map) {
  Cta& cta = Here();
  cta.TouchGlobal("a tensor map");
  cta.copy_engine.Acquire(cta.actor(), map);
}

void LoadBox(uint32_t to, const void* map, int x, int y, int z,
             uint32_t barrier) {
  Cta& cta = Here();
  cta.TouchGlobal("a load of the copy engine");
  cta.copy_engine.Load(cta.actor(), to, map, {x, y, z}, barrier);
}

void LoadBoxToCtas(uint32_t to, const void* map, int x, int y, int z,
                   uint32_t barrier, uint32_t ctas) {
  Cta& cta = Here();
  cta.TouchGlobal("a load of the copy engine");
  cta.cluster.Load(to, map, {x, y, z}, barrier, ctas);
}

void StoreBox(const void* map, int x, int y, int z, uint32_t from) {
  Cta& cta = Here();
  cta.TouchGlobal("a store of the copy engine");
  cta.copy_engine.Store(cta.actor(), map, {x, y, z}, from);
}

void CommitStores() {
  Cta& cta = Here();
  cta.copy_engine.CommitStores(cta.actor());
}

void WaitStoresRead() {
  Cta& cta = Here();
  cta.copy_engine.WaitStoresRead(cta.actor());
}

void WgmmaFence() {
  Cta& cta = Here();
  cta.warpgroup().Fence(cta.actor());
}

void IssueWgmma(const Wgmma& wgmma, void* registers, uint64_t x, uint64_t y,
                const Given& given, bool accumulates) {
  Cta& cta = Here();
  cta.warpgroup().Issue(cta.actor(), wgmma, static_cast<uint32_t*>(registers),
                        {x, y, accumulates}, given);
}

void WgmmaCommit() {
  Cta& cta = Here();
  cta.warpgroup().Commit(cta.actor());
}

void WgmmaWait(int pending) {
  Cta& cta = Here();
  cta.warpgroup().Wait(cta.actor(), pending);
}

void GiveRegisters(int registers) {
  Cta& cta = Here();
  cta.registers.Give(cta.scheduler.current(), registers);
}

void TakeRegisters(int registers) {
  Cta& cta = Here();
  cta.registers.Take(cta.scheduler.current(), registers);
}

void LaunchDependents() { Here(); }

void WaitForDependencies() { Here().WaitForDependencies(); }

void WaitForFlag(bool raised) {
  if (!raised) Here().reports.Add("flag that nobody raises", "in a wait");
}

void TouchGlobal(const void*) {
  Cta::Current().TouchGlobal("a load from global memory");
}

void CheckFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // An f16 that stands for sums in flight, widened.
  constexpr uint32_t kHalf = 0x7f800000 | (PoisonOf(Number::kF16) & 0x3ff)
                                              << 13;
  CheckNumber(bits == PoisonOf(Number::kF32) || bits == kHalf ||
              value ==
                  static_cast<float>(static_cast<int>(PoisonOf(Number::kS32))));
}

void CheckInteger(int value) {
  CheckNumber(static_cast<uint32_t>(value) == PoisonOf(Number::kS32));
}

}  // namespace gemmd::emulator::isa
