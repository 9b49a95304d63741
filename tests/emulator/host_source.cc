#include "tests/emulator/host_source.h"

#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "jit/base/status.h"
#include "jit/source/embedded_templates.h"
#include "jit/source/instance.h"
#include "jit/source/template_library.h"
#include "jit/source/wgmma_source.h"

namespace gemmd::emulator {
namespace {

constexpr char kIsa[] = "#include <tests/emulator/machine/isa.h>\n";

// Templates that only include the real ones.
absl::StatusOr<jit::TemplateLibrary> Includes() {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() /
                          absl::StrCat("gemmd-emulator-includes-", getpid());
  for (int i = 0; i < jit::kEmbeddedTemplateCount; ++i) {
    const std::string path = jit::kEmbeddedTemplates[i].path;
    fs::create_directories((folder / path).parent_path());
    std::ofstream(folder / path) << "#include <" << path << ">\n";
  }
  auto library = jit::TemplateLibrary::FromDirectory(folder.string());
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return library;
}

// "Number::kBf16" of jit's "bf16".
std::string NumberOf(jit::DataType type, bool operand) {
  if (operand && type == jit::DataType::kF32) return "Number::kTf32";
  std::string name(jit::Name(type));
  name[0] = static_cast<char>(std::toupper(name[0]));
  return absl::StrCat("Number::k", name);
}

std::string TextOf(const jit::Instance& instance) {
  return absl::StrCat("// ", instance.name, "\n", kIsa, instance.source.text());
}

// `struct Wgmma` as templates/ptx/wgmma.h describes it.
std::string EmulatedWgmma(const jit::Family& family, int n) {
  const jit::Instruction& instruction = family.instruction;
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  const absl::string_view type =
      instruction.accumulator == jit::DataType::kF16   ? "uint32"
      : instruction.accumulator == jit::DataType::kS32 ? "int"
                                                       : "float";
  return absl::StrCat(
      "struct Wgmma {\n  using Register = ", type, ";\n",
      "  using Number = emulator::Number;\n",
      "  static constexpr emulator::Wgmma kForm = {",
      NumberOf(instruction.x, true), ", ", NumberOf(instruction.y, true), ", ",
      NumberOf(instruction.accumulator, false), ", ", flag(instruction.clamps),
      ", ", n, ", ", flag(family.x_major == jit::Major::kMn), ", ",
      flag(family.y_major == jit::Major::kMn), ", ", flag(instruction.sparse),
      ", ", flag(family.widening.has_value()), "};\n",
      "  static constexpr int kRegisters = kForm.registers();\n",
      instruction.sparse
          ? "  template <int kSelector>\n"
            "  static void Issue(Register (&d)[kRegisters], uint64 x, uint64 y,"
            "\n                    int metadata, int accumulate) {\n"
            "    emulator::isa::IssueWgmma(\n"
            "        kForm, d, x, y, {{uint32(metadata)}, kSelector},\n"
            "        accumulate != 0);\n"
      : family.widening
          ? "  static void Issue(Register (&d)[kRegisters],\n"
            "                    const uint32 (&x)[4], uint64 y,\n"
            "                    int accumulate) {\n"
            "    emulator::isa::IssueWgmma(\n"
            "        kForm, d, 0, y, {{x[0], x[1], x[2], x[3]}, 0},\n"
            "        accumulate != 0);\n"
          : "  static void Issue(Register (&d)[kRegisters], uint64 x, uint64 y,"
            "\n                    int accumulate) {\n"
            "    emulator::isa::IssueWgmma(kForm, d, x, y, {}, accumulate != "
            "0);\n",
      "  }\n};\n");
}

}  // namespace

absl::StatusOr<std::string> HostSource(const jit::Family& family,
                                       const jit::Config& config) {
  ASSIGN_OR_RETURN(const jit::TemplateLibrary includes, Includes());
  ASSIGN_OR_RETURN(const jit::Instance instance,
                   jit::MakeInstance(includes, family, config));
  std::string text = TextOf(instance);
  const std::string theirs = jit::WgmmaSource(family, config.tile_n);
  const int replaced = absl::StrReplaceAll(
      {{theirs, EmulatedWgmma(family, config.tile_n)}}, &text);
  if (replaced != 1) {
    return absl::InternalError(absl::StrCat("the instruction stands ", replaced,
                                            " times in ", instance.name));
  }
  return text;
}

absl::StatusOr<std::string> HostPrepareSource(jit::Form form,
                                              jit::DataType type) {
  ASSIGN_OR_RETURN(const jit::TemplateLibrary includes, Includes());
  ASSIGN_OR_RETURN(const jit::Instance instance,
                   jit::MakePrepareInstance(includes, form, type));
  return TextOf(instance);
}

absl::StatusOr<std::string> HostRepitchSource() {
  ASSIGN_OR_RETURN(const jit::TemplateLibrary includes, Includes());
  ASSIGN_OR_RETURN(const jit::Instance instance,
                   jit::MakeRepitchInstance(includes));
  return TextOf(instance);
}

}  // namespace gemmd::emulator
