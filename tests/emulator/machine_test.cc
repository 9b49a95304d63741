// What the machine says of small programs, written as kernels are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/emulator/machine/global_memory.h"
#include "tests/emulator/machine/grid.h"
#include "tests/emulator/machine/isa.h"
#include "tests/emulator/machine/tensor_map.h"

namespace gemmd::emulator {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kData = SharedMemory::kBase;
constexpr uint32_t kBarrier = kData + 8192;

// What is reported of `program` in one CTA of a warpgroup.
std::vector<std::string> Reported(const std::function<void(uint32_t)>& program,
                                  uint64_t seed = 1, int threads = 128) {
  Reports reports;
  RunGrid(
      {.ctas = 1, .threads = threads, .shared_bytes = 16384, .seed = seed},
      [&] {
        isa::WaitForDependencies();
        program(isa::ThreadIndex());
      },
      reports);
  return reports.texts();
}

// Lines of 128 bytes of a matrix, 8 of them in a box.
class Matrix {
 public:
  Matrix() : memory_(8192) {
    for (size_t i = 0; i < memory_.size(); ++i) {
      memory_.data()[i] = static_cast<char>(i % 251);
    }
    TensorMap map;
    map.memory = memory_.data();
    map.width = 64;
    map.lines = 30;
    map.matrices = 2;
    map.pitch_bytes = 128;
    map.matrix_bytes = 30 * 128;
    map.element_bytes = 2;
    map.box_width = 64;
    map.box_lines = 8;
    map.swizzle_bytes = 128;
    std::memcpy(bytes_, &map, sizeof map);
  }
  const void* map() const { return bytes_; }
  char* line(int y, int z = 0) const {
    return memory_.data() + z * 30 * 128 + y * 128;
  }

 private:
  GlobalBlock memory_;
  alignas(64) unsigned char bytes_[128] = {};
};

void MakeBarrier(uint32_t thread, uint32_t arrivals = 1) {
  if (thread == 0) {
    isa::InitBarrier(kBarrier, arrivals);
    isa::FenceBarrierInit();
  }
  isa::SyncCta();
}

uint32_t Load(uint32_t address) {
  uint32_t value;
  isa::LoadShared(address, &value, sizeof value);
  return value;
}

void Store(uint32_t address, uint32_t value) {
  isa::StoreShared(address, &value, sizeof value);
}

TEST(MachineTest, ThreadsSeeWhatABarrierOrders) {
  EXPECT_THAT(Reported([](uint32_t thread) {
                Store(kData + 4 * thread, thread);
                isa::SyncCta();
                EXPECT_EQ(Load(kData + 4 * (127 - thread)), 127 - thread);
              }),
              IsEmpty());
}

TEST(MachineTest, AReadWithoutABarrierIsReportedInEveryOrder) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto reports = Reported(
        [](uint32_t thread) {
          Store(kData + 4 * thread, thread);
          Load(kData + 4 * (thread ^ 64));
        },
        seed);
    EXPECT_FALSE(reports.empty()) << seed;
  }
}

TEST(MachineTest, WhatNobodyWroteIsReported) {
  EXPECT_THAT(Reported([](uint32_t thread) { Load(kData + 4 * thread); }),
              Contains(HasSubstr("uninitialised read")));
}

TEST(MachineTest, TwoWritersWithoutABarrierAreReported) {
  EXPECT_THAT(Reported([](uint32_t thread) { Store(kData, thread); }),
              Contains(HasSubstr("unordered writes")));
}

TEST(MachineTest, BoxesLandSwizzledAndFilledWithZeros) {
  Matrix matrix;
  EXPECT_THAT(
      Reported([&](uint32_t thread) {
        MakeBarrier(thread);
        if (thread == 0) {
          isa::ArriveExpecting(kBarrier, 1024);
          isa::LoadBox(kData, matrix.map(), 0, 28, 1, kBarrier);
        }
        isa::Wait(kBarrier, 0);
        // Chunk c of line l is at chunk c ^ l; two lines are inside.
        if (thread < 64) {
          const uint32_t line = thread / 8, chunk = thread % 8;
          uint32_t expected = 0;
          if (line < 2) {
            std::memcpy(
                &expected,
                matrix.line(static_cast<int>(28 + line), 1) + 16 * chunk,
                sizeof expected);
          }
          EXPECT_EQ(Load(kData + 128 * line + 16 * (chunk ^ line)), expected);
        }
      }),
      IsEmpty());
}

