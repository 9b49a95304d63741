#include "tests/jit/source/kernel_test.h"

#include <compare>
#include <cstdint>
#include <cstring>
#include <map>
#include <ostream>
#include <string>

#include "absl/time/clock.h"
#include "jit/compile/compile_log.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/source/instance.h"

namespace gemmd::jit {
namespace {

using enum DataType;

// Low nine bits of the machine instructions that a wgmma becomes.
enum Opcode : int { kHgmma = 0x1f0, kIgmma, kBgmma, kQgmma };

Opcode OpcodeOf(const Instruction& instruction) {
  if (instruction.x == kB1) return kBgmma;
  if (instruction.accumulator == kS32) return kIgmma;
  return IsFp8(instruction.x) ? kQgmma : kHgmma;
}

// Bits of their 16 bytes, as nvdisasm 13 reads them: X comes from registers
// ("R88" in the place of "gdesc[UR16]"); half of X is left out ("HGMMA.SP").
constexpr uint16_t kXFromRegisters = 1 << 10;  // Of the first eight bytes.
constexpr uint64_t kSparse = 1 << 9;           // Of the other eight.

struct Multiply {
  int opcode;
  bool x_from_registers;
  bool sparse;

  friend auto operator<=>(const Multiply&, const Multiply&) = default;
};

void PrintTo(const Multiply& multiply, std::ostream* out) {
  *out << "opcode " << multiply.opcode
       << (multiply.x_from_registers ? ", X from registers"
                                     : ", X by descriptor")
       << (multiply.sparse ? ", sparse" : ", dense");
}

Multiply ExpectedOf(const Family& family) {
  return {OpcodeOf(family.instruction), family.widening.has_value(),
          family.instruction.sparse};
}

template <typename T>
T At(const std::string& bytes, size_t offset) {
  T value = 0;
  if (offset + sizeof(T) <= bytes.size()) {
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
  }
  return value;
}

// How often each of them occurs in the kernel: instructions are 16 bytes long.
std::map<Multiply, int> TensorInstructions(const std::string& cubin) {
  std::map<Multiply, int> found;
  const auto sections = At<uint64_t>(cubin, 0x28);
  const size_t count = At<uint16_t>(cubin, 0x3c);
  const auto header = [&](size_t i) { return sections + i * 64; };
  const auto names =
      At<uint64_t>(cubin, header(At<uint16_t>(cubin, 0x3e)) + 0x18);
  for (size_t i = 0; i < count; ++i) {
    const std::string name =
        cubin.c_str() + names + At<uint32_t>(cubin, header(i));
    if (name != ".text.gemmd_kernel") continue;
    const auto begin = At<uint64_t>(cubin, header(i) + 0x18);
    const auto size = At<uint64_t>(cubin, header(i) + 0x20);
    for (uint64_t at = begin; at < begin + size; at += 16) {
      const auto first = At<uint16_t>(cubin, at);
      const int opcode = first & 0x1ff;
      if (opcode < kHgmma || opcode > kQgmma) continue;
      ++found[{opcode, (first & kXFromRegisters) != 0,
               (At<uint64_t>(cubin, at + 8) & kSparse) != 0}];
    }
  }
  return found;
}

}  // namespace

void KernelTest::SetUp() {
  auto compiler = CreateNvrtcCompiler({.nvrtc_path = GEMMD_TEST_NVRTC});
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  compiler_ = *std::move(compiler);
}

void KernelTest::ExpectGood(const Family& family, const Config& config) {
  if (!seen_.insert(KernelName(family, config)).second) return;
  const absl::StatusOr<Instance> instance =
      MakeInstance(TemplateLibrary::Embedded(), family, config);
  ASSERT_TRUE(instance.ok()) << instance.status();
  const auto output =
      compiler_->Compile(*instance, absl::Now() + absl::Minutes(5));
  ASSERT_TRUE(output.ok()) << instance->name << ": " << output.status();
  const absl::StatusOr<KernelResources> resources = ReadCompileLog(output->log);
  EXPECT_TRUE(resources.ok())
      << instance->name << ": " << resources.status() << output->log;
  const std::map<Multiply, int> found = TensorInstructions(output->cubin);
  ASSERT_EQ(found.size(), 1u) << instance->name;
  EXPECT_EQ(found.begin()->first, ExpectedOf(family)) << instance->name;
  // Four along k for every block of 64 rows, two where each takes 64 bytes.
  EXPECT_EQ(found.begin()->second % (family.instruction.sparse ? 2 : 4), 0)
      << instance->name;
}

}  // namespace gemmd::jit
