// The instructions of the emulated machine, as tests/emulator/ptx calls them:
// each is done by the thread that is running. Used by instances, which are
// compiled by themselves and loaded; nothing here but the language.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_ISA_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_ISA_H_

#include <cstdint>

#include "tests/emulator/machine/instruction.h"

namespace gemmd::emulator::isa {

// Identity.
uint32_t ThreadIndex();
uint32_t CtaIndex();
uint32_t CtaCount();

// Warps. All lanes.
uint32_t Shuffle(uint32_t value, int lane);
bool Elect();
uint32_t MaxOfWarp(uint32_t value);
uint32_t SumOfWarp(uint32_t value);
void SyncWarp();

// Barriers.
void SyncCta();
void SyncThreads(int barrier, int threads);
void InitBarrier(uint32_t barrier, uint32_t arrivals);
void Arrive(uint32_t barrier);
void ArriveExpecting(uint32_t barrier, uint32_t bytes);
void Wait(uint32_t barrier, uint32_t parity);
void FenceAsyncShared();
void FenceBarrierInit();

// Clusters.
uint32_t ClusterRank();
void ArriveCluster();
void WaitCluster();
uint32_t PeerAddress(uint32_t address, uint32_t rank);
void ArriveAtPeer(uint32_t barrier);
void SendToPeer(uint32_t to, uint32_t barrier, const void* words);

// Shared memory.
uint32_t SharedBase();
void StoreShared(uint32_t address, const void* from, uint32_t bytes);
void LoadShared(uint32_t address, void* to, uint32_t bytes);
// `count` matrices of 8x8 elements of 16 bits.
void StoreMatrices(uint32_t address, const uint32_t* values, int count,
                   bool transposed);
void LoadMatrices(uint32_t address, uint32_t* values, int count,
                  bool transposed);

// Copy engine.
void Prefetch(const void* map);
void AcquireTensorMap(const void* map);
void LoadBox(uint32_t to, const void* map, int x, int y, int z,
             uint32_t barrier);
void LoadBoxToCtas(uint32_t to, const void* map, int x, int y, int z,
                   uint32_t barrier, uint32_t ctas);
void StoreBox(const void* map, int x, int y, int z, uint32_t from);
void CommitStores();
void WaitStoresRead();

// Tensor core.
void WgmmaFence();
void IssueWgmma(const Wgmma& wgmma, void* registers, uint64_t x, uint64_t y,
                const Given& given, bool accumulates);
void WgmmaCommit();
void WgmmaWait(int pending);

// Registers and grids.
void GiveRegisters(int registers);
void TakeRegisters(int registers);
void LaunchDependents();
void WaitForDependencies();
// Flags of other CTAs, all of which those before this one have raised by now.
void WaitForFlag(bool raised);
// Of a word of global memory.
void TouchGlobal(const void* at);

// A number on its way to memory: reports one that stands for sums in flight.
void CheckFloat(float value);
void CheckInteger(int value);

}  // namespace gemmd::emulator::isa

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_ISA_H_