TEST(MachineTest, ABoxThatIsNotWaitedForIsReported) {
  Matrix matrix;
  EXPECT_THAT(Reported([&](uint32_t thread) {
                MakeBarrier(thread);
                if (thread == 0) {
                  isa::ArriveExpecting(kBarrier, 1024);
                  isa::LoadBox(kData, matrix.map(), 0, 0, 0, kBarrier);
                }
                isa::SyncCta();
                Load(kData);
              }),
              Contains(HasSubstr("read before it is there")));
}

TEST(MachineTest, BytesThatNeverComeAreADeadlockThatSaysSo) {
  Matrix matrix;
  EXPECT_THAT(Reported([&](uint32_t thread) {
                MakeBarrier(thread);
                if (thread == 0) {
                  isa::ArriveExpecting(kBarrier, 1040);
                  isa::LoadBox(kData, matrix.map(), 0, 0, 0, kBarrier);
                }
                isa::Wait(kBarrier, 0);
              }),
              Contains(HasSubstr("threads 0-127 wait for barrier 0")));
}

TEST(MachineTest, AStoreNeedsAFenceOfTheWriters) {
  for (const bool fenced : {true, false}) {
    Matrix matrix;
    const auto reports = Reported([&](uint32_t thread) {
      for (uint32_t i = 0; i < 2; ++i) Store(kData + 8 * thread + 4 * i, 7);
      if (fenced) isa::FenceAsyncShared();
      isa::SyncCta();
      if (thread == 0) {
        isa::StoreBox(matrix.map(), 0, 4, 0, kData);
        isa::CommitStores();
        isa::WaitStoresRead();
      }
    });
    if (fenced) {
      EXPECT_THAT(reports, IsEmpty());
      EXPECT_EQ(matrix.line(4)[0], 7);
      EXPECT_EQ(matrix.line(11)[124], 7);
    } else {
      EXPECT_THAT(reports, Contains(HasSubstr("missing proxy fence")));
    }
  }
}

TEST(MachineTest, AWarpThatPartsIsReported) {
  EXPECT_THAT(Reported([](uint32_t thread) {
                if (thread % 2 == 0) {
                  isa::Elect();
                } else {
                  isa::SyncWarp();
                }
              }),
              Contains(HasSubstr("warp diverged")));
}

TEST(MachineTest, OneArrivalTooManyIsReported) {
  Matrix matrix;
  EXPECT_THAT(Reported([&](uint32_t thread) {
                MakeBarrier(thread);
                if (thread == 0) {
                  isa::ArriveExpecting(kBarrier, 16);
                  isa::Arrive(kBarrier);
                }
              }),
              Contains(HasSubstr("arrival too many")));
}

TEST(MachineTest, RegistersThatAreNotThereAreADeadlockThatSaysSo) {
  EXPECT_THAT(Reported(
                  [](uint32_t thread) {
                    if (thread < 128) {
                      isa::GiveRegisters(40);
                    } else {
                      isa::TakeRegisters(240);
                    }
                  },
                  1, 384),
              Contains(HasSubstr("register budget")));
}

TEST(MachineTest, GlobalMemoryEndsWhereItEnds) {
  GlobalBlock block(100);  // Rounded up to 112.
  EXPECT_THAT(Reported([&](uint32_t thread) {
                if (thread == 0) block.data()[111] = 1;
              }),
              IsEmpty());
  EXPECT_THAT(Reported([&](uint32_t thread) {
                if (thread == 0) block.data()[112] = 1;
              }),
              Contains(HasSubstr("outside of global memory")));
}

TEST(MachineTest, OneSeedGivesOneOrder) {
  const auto order = [](uint64_t seed) {
    std::vector<uint32_t> threads;
    Reported(
        [&](uint32_t thread) {
          isa::LaunchDependents();
          threads.push_back(thread);
        },
        seed);
    return threads;
  };
  EXPECT_EQ(order(5), order(5));
  EXPECT_NE(order(5), order(6));
}

}  // namespace
}  // namespace gemmd::emulator
