#include "tests/jit/fake_compiler.h"

#include <elf.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/base/record.h"
#include "jit/base/status.h"
#include "jit/cache/cache_key.h"

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
      absl::StrCat(zero, ".shstrtab", zero, ".strtab", zero, ".symtab", zero,
                   ".nv.info", zero, ".text", zero);
  Elf64_Sym kernel = {};
  kernel.st_name = 1;
  kernel.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  kernel.st_shndx = 5;
  std::string info("\x04\x2f\x08\x00", 4);
  AppendU32(info, 1);  // Index of the symbol.
  AppendU32(info, static_cast<uint32_t>(registers));
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
  return absl::StrCat(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'gemmd_kernel' for 'sm_90a'\n"
      "ptxas info    : Function properties for gemmd_kernel\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes "
      "spill loads\n"
      "ptxas info    : Used ",
      registers, " registers, used 1 barriers, ", shared_memory_bytes,
      " bytes smem\n");
}

CompiledKernel FakeKernel(const std::string& source) {
  CompiledKernel kernel;
  kernel.name = "fake";
  kernel.source = source;
  kernel.options = {"--gpu-architecture=sm_90a", "--std=c++20"};
  kernel.compiler = "fake 1.0";
  kernel.key = CacheKey(kernel.source, kernel.options, kernel.compiler);
  kernel.log = FakeLog();
  kernel.cubin = FakeCubin();
  kernel.registers = 42;
  kernel.static_shared_memory_bytes = 1024;
  kernel.compile_ms = 250;
  kernel.provenance = "test";
  return kernel;
}

TemporaryDirectory::TemporaryDirectory(const std::string& parent) {
  const std::filesystem::path folder =
      parent.empty() ? std::filesystem::temp_directory_path()
                     : std::filesystem::path(parent);
  std::string pattern = folder / "gemmd_test_XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(path_, error)) {
    if (entry.is_directory(error)) {
      std::filesystem::permissions(entry.path(),
                                   std::filesystem::perms::owner_all, error);
    }
  }
  std::filesystem::remove_all(path_, error);
}

}  // namespace gemmd::jit
