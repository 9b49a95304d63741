// gemmctl tensor ...
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cli/standard_streams.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/operand.h"
#include "clients/gemmctl/tensor_files.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

struct TensorOptions {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t count = 1;
  TensorFiles files;
  std::string handle;
  std::vector<std::string> handles;
  v1::Order order = v1::ORDER_ROW_MAJOR;
  bool creates_sparse = false;
  int32_t group = -1;  // Of one that is created quantized.
  bool zero_points = false;
  absl::Duration ttl = absl::ZeroDuration();
  std::string device;
  std::string label;
  bool json = false;
};

void Print(const v1::TensorInfo& info) {
  const Matrix matrix = Describe(info);
  const std::string how =
      matrix.quantization ? QuantizedText(matrix) + ", " : "";
  Show(stdout, "%s %s %s%s %s-major on %s, %s%d bytes, idle %d of %d s%s%s\n",
       info.handle(), matrix.shape(), matrix.sparse ? "sparse " : "",
       Name(info.dtype()), Name(info.order()), info.device(), how,
       info.device_bytes(), info.idle_s(), info.ttl_s(),
       info.label().empty() ? "" : ", ", jit::Printable(info.label()));
}

// Names a tensor to whoever reads standard output. Where nobody does, a new one
// is deleted: nobody could name it.
int HandOver(client::Client& client, const v1::TensorInfo& info, bool is_new,
             bool json) {
  std::signal(SIGPIPE, SIG_IGN);
  json ? PrintJson(info) : Show(stdout, "%s\n", info.handle());
  const absl::Status told = cli::FlushStandardOutput();
  if (told.ok()) return cli::kExitOk;
  if (is_new) client.DeleteTensor(info.handle()).IgnoreError();
  return Fail(told);
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
  if (matrix.quantization) {
    *request.mutable_quantization() = *matrix.quantization;
  }
  // Rounded up: less than a second is not 0, the daemon's default.
  request.set_ttl_s(
      absl::ToInt64Seconds(absl::Ceil(options.ttl, absl::Seconds(1))));
  request.set_device(options.device);
  request.set_label(options.label);
  return request;
}

int Create(client::Client& client, const TensorOptions& options) {
  Matrix matrix = {options.files.type,
                   options.order,
                   options.rows,
                   options.columns,
                   {},
                   {options.count},
                   options.creates_sparse};
  if (options.group >= 0) {
    matrix.quantization.emplace();
    matrix.quantization->set_group(options.group);
    matrix.quantization->set_zero_points(options.zero_points);
  } else if (options.zero_points) {
    return FailUsage(absl::InvalidArgumentError("--zero-points needs --group"));
  }
  GEMMCTL_ASSIGN(const v1::TensorInfo info,
                 client.CreateTensor(Request(options, matrix)), Fail);
  return HandOver(client, info, /*is_new=*/true, options.json);
}

int Upload(client::Client& client, const TensorOptions& options) {
  if (const absl::Status wrong = CheckTensorFiles(options.files); !wrong.ok()) {
    return FailUsage(wrong);
  }
  const bool creates = options.handle.empty();
  const bool describes_new = options.ttl > absl::ZeroDuration() ||
                             !options.device.empty() || !options.label.empty();
  if (!creates && describes_new) {
    return FailUsage(absl::InvalidArgumentError(
        "--ttl, --device and --label are of a new tensor; allowed: these, or "
        "--to HANDLE"));
  }
  GEMMCTL_ASSIGN(Matrix matrix, ReadTensor(options.files), FailFile);
  GEMMCTL_ASSIGN(const v1::TensorInfo info,
                 creates ? client.CreateTensor(Request(options, matrix))
                         : client.DescribeTensor(HandleOf(options.handle)),
                 Fail);
  if (absl::Status wrong = CheckAlike(matrix, Describe(info)); !wrong.ok()) {
    return FailFile(wrong);
  }
  if (!matrix.sparse && !matrix.quantization) {
    matrix = Reorder(std::move(matrix), info.order());
  }
  v1::Layout layout;
  layout.set_order(matrix.order);
  if (absl::Status sent =
          client.UploadTensor(info.handle(), layout, Pack(std::move(matrix)));
      !sent.ok()) {
    if (creates) client.DeleteTensor(info.handle()).IgnoreError();
    return Fail(sent);
  }
  return HandOver(client, info, creates, options.json);
}

