// gemmctl compress, decompress and from-cutlass: files of sparse matrices. They
// need no daemon.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/input.h"
#include "clients/gemmctl/metadata_order.h"
#include "clients/gemmctl/sparse.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

struct CompressOptions {
  std::string from, metadata, to;
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  v1::Order order = v1::ORDER_ROW_MAJOR;
  bool prune = false;
};

absl::StatusOr<Matrix> Compressed(const CompressOptions& options) {
  ASSIGN_OR_RETURN(Matrix matrix, ReadNpy(options.from, options.type));
  if (options.type != v1::DATA_TYPE_UNSPECIFIED) {
    ASSIGN_OR_RETURN(matrix, Convert(std::move(matrix), options.type));
  }
  ASSIGN_OR_RETURN(
      matrix, Compress(std::move(matrix), options.order,
                       options.prune ? Excess::kPruned : Excess::kRefused));
  return ToLines(std::move(matrix));
}

absl::StatusOr<Matrix> Decompressed(const CompressOptions& options) {
  ASSIGN_OR_RETURN(const Matrix sparse,
                   ReadLines(options.from, options.type, options.order));
  return Decompress(sparse);
}

absl::StatusOr<Matrix> FromCutlassFiles(const CompressOptions& options) {
  ASSIGN_OR_RETURN(Matrix values, ReadNpy(options.from, options.type));
  ASSIGN_OR_RETURN(Matrix words, ReadNpy(options.metadata, v1::DATA_TYPE_BF16));
  ASSIGN_OR_RETURN(Matrix sparse, FromCutlass(std::move(values),
                                              std::move(words), options.order));
  return ToLines(std::move(sparse));
}

absl::Status Run(
    const CompressOptions& options,
    absl::StatusOr<Matrix> (*change)(const CompressOptions& options)) {
  const absl::StatusOr<Matrix> matrix = change(options);
  if (matrix.ok()) return WriteNpy(options.to, *matrix);
  // What reading says names the file already.
  const std::string name = InputName(options.from);
  const bool named = absl::StartsWith(matrix.status().message(), name);
  return named ? matrix.status()
               : absl::Status(
                     matrix.status().code(),
                     absl::StrCat(name, ": ", matrix.status().message()));
}

void Add(cli::Command& program, const std::string& name,
         const std::string& summary,
         absl::StatusOr<Matrix> (*change)(const CompressOptions&),
         void (*declare)(cli::Command&, CompressOptions&)) {
  cli::Command& command = program.Subcommand(name, summary);
  const auto options = std::make_shared<CompressOptions>();
  command.Text("FILE.npy", options->from, "- is standard input.");
  FileOption(command, "-o,--output FILE.npy", options->to,
             "Where to; - is standard output.");
  command.Require("--output");
  SideOption(command, "--of SIDE", options->order,
             "Of a the rows, of b the columns run along k.");
  declare(command, *options);
  command.Run([options, change]() -> absl::StatusOr<int> {
    const absl::Status done = Run(*options, change);
    return done.ok() ? cli::kExitOk : FailFile(done);
  });
}

}  // namespace

void AddCompress(cli::Command& program) {
  Add(program, "compress",
      "store two of every four elements along k, of f32 one of two", Compressed,
      [](cli::Command& command, CompressOptions& options) {
        TypeOption(command, "--dtype TYPE", options.type,
                   absl::StrCat(kConverts,
                                " Names the type of a V1, u1 or u2 file's "
                                "bits."));
        command.Switch("--prune", options.prune,
                       "Drop what is more, the least magnitudes first.");
        command.Details(
            "The file holds the lines of the sparse matrix as u1, (..., lines, "
            "bytes): values,\nthen metadata, as gemmd/v1/types.proto describes "
            "them. gemmctl matmul takes it\nwith --sparse, gemmctl tensor "
            "upload "
            "likewise; in numpy it is\ngemmd.SparseMatrix.lines.");
      });
  Add(program, "decompress", "the matrix that compress stored, with its zeros",
      Decompressed, [](cli::Command& command, CompressOptions& options) {
        TypeOption(command, "--dtype TYPE", options.type,
                   "Of the values: the file does not say it.");
        command.Require("--dtype");
      });
  Add(program, "from-cutlass",
      "a sparse matrix whose metadata are in CUTLASS's order", FromCutlassFiles,
      [](cli::Command& command, CompressOptions& options) {
        command.Text("METADATA.npy", options.metadata,
                     "i2 or u2, of elements of 8 bits i4: (..., lines, "
                     "words).");
        TypeOption(command, "--dtype TYPE", options.type,
                   "Names the type of a V1, i2, u1 or u2 file's values.");
        command.Details(
            "FILE has the values, (..., lines, k/2). The order is that of "
            "CUTLASS 2's sparse\nkernels (reorder_meta there) and of PyTorch's "
            "CUTLASS backend at first; its later\norder, in blocks of 64 "
            "lines, is another. What is written is as of\ngemmctl compress.");
      });
}

}  // namespace gemmd::gemmctl
