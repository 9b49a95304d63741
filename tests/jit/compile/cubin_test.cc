#include "jit/compile/cubin.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

TEST(CubinTest, ReadsWhatItSays) {
  const auto facts = ReadCubin(FakeCubin(168, 90));
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->architecture, 90);
  EXPECT_EQ(facts->registers, 168);
}

TEST(CubinTest, ReadsTheArchitectureAsOlderToolkitsWriteIt) {
  std::string cubin = FakeCubin();
  cubin[8] = 7;    // EI_ABIVERSION.
  cubin[48] = 90;  // e_flags, lowest byte.
  cubin[49] = 5;
  EXPECT_EQ(ReadCubin(cubin)->architecture, 90);
}

TEST(CubinTest, RefusesOneWithoutTheKernel) {
  EXPECT_TRUE(absl::IsDataLoss(ReadCubin(FakeCubin(42, 90, "other")).status()));
}

TEST(CubinTest, RefusesOneOfAnotherArchitecture) {
  CompiledKernel kernel = FakeKernel("source");
  EXPECT_TRUE(CheckCubin(kernel).ok());
  kernel.cubin = FakeCubin(42, 80);
  EXPECT_TRUE(absl::IsDataLoss(CheckCubin(kernel)));
}

// The object of type T at `offset`, as `edit` leaves it.
template <typename T>
std::string With(std::string cubin, size_t offset,
                 const std::function<void(T&)>& edit) {
  T object;
  std::memcpy(&object, cubin.data() + offset, sizeof(T));
  edit(object);
  std::memcpy(cubin.data() + offset, &object, sizeof(T));
  return cubin;
}

void ExpectRefused(const std::string& cubin, const std::string& why) {
  const absl::Status status = ReadCubin(cubin).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << why;
  EXPECT_TRUE(absl::StrContains(status.message(), why)) << status;
}

// What lies where is as whoever made the file says.
TEST(CubinTest, RefusesWhatPointsElsewhere) {
  const std::string cubin = FakeCubin();
  const auto header = [&](const std::function<void(Elf64_Ehdr&)>& edit) {
    return With<Elf64_Ehdr>(cubin, 0, edit);
  };
  Elf64_Ehdr facts;
  std::memcpy(&facts, cubin.data(), sizeof(facts));
  const std::string other = "not a 64-bit CUDA ELF file";
  ExpectRefused(header([](auto& h) { h.e_ident[EI_CLASS] = ELFCLASS32; }),
                other);
  ExpectRefused(header([](auto& h) { h.e_machine = EM_X86_64; }), other);
  for (const uint64_t back : {1, 64, 65}) {
    ExpectRefused(header([&](auto& h) { h.e_shoff = uint64_t{0} - back; }),
                  "sections are cut off");
  }
  ExpectRefused(header([](auto& h) { h.e_shstrndx = h.e_shnum; }),
                "section names are missing");

  const auto section = [&](int i,
                           const std::function<void(Elf64_Shdr&)>& edit) {
    return With<Elf64_Shdr>(cubin, facts.e_shoff + sizeof(Elf64_Shdr) * i,
                            edit);
  };
  constexpr int kSymbols = 3, kInfo = 4;
  ExpectRefused(section(kSymbols, [&](auto& s) { s.sh_link = facts.e_shnum; }),
                "no symbol table");
  ExpectRefused(section(kSymbols, [](auto& s) { s.sh_type = SHT_NOBITS; }),
                "no kernel");
  ExpectRefused(section(kInfo, [](auto& s) { s.sh_size = ~uint64_t{0}; }),
                "no register count");

  Elf64_Shdr table, info;
  const char* const sections = cubin.data() + facts.e_shoff;
  std::memcpy(&table, sections + sizeof(table) * kSymbols, sizeof(table));
  std::memcpy(&info, sections + sizeof(info) * kInfo, sizeof(info));
  const auto symbol = [&](const std::function<void(Elf64_Sym&)>& edit) {
    return With<Elf64_Sym>(cubin, table.sh_offset + sizeof(Elf64_Sym), edit);
  };
  ExpectRefused(symbol([](auto& s) { s.st_shndx = SHN_UNDEF; }), "no kernel");
  ExpectRefused(symbol([](auto& s) { s.st_info = STT_OBJECT; }), "no kernel");
  // Registers of another function, and more than there are.
  const auto number = [&](size_t at, uint32_t value) {
    return With<uint32_t>(cubin, info.sh_offset + at,
                          [&](uint32_t& n) { n = value; });
  };
  ExpectRefused(number(4, 2), "no register count");
  ExpectRefused(number(8, 256), "no register count");
}

TEST(CubinTest, SurvivesEveryTruncationAndGarbage) {
  const std::string cubin = FakeCubin();
  for (size_t length = 0; length < cubin.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(ReadCubin(cubin.substr(0, length)).status()));
  }
  std::mt19937 random(5);
  for (int round = 0; round < 50000; ++round) {
    std::string damaged = cubin;
    for (int flips = 0; flips < 3; ++flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    ReadCubin(damaged).status().IgnoreError();
  }
}

}  // namespace
}  // namespace gemmd::jit