int Download(client::Client& client, const TensorOptions& options) {
  if (const absl::Status wrong = CheckOutputs(options.files.parts);
      !wrong.ok()) {
    return FailUsage(wrong);
  }
  GEMMCTL_ASSIGN(const v1::TensorInfo info,
                 client.DescribeTensor(HandleOf(options.handle)), Fail);
  Matrix matrix = Describe(info);
  std::string bytes(PackedBytes(matrix), '\0');
  v1::Layout layout;
  layout.set_order(info.order());
  if (absl::Status got = client.DownloadTensor(
          info.handle(), layout, absl::MakeSpan(bytes.data(), bytes.size()));
      !got.ok()) {
    return Fail(got);
  }
  matrix = Unpack(std::move(matrix), std::move(bytes));
  const absl::Status written =
      WriteTensor(options.files.parts, std::move(matrix));
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
                 client.DescribeTensor(HandleOf(options.handle)), Fail);
  options.json ? PrintJson(info) : Print(info);
  return cli::kExitOk;
}

int Delete(client::Client& client, const TensorOptions& options) {
  for (const std::string& handle : options.handles) {
    if (absl::Status gone = client.DeleteTensor(HandleOf(handle)); !gone.ok()) {
      return Fail(gone);
    }
  }
  return cli::kExitOk;
}

void DeclareNew(cli::Command& command, TensorOptions& options) {
  command.Duration("--ttl TIME", options.ttl, absl::Seconds(1),
                   {absl::ZeroDuration(), absl::Hours(24 * 366 * 10)},
                   "Unused time until it is deleted, in whole seconds, rounded "
                   "up; 0: the daemon's default.");
  command.Text("--device NAME", options.device,
               "Where it lives. Default: the daemon's choice.");
  command.Text("--label TEXT", options.label, "Shown by list.");
  command.Switch("--json", options.json,
                 "Print JSON instead of the handle alone.");
}

void DeclareCreate(cli::Command& command, TensorOptions& options) {
  options.files.type = v1::DATA_TYPE_BF16;
  command.Int("ROWS", options.rows, {0}, "");
  command.Int("COLUMNS", options.columns, {0}, "");
  command.Int("--count N", options.count, {1}, "Matrices of a batch.");
  TypeOption(command, "--dtype TYPE", options.files.type,
             "f32, f16, bf16, e4m3, e5m2, s8, u8, s4, u4, b1 or s32.");
  OrderOption(command, "--order ORDER", options.order, "row or column.");
  command.Switch("--sparse", options.creates_sparse,
                 "Its lines store two of every four elements, of f32 one of "
                 "two.");
  GroupOption(command, options.group,
              "It is quantized: elements along k that share a scale.");
  command.Switch("--zero-points", options.zero_points,
                 "Groups have zero points, too.");
  DeclareNew(command, options);
}

void DeclareUpload(cli::Command& command, TensorOptions& options) {
  DeclareToRead(command, options.files);
  FileOption(command, "--to HANDLE", options.handle,
             "Replace the elements of this tensor instead, which keeps its "
             "time, device and label.");
  DeclareNew(command, options);
}

void DeclareDownload(cli::Command& command, TensorOptions& options) {
  command.Text("HANDLE", options.handle, "");
  FileOption(command, "-o,--output FILE.npy", options.files.parts.elements,
             "Where to; - is standard output.");
  command.Require("--output");
  DeclareScales(command, options.files.parts,
                "Where those of a quantized tensor go.");
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
  AddWithClient(group, "create", "make a tensor of zeros, print its handle",
                Create, DeclareCreate);
  AddWithClient(group, "upload",
                "make a tensor of a file's elements, print its handle", Upload,
                DeclareUpload);
  AddWithClient(group, "download", "save a tensor's elements", Download,
                DeclareDownload);
  AddWithClient(
      group, "list",
      "tensors of the caller's principal or, where no policy says who calls, "
      "of this connection, and so none; with --admin-calls of the daemon, or "
      "with the role admin too, all of them",
      List, DeclareJson);
  AddWithClient(group, "describe", "one tensor", Describe,
                [](cli::Command& command, TensorOptions& options) {
                  command.Text("HANDLE", options.handle, "");
                  DeclareJson(command, options);
                });
  AddWithClient(group, "delete",
                "free tensors; with the role admin too, of any principal",
                Delete, [](cli::Command& command, TensorOptions& options) {
                  command.Operands("HANDLE", options.handles, 1, "");
                });
}

}  // namespace gemmd::gemmctl
