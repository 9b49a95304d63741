#include "jit/compile/cubin.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/base/record.h"
#include "jit/base/status.h"
#include "jit/source/instance.h"

namespace gemmd::jit {
namespace {

constexpr uint16_t kMachineCuda = 190;
// From this ABI version on (CUDA 13) the architecture is in bits 8 to 15 of
// e_flags; before, in bits 0 to 7.
constexpr unsigned char kAbiWithShiftedArchitecture = 8;
// Attributes of .nv.info: one byte of format, one of name, then a u16 that is
// the value or, for this format, the length of the value that follows.
constexpr unsigned char kFormatSized = 4;
constexpr unsigned char kRegisterCount = 0x2f;

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("cubin: ", what));
}

// The object of type T at `offset`, or nothing when it is out of bounds.
template <typename T>
std::optional<T> At(absl::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return {};
  T object;
  std::memcpy(&object, bytes.data() + offset, sizeof(T));
  return object;
}

// Up to the next zero byte; empty when out of bounds.
absl::string_view StringAt(absl::string_view table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const absl::string_view rest = table.substr(offset);
  return rest.substr(0, rest.find('\0'));
}

class Elf {
 public:
  static absl::StatusOr<Elf> Parse(absl::string_view bytes) {
    const std::optional<Elf64_Ehdr> header = At<Elf64_Ehdr>(bytes, 0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_machine != kMachineCuda ||
        header->e_shentsize != sizeof(Elf64_Shdr)) {
      return Malformed("not a 64-bit CUDA ELF file");
    }
    Elf elf(bytes, *header);
    for (int i = 0; i < header->e_shnum; ++i) {
      const auto section = At<Elf64_Shdr>(
          bytes, header->e_shoff + uint64_t{sizeof(Elf64_Shdr)} * i);
      if (!section) return Malformed("sections are cut off");
      elf.sections_.push_back(*section);
    }
    if (header->e_shstrndx >= elf.sections_.size()) {
      return Malformed("section names are missing");
    }
    elf.names_ = elf.Content(elf.sections_[header->e_shstrndx]);
    return elf;
  }

  int architecture() const {
    const bool shifted =
        header_.e_ident[EI_ABIVERSION] >= kAbiWithShiftedArchitecture;
    return (shifted ? header_.e_flags >> 8 : header_.e_flags) & 0xff;
  }

  const Elf64_Shdr* Find(absl::string_view name) const {
    for (const Elf64_Shdr& section : sections_) {
      if (StringAt(names_, section.sh_name) == name) return &section;
    }
    return nullptr;
  }

  // Empty for a section without bytes or out of bounds.
  absl::string_view Content(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes_.size() ||
        section.sh_size > bytes_.size() - section.sh_offset) {
      return {};
    }
    return bytes_.substr(section.sh_offset, section.sh_size);
  }

  // Index of the defined function `name`.
  absl::StatusOr<uint32_t> FindFunction(absl::string_view name) const {
    const Elf64_Shdr* const table = Find(".symtab");
    if (table == nullptr || table->sh_link >= sections_.size()) {
      return Malformed("no symbol table");
    }
    const absl::string_view symbols = Content(*table);
    const absl::string_view names = Content(sections_[table->sh_link]);
    for (uint32_t i = 0;; ++i) {
      const auto symbol =
          At<Elf64_Sym>(symbols, uint64_t{sizeof(Elf64_Sym)} * i);
      if (!symbol) break;
      if (StringAt(names, symbol->st_name) == name &&
          ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
          symbol->st_shndx != SHN_UNDEF) {
        return i;
      }
    }
    return Malformed(absl::StrCat("no kernel ", name));
  }

 private:
  Elf(absl::string_view bytes, const Elf64_Ehdr& header)
      : bytes_(bytes), header_(header) {}

  absl::string_view bytes_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
  absl::string_view names_;
};

absl::StatusOr<int> ReadRegisters(absl::string_view info, uint32_t function) {
  while (info.size() >= 4) {
    const auto format = static_cast<unsigned char>(info[0]);
    const auto name = static_cast<unsigned char>(info[1]);
    const uint16_t length = *At<uint16_t>(info, 2);
    info.remove_prefix(4);
    if (format != kFormatSized) continue;
    if (length > info.size()) break;
    absl::string_view value = info.substr(0, length);
    info.remove_prefix(length);
    uint32_t index = 0, count = 0;
    if (name == kRegisterCount && TakeU32(value, index) && index == function &&
        TakeU32(value, count) && count <= 255) {
      return static_cast<int>(count);
    }
  }
  return Malformed("no register count");
}

}  // namespace

absl::StatusOr<CubinFacts> ReadCubin(absl::string_view cubin) {
  ASSIGN_OR_RETURN(const Elf elf, Elf::Parse(cubin));
  CubinFacts facts;
  facts.architecture = elf.architecture();
  ASSIGN_OR_RETURN(const uint32_t function, elf.FindFunction(kKernelSymbol));
  const Elf64_Shdr* const info = elf.Find(".nv.info");
  if (info == nullptr) return Malformed("no .nv.info section");
  ASSIGN_OR_RETURN(facts.registers,
                   ReadRegisters(elf.Content(*info), function));
  return facts;
}

absl::Status CheckCubin(const CompiledKernel& kernel) {
  ASSIGN_OR_RETURN(const CubinFacts facts, ReadCubin(kernel.cubin));
  if (facts.architecture != 90) {
    return Malformed(absl::StrCat("compiled for sm_", facts.architecture,
                                  " instead of sm_90a"));
  }
  if (facts.registers != kernel.registers) {
    return Malformed(absl::StrCat("uses ", facts.registers,
                                  " registers instead of ", kernel.registers));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::jit
