// gemmctl tensor ...
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/npy.h"
#include "clients/gemmctl/operand.h"
#include "clients/gemmctl/sparse.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

struct TensorOptions {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t count = 1;
  std::string file;
  std::string handle;
  std::vector<std::string> handles;
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  v1::Order order = v1::ORDER_ROW_MAJOR;
  bool creates_sparse = false;
  // Of the sparse lines in the file that is uploaded, if that is what it has.
  v1::Order sparse = v1::ORDER_UNSPECIFIED;
  absl::Duration ttl = absl::ZeroDuration();
  std::string device;
  std::string label;
  bool json = false;
};

// "quantized by groups of 32 with zero points, " where it is.
std::string QuantizedText(const v1::TensorInfo& info) {
  if (!info.has_quantization()) return "";
  const int32_t group = info.quantization().group();
  return absl::StrCat(
      "quantized by groups of ", group == 0 ? "all of k" : absl::StrCat(group),
      info.quantization().zero_points() ? " with zero points, " : ", ");
}

void Print(const v1::TensorInfo& info) {
  const Matrix matrix = Describe(info);
  Show(stdout, "%s %s %s%s %s-major on %s, %s%d bytes, idle %d of %d s%s%s\n",
       info.handle(), matrix.shape(), matrix.sparse ? "sparse " : "",
       Name(info.dtype()), Name(info.order()), info.device(),
       QuantizedText(info), info.device_bytes(), info.idle_s(), info.ttl_s(),
       info.label().empty() ? "" : ", ", jit::Printable(info.label()));
}

void PrintHandle(const v1::TensorInfo& info, bool json) {
  json ? PrintJson(info) : Show(stdout, "%s\n", info.handle());
}

// `method`: of a tensor of the Python client, which can do it.
int FailQuantized(absl::string_view method) {
  return Fail(absl::UnimplementedError(absl::StrCat(
      "the tensor is quantized, which no file says; served: other tensors. In "
      "Python, client.attach(HANDLE).",
      method, "() does it")));
}

v1::CreateTensorRequest Request(const TensorOptions& options,
                                const Matrix& matrix) {
  v1::CreateTensorRequest request;
  request.set_rows(matrix.rows);
  request.set_columns(matrix.columns);
  request.set_count(matrix.count());
  request.set_dtype(matrix.type);
  request.set_order(matrix.order);
  request.set_sparsity(convert::SparsityOf(matrix.sparse));
  request.set_ttl_s(absl::ToInt64Seconds(options.ttl));
  request.set_device(options.device);
  request.set_label(options.label);
  return request;
}

int Create(client::Client& client, const TensorOptions& options) {
  const Matrix matrix = {
      options.type, options.order,   options.rows,          options.columns,
      {},           {options.count}, options.creates_sparse};
  GEMMCTL_ASSIGN(const v1::TensorInfo info,
                 client.CreateTensor(Request(options, matrix)), Fail);
  PrintHandle(info, options.json);
  return cli::kExitOk;
}

absl::StatusOr<Matrix> ReadElements(const TensorOptions& options) {
  if (options.sparse != v1::ORDER_UNSPECIFIED) {
    return ReadLines(options.file, options.type, options.sparse);
  }
  ASSIGN_OR_RETURN(Matrix matrix, ReadNpy(options.file, options.type));
  if (options.type == v1::DATA_TYPE_UNSPECIFIED) return matrix;
  return Convert(std::move(matrix), options.type);
}

int Upload(client::Client& client, const TensorOptions& options) {
  GEMMCTL_ASSIGN(Matrix matrix, ReadElements(options), FailFile);
  const bool creates = options.handle.empty();
  GEMMCTL_ASSIGN(const v1::TensorInfo info,
                 creates ? client.CreateTensor(Request(options, matrix))
                         : client.DescribeTensor(options.handle),
                 Fail);
  if (info.has_quantization()) return FailQuantized("upload");
  // Those of a sparse matrix cannot be; the daemon says so.
  if (!matrix.sparse) matrix = Reorder(std::move(matrix), info.order());
  v1::Layout layout;
  layout.set_order(matrix.order);
  if (absl::Status sent =
          client.UploadTensor(info.handle(), layout, Pack(std::move(matrix)));
      !sent.ok()) {
    if (creates) client.DeleteTensor(info.handle()).IgnoreError();
    return Fail(sent);
  }
  PrintHandle(info, options.json);
  return cli::kExitOk;
}

int Download(client::Client& client, const TensorOptions& options) {
  GEMMCTL_ASSIGN(const v1::TensorInfo info,
                 client.DescribeTensor(options.handle), Fail);
  if (info.has_quantization()) return FailQuantized("quantized");
  Matrix matrix = Describe(info);
  std::string bytes(PackedBytes(matrix), '\0');
  v1::Layout layout;
  layout.set_order(info.order());
  if (absl::Status got = client.DownloadTensor(
          options.handle, layout, absl::MakeSpan(bytes.data(), bytes.size()));
      !got.ok()) {
    return Fail(got);
  }
  matrix = Unpack(std::move(matrix), std::move(bytes));
  if (matrix.sparse) matrix = ToLines(std::move(matrix));
  const absl::Status written = WriteNpy(options.file, matrix);
  return written.ok() ? cli::kExitOk : FailFile(written);
}

