#include "tests/emulator/machine/warpgroup.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/emulator/machine/operand.h"
#include "tests/emulator/machine/tensor_core.h"

namespace gemmd::emulator {
namespace {

std::string Who(const Actor& actor) {
  return "thread " + std::to_string(actor.thread);
}

constexpr int kXLineBytes = 32;

int YLineBytes(const Wgmma& wgmma) {
  return wgmma.sparse ? 2 * kXLineBytes : kXLineBytes;
}

Operand XOf(const Wgmma& wgmma, uint64_t descriptor) {
  return Operand("X", descriptor, wgmma.x, {kWgmmaRows, kXLineBytes},
                 wgmma.x_mn_major);
}

Operand YOf(const Wgmma& wgmma, uint64_t descriptor) {
  return Operand("Y", descriptor, wgmma.y, {wgmma.columns, YLineBytes(wgmma)},
                 wgmma.y_mn_major);
}

// Four bits of metadata: which chunk of which row they describe comes from the
// place of the word. PTX ISA, figures of "Matrix Fragments for
// wgmma.mma_async.sp".
uint32_t PatternOf(const Wgmma& wgmma, int selector,
                   const std::array<Given, Warpgroup::kLanes>& given, int row,
                   int chunk) {
  const int warp = row / 16;
  const int quad = row % 8;
  const bool lower = row % 16 >= 8;
  if (BitsOf(wgmma.x) == 8) {
    const int lane = 32 * warp + 4 * quad + chunk / 8 * 2 + (lower ? 1 : 0);
    return given[static_cast<size_t>(lane)].words[0] >> chunk % 8 * 4 & 0xf;
  }
  const int lane = 32 * warp + 4 * quad + 2 * selector + chunk / 4;
  return given[static_cast<size_t>(lane)].words[0] >>
             ((lower ? 16 : 0) + chunk % 4 * 4) &
         0xf;
}

// Lines of 32 bytes as numbers.
std::vector<Parts> Unpack(const std::vector<unsigned char>& bytes,
                          Number number) {
  const auto size = static_cast<size_t>(BitsOf(number) / 8);
  std::vector<Parts> parts;
  for (size_t at = 0; at < bytes.size(); at += size) {
    uint32_t bits = 0;
    for (size_t i = 0; i < size; ++i) bits |= uint32_t{bytes[at + i]} << 8 * i;
    parts.push_back(PartsOf(number, bits));
  }
  return parts;
}

}  // namespace

Warpgroup::Accumulator& Warpgroup::AccumulatorAt(size_t number) {
  for (Accumulator& accumulator : accumulators_) {
    if (accumulator.number == number) return accumulator;
  }
  // At most so many are in flight at once.
  constexpr size_t kMost = 16;
  if (accumulators_.size() == kMost) accumulators_.pop_front();
  accumulators_.push_back({number, {}});
  return accumulators_.back();
}

// The registers as sums in flight: what they hold moves to the tensor core.
Warpgroup::Bound& Warpgroup::Bind(Lane& lane, size_t index, const Wgmma& wgmma,
                                  uint32_t* registers) {
  const auto count = static_cast<size_t>(wgmma.registers());
  for (Bound& bound : lane.bound) {
    if (bound.registers == registers) return bound;
  }
  const size_t number = lane.accumulators++;
  AccumulatorAt(number).values[index].assign(registers, registers + count);
  std::fill(registers, registers + count, PoisonOf(wgmma.sum));
  lane.bound.push_back({registers, number, 0});
  return lane.bound.back();
}

void Warpgroup::Issue(const Actor& actor, const Wgmma& wgmma,
                      uint32_t* registers, const Operands& operands,
                      const Given& given) {
  Lane& lane = LaneOf(actor);
  if ((wgmma.sparse || wgmma.x_in_registers) &&
      !lane.issued_at_commit.empty() &&
      lane.issued_at_commit.back() > lane.ended) {
    reports_.Add(wgmma.sparse ? "metadata touched in flight"
                              : "fragments touched in flight",
                 Who(actor) +
                     " issues wgmma while a group is in flight, whose registers"
                     " of metadata or of X it may have overwritten");
  }
  if (!lane.fenced) {
    reports_.Add("missing wgmma fence",
                 Who(actor) +
                     " issues wgmma with no wgmma.fence since its"
                     " registers were last accessible");
  }
  const size_t at = lane.issued - executed_;
  Bound& bound =
      Bind(lane, static_cast<size_t>(actor.thread % kLanes), wgmma, registers);
  bound.last_instruction = lane.issued++;
  if (at == instructions_.size()) {
    instructions_.push_back(
        {wgmma, operands, given.selector, bound.accumulator, 0, {}});
  }
  Instruction& instruction = instructions_[at];
  instruction.given[static_cast<size_t>(actor.thread % kLanes)] = given;
  if (instruction.operands != operands ||
      instruction.selector != given.selector ||
      instruction.accumulator != bound.accumulator) {
    reports_.Add("warpgroup diverged",
                 Who(actor) + " issues another wgmma than its warpgroup");
  }
  if (actor.thread % 32 == 0) CheckOperands(actor, instruction);
  if (++instruction.arrived == kLanes) {
    scheduler_.Later([this] { ExecuteNext(); });
  }
}

void Warpgroup::CheckOperands(const Actor& actor,
                              const Instruction& instruction) {
  const Lane& lane = LaneOf(actor);
  const Operand x = XOf(instruction.wgmma, instruction.operands.x);
  const Operand y = YOf(instruction.wgmma, instruction.operands.y);
  if (!y.Check(memory_, reports_)) return;
  const SharedMemory::AsyncRead read = {
      "wgmma", number_,
      static_cast<uint32_t>(lane.issued_at_commit.size() + 1)};
  y.IssueReads(actor, memory_, read);
  if (instruction.wgmma.x_in_registers || !x.Check(memory_, reports_)) return;
  x.IssueReads(actor, memory_, read);
  if (actor.thread % kLanes != 0) return;
  const int stored = x.FirstK(memory_, reports_);
  const int x_k = instruction.wgmma.sparse && stored > 0 ? 2 * stored : stored;
  const int y_k = y.FirstK(memory_, reports_);
  if (x_k >= 0 && y_k >= 0 && x_k != y_k) {
    reports_.Add("operands at different k",
                 Who(actor) + " multiplies X at k " + std::to_string(x_k) +
                     " with Y at k " + std::to_string(y_k));
  }
}

void Warpgroup::Commit(const Actor& actor) {
  Lane& lane = LaneOf(actor);
  lane.issued_at_commit.push_back(lane.issued);
}

void Warpgroup::Wait(Actor& actor, int pending) {
  Lane& lane = LaneOf(actor);
  lane.fenced = false;
  const size_t groups = lane.issued_at_commit.size();
  const size_t completed = groups - std::min<size_t>(groups, pending);
  const size_t wanted =
      completed == 0 ? 0 : lane.issued_at_commit[completed - 1];
  while (executed_ < wanted) {
    scheduler_.Wait(waiters_, [&] {
      return "for wgmma " + std::to_string(executed_) + " of warpgroup " +
             std::to_string(number_) + ", issued by " +
             std::to_string(instructions_.front().arrived) + " of " +
             std::to_string(kLanes) + " threads";
    });
  }
  lane.ended = std::max(lane.ended, wanted);
  uint32_t& seen =
      actor.knowledge.seen[static_cast<size_t>(kFirstReader + number_)];
  seen = std::max(seen, static_cast<uint32_t>(completed));
  Deliver(actor, lane, wanted);
}

// Sums of which all instructions below `completed` were the last ones.
void Warpgroup::Deliver(const Actor& actor, Lane& lane, size_t completed) {
  std::erase_if(lane.bound, [&](const Bound& bound) {
    if (bound.last_instruction >= completed) return false;
    const std::vector<uint32_t>& values =
        AccumulatorAt(bound.accumulator)
            .values[static_cast<size_t>(actor.thread % kLanes)];
    for (size_t i = 0; i < values.size(); ++i) {
      if (bound.registers[i] != PoisonOf(Number::kF32) &&
          bound.registers[i] != PoisonOf(Number::kF16) &&
          bound.registers[i] != PoisonOf(Number::kS32)) {
        reports_.Add("sums touched in flight",
                     Who(actor) + " wrote register " + std::to_string(i) +
                         " of sums before their wgmma was waited for");
      }
      bound.registers[i] = values[i];
    }
    return true;
  });
}

// Lines of a sparse X with zeros where nothing is stored.
std::vector<unsigned char> Warpgroup::ExpandedX(
    const Instruction& instruction, const std::vector<unsigned char>& x) {
  const Wgmma& wgmma = instruction.wgmma;
  const int bytes = BitsOf(wgmma.x) / 8;
  const int chunk_size = wgmma.x == Number::kTf32 ? 2 : 4;
  const int chunks = wgmma.depth() / chunk_size;
  std::vector<unsigned char> expanded(2 * x.size());
  for (int row = 0; row < kWgmmaRows; ++row) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const uint32_t pattern =
          PatternOf(wgmma, instruction.selector, instruction.given, row, chunk);
      const uint32_t first = pattern & 3, second = pattern >> 2;
      if (chunk_size == 2 ? pattern != 0x4 && pattern != 0xe
                          : first >= second) {
        reports_.Add("metadata without meaning",
                     "the bits of row " + std::to_string(row) + ", chunk " +
                         std::to_string(chunk) + " are " +
                         std::to_string(pattern));
        continue;
      }
      const auto put = [&](int value, uint32_t place) {
        const int to = row * wgmma.depth() + chunk * chunk_size;
        std::copy_n(&x[static_cast<size_t>(row * kXLineBytes + value * bytes)],
                    bytes,
                    &expanded[static_cast<size_t>(to * bytes) +
                              place * static_cast<size_t>(bytes)]);
      };
      if (chunk_size == 2) {
        put(chunk, pattern == 0xe ? 1 : 0);
      } else {
        put(2 * chunk, first);
        put(2 * chunk + 1, second);
      }
    }
  }
  return expanded;
}

// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16".
std::vector<unsigned char> Warpgroup::XBytes(
    const Instruction& instruction) const {
  if (!instruction.wgmma.x_in_registers) {
    return XOf(instruction.wgmma, instruction.operands.x).Fetch(memory_);
  }
  std::vector<unsigned char> bytes(kWgmmaRows * kXLineBytes);
  for (int thread = 0; thread < kLanes; ++thread) {
    for (int i = 0; i < 4; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
      const int k = thread % 4 * 2 + i / 2 * 8;
      std::memcpy(&bytes[static_cast<size_t>(row * kXLineBytes + 2 * k)],
                  &instruction.given[static_cast<size_t>(thread)].words[i], 4);
    }
  }
  return bytes;
}

void Warpgroup::ExecuteNext() {
  const Instruction instruction = instructions_.front();
  instructions_.pop_front();
  ++executed_;
  const Wgmma& wgmma = instruction.wgmma;
  auto& values = AccumulatorAt(instruction.accumulator).values;
  auto x = XBytes(instruction);
  if (wgmma.sparse) x = ExpandedX(instruction, x);
  const auto y = YOf(wgmma, instruction.operands.y).Fetch(memory_);
  const int line_bytes = YLineBytes(wgmma);
  const bool integers = wgmma.sum == Number::kS32;
  const std::vector<Parts> x_parts =
      integers ? std::vector<Parts>() : Unpack(x, wgmma.x);
  const std::vector<Parts> y_parts =
      integers ? std::vector<Parts>() : Unpack(y, wgmma.y);
  for (int row = 0; row < kWgmmaRows; ++row) {
    for (int column = 0; column < wgmma.columns; ++column) {
      // PTX ISA, "Accumulator D".
      const int lane = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      const int element = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
      const bool pairs = wgmma.sum == Number::kF16;
      uint32_t& all =
          values[static_cast<size_t>(lane)]
                [static_cast<size_t>(pairs ? element / 2 : element)];
      const int shift = pairs ? element % 2 * 16 : 0;
      const uint32_t mask = (pairs ? 0xffffu : ~0u) << shift;
      const uint32_t old = instruction.operands.accumulates ? (all & mask) >> shift : 0;
      const uint32_t sum =
          integers ? AddIntegerProducts(wgmma, &x[row * line_bytes],
                                        &y[column * line_bytes], old)
                   : AddProducts(wgmma, &x_parts[row * wgmma.depth()],
                                 &y_parts[column * wgmma.depth()], old);
      all = (all & ~mask) | sum << shift;
    }
  }
  scheduler_.Wake(waiters_);
}

void Warpgroup::CheckEnd(const Actor& actor) {
  const Lane& lane = LaneOf(actor);
  if (lane.bound.empty()) return;
  reports_.Add("wgmma never waited for",
               Who(actor) + " ends with sums in flight");
}

}  // namespace gemmd::emulator
