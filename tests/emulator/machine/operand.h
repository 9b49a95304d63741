// A matrix of wgmma in shared memory, by its descriptor: start, leading and
// stride byte offsets, base offset and swizzle. PTX ISA, "Matrix Descriptor
// Format", "Shared Memory Matrix Layout". Thread-compatible.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_OPERAND_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_OPERAND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulator/machine/instruction.h"
#include "tests/emulator/machine/reports.h"
#include "tests/emulator/machine/shared_memory.h"

namespace gemmd::emulator {

class Operand {
 public:
  // What an instruction multiplies of an operand.
  struct Extent {
    int lines;       // Along m or n.
    int line_bytes;  // Along k.
  };

  // 16 bytes of lines follow each other in memory where the operand is mn-major.
  Operand(const char* name, uint64_t descriptor, Number number, Extent extent,
          bool mn_major);

  // Reports a descriptor that has no meaning, or that leaves shared memory;
  // false then.
  bool Check(SharedMemory& memory, Reports& reports) const;
  // Notes the reads of the instruction on behalf of `actor`.
  void IssueReads(const Actor& actor, SharedMemory& memory,
                  const SharedMemory::AsyncRead& read) const;
  // Where k begins in the matrix that the copy engine brought, after checking
  // that the descriptor finds lines and k in the order in which they came; -1
  // where that cannot be told.
  int FirstK(const SharedMemory& memory, Reports& reports) const;
  // Lines along k, as shared memory holds them now.
  std::vector<unsigned char> Fetch(SharedMemory& memory) const;

  std::string Describe() const;

 private:
  // Calls visit(address, line, k) for every 16 bytes: `k` in bytes of a line
  // where k is contiguous, else in elements.
  template <typename Visit>
  void ForChunks(const Visit& visit) const;
  uint32_t Swizzle(uint32_t address) const;

  const char* name_;
  Number number_;
  int lines_;
  int line_bytes_;
  bool mn_major_;
  uint32_t start_;
  uint32_t leading_;
  uint32_t stride_;
  uint32_t base_offset_;
  int swizzle_bytes_;  // 0, 32, 64 or 128.
  bool reserved_bits_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_OPERAND_H_