int List(client::Client& client, const TensorOptions& options) {
  GEMMCTL_ASSIGN(const std::vector<v1::TensorInfo> tensors,
                 client.ListTensors(), Fail);
  if (options.json) {
    v1::ListTensorsResponse response;
    *response.mutable_tensors() = {tensors.begin(), tensors.end()};
    PrintJson(response);
    return cli::kExitOk;
  }
  for (const v1::TensorInfo& info : tensors) Print(info);
  return cli::kExitOk;
}

int Describe(client::Client& client, const TensorOptions& options) {
  GEMMCTL_ASSIGN(const v1::TensorInfo info,
                 client.DescribeTensor(options.handle), Fail);
  options.json ? PrintJson(info) : Print(info);
  return cli::kExitOk;
}

int Delete(client::Client& client, const TensorOptions& options) {
  for (const std::string& handle : options.handles) {
    if (absl::Status gone = client.DeleteTensor(handle); !gone.ok()) {
      return Fail(gone);
    }
  }
  return cli::kExitOk;
}

// A command with options of its own; `declare` says which.
void Add(cli::Command& group, const std::string& name,
         const std::string& summary,
         int (*run)(client::Client&, const TensorOptions&),
         void (*declare)(cli::Command&, TensorOptions&)) {
  cli::Command& command = group.Subcommand(name, summary);
  const auto options = std::make_shared<TensorOptions>();
  declare(command, *options);
  RunWithClient(command, [options, run](client::Client& client) {
    return run(client, *options);
  });
}

void DeclareNew(cli::Command& command, TensorOptions& options) {
  command.Duration("--ttl TIME", options.ttl, absl::Seconds(1),
                   {absl::ZeroDuration(), absl::Hours(24 * 366 * 10)},
                   "Unused time until it is deleted; 0: the daemon's default.");
  command.Text("--device NAME", options.device,
               "Where it lives. Default: the daemon's choice.");
  command.Text("--label TEXT", options.label, "Shown by list.");
  command.Switch("--json", options.json,
                 "Print JSON instead of the handle alone.");
}

void DeclareCreate(cli::Command& command, TensorOptions& options) {
  options.type = v1::DATA_TYPE_BF16;
  command.Int("ROWS", options.rows, {0}, "");
  command.Int("COLUMNS", options.columns, {0}, "");
  command.Int("--count N", options.count, {1}, "Matrices of a batch.");
  TypeOption(command, "--dtype TYPE", options.type,
             "f32, f16, bf16, e4m3, e5m2, s8, u8, s4, u4, b1 or s32.");
  OrderOption(command, "--order ORDER", options.order, "row or column.");
  command.Switch("--sparse", options.creates_sparse,
                 "Its lines store two of every four elements, of f32 one of "
                 "two.");
  DeclareNew(command, options);
}

void DeclareUpload(cli::Command& command, TensorOptions& options) {
  command.Text("FILE.npy", options.file, "The elements; - is standard input.");
  command.Text("--to HANDLE", options.handle,
               "Replace the elements of this tensor instead.");
  TypeOption(
      command, "--dtype TYPE", options.type,
      "Converts an f4 file to bf16, f16, e4m3 or e5m2; names the type of "
      "a V1, u1 or u2 file's bits; s4 or u4: an i1 or u1 file's elements fit "
      "four.");
  SideOption(command, "--sparse SIDE", options.sparse,
             "The file is of gemmctl compress, for an a or a b, of --dtype.");
  DeclareNew(command, options);
}

void DeclareDownload(cli::Command& command, TensorOptions& options) {
  command.Text("HANDLE", options.handle, "");
  command.Text("-o,--output FILE.npy", options.file,
               "Where to; - is standard output.");
  command.Require("--output");
}

void DeclareJson(cli::Command& command, TensorOptions& options) {
  command.Switch("--json", options.json, "Print JSON.");
}

}  // namespace

void AddTensor(cli::Command& program) {
  cli::Command& group = program.Subcommand(
      "tensor",
      "matrices that stay with the daemon: create, upload, download, "
      "list, describe, delete");
  Add(group, "create", "make a tensor of zeros, print its handle", Create,
      DeclareCreate);
  Add(group, "upload", "make a tensor of a file's elements, print its handle",
      Upload, DeclareUpload);
  Add(group, "download", "save a tensor's elements", Download, DeclareDownload);
  Add(group, "list", "all tensors of the daemon", List, DeclareJson);
  Add(group, "describe", "one tensor", Describe,
      [](cli::Command& command, TensorOptions& options) {
        command.Text("HANDLE", options.handle, "");
        DeclareJson(command, options);
      });
  Add(group, "delete", "free tensors", Delete,
      [](cli::Command& command, TensorOptions& options) {
        command.Operands("HANDLE", options.handles, 1, "");
      });
}

}  // namespace gemmd::gemmctl
