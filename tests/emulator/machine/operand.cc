#include "tests/emulator/machine/operand.h"

#include <cstring>

namespace gemmd::emulator {
namespace {

constexpr uint32_t kChunk = 16;
constexpr int kSwizzles[] = {0, 128, 64, 32};  // By the descriptor's code.
// Bits that carry no field.
constexpr uint64_t kReserved =
    0x3ull << 14 | 0x3ull << 30 | 0x7ull << 46 | 0x3ffull << 52;

// "Matrix-descriptor-encode" undone.
uint32_t Field(uint64_t descriptor, int bit) {
  return static_cast<uint32_t>(descriptor >> bit & 0x3fff) << 4;
}

}  // namespace

Operand::Operand(const char* name, uint64_t descriptor, Number number,
                 Extent extent, bool mn_major)
    : name_(name),
      number_(number),
      lines_(extent.lines),
      line_bytes_(extent.line_bytes),
      mn_major_(mn_major),
      start_(Field(descriptor, 0)),
      leading_(Field(descriptor, 16)),
      stride_(Field(descriptor, 32)),
      base_offset_(static_cast<uint32_t>(descriptor >> 49 & 7)),
      swizzle_bytes_(kSwizzles[descriptor >> 62]),
      reserved_bits_((descriptor & kReserved) != 0) {}

std::string Operand::Describe() const {
  return std::string("descriptor of ") + name_ + " (start " +
         std::to_string(start_) + ", leading offset " +
         std::to_string(leading_) + ", stride offset " +
         std::to_string(stride_) + ", swizzle " +
         std::to_string(swizzle_bytes_) + ")";
}

uint32_t Operand::Swizzle(uint32_t address) const {
  if (swizzle_bytes_ == 0) return address;
  const auto mask = static_cast<uint32_t>(swizzle_bytes_ / 16 - 1);
  return address ^ (((address >> 7) - base_offset_) & mask) << 4;
}

template <typename Visit>
void Operand::ForChunks(const Visit& visit) const {
  // Bytes from one of eight lines of an atom to the next.
  const uint32_t pitch = swizzle_bytes_ == 0 ? kChunk : swizzle_bytes_;
  if (!mn_major_) {
    const uint32_t next = swizzle_bytes_ == 0 ? leading_ : kChunk;
    for (uint32_t line = 0; line < static_cast<uint32_t>(lines_); ++line) {
      for (uint32_t k = 0; k < static_cast<uint32_t>(line_bytes_) / kChunk;
           ++k) {
        visit(
            Swizzle(start_ + line / 8 * stride_ + line % 8 * pitch + k * next),
            static_cast<int>(line), static_cast<int>(k * kChunk));
      }
    }
    return;
  }
  const uint32_t per_atom = pitch / kChunk;
  const uint32_t to_atom = swizzle_bytes_ == 0 ? stride_ : leading_;
  const uint32_t to_eight = swizzle_bytes_ == 0 ? leading_ : stride_;
  const auto elements = static_cast<uint32_t>(128 / BitsOf(number_));
  const auto depth = static_cast<uint32_t>(8 * line_bytes_ / BitsOf(number_));
  for (uint32_t chunk = 0; chunk < static_cast<uint32_t>(lines_) / elements;
       ++chunk) {
    for (uint32_t k = 0; k < depth; ++k) {
      visit(
          Swizzle(start_ + chunk / per_atom * to_atom +
                  chunk % per_atom * kChunk + k / 8 * to_eight + k % 8 * pitch),
          static_cast<int>(chunk * elements), static_cast<int>(k));
    }
  }
}

bool Operand::Check(SharedMemory& memory, Reports& reports) const {
  if (reserved_bits_) {
    reports.Add("descriptor without meaning",
                Describe() + " has bits between its fields");
  }
  if (mn_major_ && BitsOf(number_) != 16) {
    reports.Add("descriptor without meaning",
                Describe() + ": only 16-bit operands may be mn-major");
    return false;
  }
  bool inside = true;
  ForChunks([&](uint32_t address, int, int) {
    inside = inside && memory.Contains(address, kChunk, "a read of wgmma");
  });
  return inside;
}

void Operand::IssueReads(const Actor& actor, SharedMemory& memory,
                         const SharedMemory::AsyncRead& read) const {
  // What is in lines that no matrix has is multiplied, too: were it written to
  // D, that would be wrong.
  std::vector<bool> brought(static_cast<size_t>(lines_));
  ForChunks([&](uint32_t address, int line, int) {
    if (!memory.IsUnwritten(address)) brought[static_cast<size_t>(line)] = true;
  });
  ForChunks([&](uint32_t address, int line, int) {
    if (brought[static_cast<size_t>(line)]) {
      memory.IssueRead(actor, address, read);
    }
  });
}

int Operand::FirstK(const SharedMemory& memory, Reports& reports) const {
  Origin first;
  bool found = false, consistent = true;
  ForChunks([&](uint32_t address, int line, int k) {
    if (memory.IsUnwritten(address)) return;  // See IssueReads.
    Origin origin = memory.OriginOf(address);
    // Where the first element of the operand would be.
    const int elements = number_ == Number::kB1 ? 1 : BitsOf(number_) / 8;
    origin.x -= mn_major_ ? line : k / elements;
    origin.y -= mn_major_ ? k : line;
    if (!found) first = origin;
    found = true;
    if (origin.map == first.map && origin.x == first.x && origin.y == first.y &&
        origin.z == first.z) {
      return;
    }
    if (consistent) {
      reports.Add("descriptor disagrees with the copy engine",
                  Describe() + ": its line " + std::to_string(line) + ", k " +
                      std::to_string(k) + " is where the box of (" +
                      std::to_string(origin.x) + ", " +
                      std::to_string(origin.y) + ") put it, its first where" +
                      " that of (" + std::to_string(first.x) + ", " +
                      std::to_string(first.y) +
                      ") did: another swizzle, stride or step");
    }
    consistent = false;
  });
  if (!consistent || first.map == nullptr) return -1;
  return mn_major_ ? first.y : first.x;
}

std::vector<unsigned char> Operand::Fetch(SharedMemory& memory) const {
  std::vector<unsigned char> lines(static_cast<size_t>(lines_ * line_bytes_));
  const int bytes = BitsOf(number_) / 8;
  ForChunks([&](uint32_t address, int line, int k) {
    const unsigned char* chunk = memory.At(address);
    if (!mn_major_) {
      std::memcpy(&lines[static_cast<size_t>(line * line_bytes_ + k)], chunk,
                  kChunk);
      return;
    }
    for (int i = 0; i * bytes < static_cast<int>(kChunk); ++i) {
      std::memcpy(
          &lines[static_cast<size_t>((line + i) * line_bytes_ + k * bytes)],
          chunk + i * bytes, static_cast<size_t>(bytes));
    }
  });
  return lines;
}

}  // namespace gemmd::emulator
