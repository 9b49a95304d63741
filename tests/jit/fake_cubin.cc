#include "tests/jit/fake_cubin.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace gemmd::jit {
namespace {

template <typename T>
std::string BytesOf(const T& object) {
  return std::string(reinterpret_cast<const char*>(&object), sizeof(object));
}

}  // namespace

std::string FakeCubin(int registers, int architecture,
                      const std::string& symbol) {
  const std::string zero(1, '\0');
  const std::string names =
      zero + ".shstrtab" + zero + ".strtab" + zero + ".symtab" + zero +
      ".nv.info" + zero + ".text" + zero;
  Elf64_Sym kernel = {};
  kernel.st_name = 1;
  kernel.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  kernel.st_shndx = 5;
  std::string info("\x04\x2f\x08\x00", 4);
  info += BytesOf(uint32_t{1});  // Index of the symbol.
  info += BytesOf(static_cast<uint32_t>(registers));
  struct Section {
    const char* name;
    uint32_t type;
    std::string content;
  };
  const std::vector<Section> sections = {
      {"", SHT_NULL, ""},
      {".shstrtab", SHT_STRTAB, names},
      {".strtab", SHT_STRTAB, zero + symbol + zero},
      {".symtab", SHT_SYMTAB, BytesOf(Elf64_Sym{}) + BytesOf(kernel)},
      {".nv.info", 0x70000000, info},
      {".text", SHT_PROGBITS, "instructions"},
  };

  std::string headers, contents;
  for (const Section& section : sections) {
    Elf64_Shdr header = {};
    header.sh_name = static_cast<uint32_t>(names.find(section.name));
    header.sh_type = section.type;
    header.sh_offset = sizeof(Elf64_Ehdr) + contents.size();
    header.sh_size = section.content.size();
    header.sh_link = 2;
    headers += BytesOf(header);
    contents += section.content;
  }
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_machine = 190;
  header.e_flags = static_cast<uint32_t>(architecture) << 8;
  header.e_shoff = sizeof(Elf64_Ehdr) + contents.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shstrndx = 1;
  return BytesOf(header) + contents + headers;
}

std::string FakeLog(int registers, int shared_memory_bytes) {
  return "ptxas info    : 0 bytes gmem\n"
         "ptxas info    : Compiling entry function 'gemmd_kernel' for "
         "'sm_90a'\n"
         "ptxas info    : Function properties for gemmd_kernel\n"
         "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 "
         "bytes spill loads\n"
         "ptxas info    : Used " +
         std::to_string(registers) + " registers, used 1 barriers, " +
         std::to_string(shared_memory_bytes) + " bytes smem\n";
}

}  // namespace gemmd::jit
