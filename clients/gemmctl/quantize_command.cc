// gemmctl quantize, dequantize, from-gptq and from-awq: files of the parts of
// quantized weights. They need no daemon.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/input.h"
#include "clients/gemmctl/outputs.h"
#include "clients/gemmctl/packings.h"
#include "clients/gemmctl/quantize.h"
#include "clients/gemmctl/tensor_files.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

struct QuantizeOptions {
  std::string from, from_scales, from_zeros, g_idx;
  PartFiles parts;
  v1::DataType type = v1::DATA_TYPE_S4;
  v1::Order order = v1::ORDER_COLUMN_MAJOR;
  int32_t group = 128;
  int bits = 4;
  bool zeros_are_stored = false;
};

absl::Status Quantized(const QuantizeOptions& o) {
  ASSIGN_OR_RETURN(Matrix matrix, ReadNpy(o.from));
  ASSIGN_OR_RETURN(const Parts parts,
                   Quantize(std::move(matrix), o.type, o.group,
                            !o.parts.zeros.empty(), o.order));
  return WriteParts(o.parts, parts);
}

absl::Status Dequantized(const QuantizeOptions& o) {
  PartFiles files = o.parts;
  files.elements = o.from;
  ASSIGN_OR_RETURN(Parts parts, ReadParts(files, o.type));
  ASSIGN_OR_RETURN(const Matrix matrix, Dequantize(std::move(parts), o.order));
  return WriteNpy(o.parts.elements, matrix);
}

absl::StatusOr<PackedWeights> ReadPacked(const QuantizeOptions& o) {
  PackedWeights packed;
  ASSIGN_OR_RETURN(packed.weights, ReadNpy(o.from));
  ASSIGN_OR_RETURN(packed.scales, ReadNpy(o.from_scales));
  ASSIGN_OR_RETURN(packed.zeros, ReadNpy(o.from_zeros));
  return packed;
}

absl::Status FromGptqFiles(const QuantizeOptions& o) {
  ASSIGN_OR_RETURN(PackedWeights packed, ReadPacked(o));
  GptqOptions how = {.bits = o.bits, .zeros_plus_one = !o.zeros_are_stored};
  if (!o.g_idx.empty()) {
    ASSIGN_OR_RETURN(how.g_idx, ReadNpy(o.g_idx, v1::DATA_TYPE_UNSPECIFIED, 1));
  }
  ASSIGN_OR_RETURN(const Parts parts, FromGptq(std::move(packed), how));
  return WriteParts(o.parts, parts);
}

absl::Status FromAwqFiles(const QuantizeOptions& o) {
  ASSIGN_OR_RETURN(PackedWeights packed, ReadPacked(o));
  ASSIGN_OR_RETURN(const Parts parts, FromAwq(std::move(packed)));
  return WriteParts(o.parts, parts);
}

// What reading says names the file already.
absl::Status Named(const std::string& file, const absl::Status& status) {
  const std::string name = absl::StrCat(InputName(file), ": ");
  if (status.ok() || absl::StartsWith(status.message(), name) ||
      absl::StrContains(status.message(), ".npy: ")) {
    return status;
  }
  return absl::Status(status.code(), absl::StrCat(name, status.message()));
}

void Add(cli::Command& program, const std::string& name,
         const std::string& summary,
         absl::Status (*change)(const QuantizeOptions&),
         void (*declare)(cli::Command&, QuantizeOptions&)) {
  cli::Command& command = program.Subcommand(name, summary);
  const auto options = std::make_shared<QuantizeOptions>();
  declare(command, *options);
  FileOption(command, "-o,--output FILE.npy", options->parts.elements,
             "Where to.");
  command.Require("--output");
  DeclareScales(command, options->parts, "Those of groups along k, f4.");
  command.Require("--scales");
  command.Run([options, change]() -> absl::StatusOr<int> {
    // Others read scales and zero points.
    const bool writes_parts = change != Dequantized;
    if (writes_parts) RETURN_IF_ERROR(CheckOutputs(options->parts));
    const absl::Status done = Named(options->from, change(*options));
    return done.ok() ? cli::kExitOk : FailFile(done);
  });
}

void DeclarePlain(cli::Command& command, QuantizeOptions& options,
                  const std::string& what) {
  command.Text("FILE.npy", options.from, what);
  SideOption(command, "--of SIDE", options.order,
             "Of a the rows, of b the columns run along k.");
  TypeOption(command, "--dtype TYPE", options.type, "s4, u4, s8 or e4m3.");
}

void DeclarePacked(cli::Command& command, QuantizeOptions& options) {
  command.Text("QWEIGHT.npy", options.from, "As in such a checkpoint: i4.");
  command.Text("SCALES.npy", options.from_scales, "f4, f2 or V2 (bf16).");
  command.Text("QZEROS.npy", options.from_zeros, "i4.");
}

constexpr char kNext[] =
    "The files are k x n, for gemmctl tensor upload --quantized b.";

}  // namespace

void AddQuantize(cli::Command& program) {
  Add(program, "quantize", "weights of few bits, whose groups share a scale",
      Quantized, [](cli::Command& command, QuantizeOptions& options) {
        DeclarePlain(command, options, "Real numbers: f4, f2 or V2 (bf16).");
        GroupOption(command, options.group,
                    "Elements of k that share a scale. Default: 128.");
        command.Details(
            "Elements are rounded to the nearest, with scales of the greatest "
            "magnitude of\neach group; with --zero-points, of the span from "
            "the least to the greatest. The\nfiles are elements, scales and "
            "zero_points of gemmd.quantize in Python, bit for\nbit. gemmctl "
            "tensor upload --quantized takes them.");
      });
  Add(program, "dequantize", "what quantized weights stand for", Dequantized,
      [](cli::Command& command, QuantizeOptions& options) {
        DeclarePlain(command, options, "The elements.");
      });
  Add(program, "from-gptq", "weights of a GPTQ checkpoint", FromGptqFiles,
      [](cli::Command& command, QuantizeOptions& options) {
        DeclarePacked(command, options);
        command.Parsed(
            "--bits N", "4",
            [&options](const std::string& text) {
              options.bits = text == "8" ? 8 : 4;
              return text == "4" || text == "8"
                         ? absl::OkStatus()
                         : absl::InvalidArgumentError("4, 8");
            },
            "Of an element; with 8 all zero points are 128.");
        command.Switch("--v2", options.zeros_are_stored,
                       "Zero points are stored themselves (gptq_v2), not less "
                       "one.");
        FileOption(command, "--g-idx FILE.npy", options.g_idx,
                   "The group of each k, i4; refused unless ascending.");
        command.Details(kNext);
      });
  Add(program, "from-awq", "weights of an AWQ checkpoint", FromAwqFiles,
      [](cli::Command& command, QuantizeOptions& options) {
        DeclarePacked(command, options);
        command.Details(kNext);
      });
}

}  // namespace gemmd::gemmctl
