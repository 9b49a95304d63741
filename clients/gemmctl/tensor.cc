// gemmctl tensor ...
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/npy.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

const Flag kJson = {"--json", "", "print JSON", ""};
const Flag kDevice = {"--device", "NAME",
                      "where it lives; default: the daemon's choice", ""};
const Flag kTtl = {"--ttl", "SECONDS",
                   "unused time until it is deleted; 0: the daemon's default",
                   "0"};
const Flag kLabel = {"--label", "TEXT", "shown by list", ""};

void Print(const v1::TensorInfo& info) {
  absl::PrintF("%s %d x %d %s %s-major on %s, %d bytes, idle %d of %d s%s%s\n",
               info.handle(), info.rows(), info.columns(), Name(info.dtype()),
               Name(info.order()), info.device(), info.device_bytes(),
               info.idle_s(), info.ttl_s(), info.label().empty() ? "" : ", ",
               info.label());
}

absl::StatusOr<v1::CreateTensorRequest> Request(const Arguments& arguments,
                                                v1::DataType type,
                                                v1::Order order) {
  v1::CreateTensorRequest request;
  request.set_dtype(type);
  request.set_order(order);
  ASSIGN_OR_RETURN(const int64_t ttl_s, arguments.GetInteger("--ttl"));
  request.set_ttl_s(ttl_s);
  request.set_device(arguments.Get("--device"));
  request.set_label(arguments.Get("--label"));
  return request;
}

absl::StatusOr<v1::CreateTensorRequest> EmptyRequest(
    const Arguments& arguments) {
  ASSIGN_OR_RETURN(const v1::DataType type,
                   ParseDataType(arguments.Get("--dtype")));
  ASSIGN_OR_RETURN(const v1::Order order, ParseOrder(arguments.Get("--order")));
  ASSIGN_OR_RETURN(v1::CreateTensorRequest request,
                   Request(arguments, type, order));
  int64_t sides[2] = {};
  for (int i = 0; i < 2; ++i) {
    if (!absl::SimpleAtoi(arguments.positional()[i], &sides[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", arguments.positional()[i], "' is not a number of elements"));
    }
  }
  request.set_rows(sides[0]);
  request.set_columns(sides[1]);
  return request;
}

int Create(client::Client& client, const Arguments& arguments) {
  GEMMCTL_ASSIGN(const v1::CreateTensorRequest request, EmptyRequest(arguments),
                 FailUsage);
  GEMMCTL_ASSIGN(const v1::TensorInfo info, client.CreateTensor(request), Fail);
  absl::PrintF("%s\n", info.handle());
  return kOk;
}

int Upload(client::Client& client, const Arguments& arguments) {
  GEMMCTL_ASSIGN(Matrix matrix, ReadNpy(arguments.positional()[0]), FailFile);
  if (arguments.Has("--dtype")) {
    GEMMCTL_ASSIGN(const v1::DataType type,
                   ParseDataType(arguments.Get("--dtype")), FailUsage);
    GEMMCTL_ASSIGN(matrix, Convert(std::move(matrix), type), FailFile);
  }
  std::string handle = arguments.Get("--to");
  const bool created = handle.empty();
  if (created) {
    GEMMCTL_ASSIGN(v1::CreateTensorRequest request,
                   Request(arguments, matrix.type, matrix.order), FailUsage);
    request.set_rows(matrix.rows);
    request.set_columns(matrix.columns);
    GEMMCTL_ASSIGN(const v1::TensorInfo info, client.CreateTensor(request),
                   Fail);
    handle = info.handle();
  } else {
    GEMMCTL_ASSIGN(const v1::TensorInfo info, client.DescribeTensor(handle),
                   Fail);
    matrix = Reorder(std::move(matrix), info.order());
  }
  v1::Layout layout;
  layout.set_order(matrix.order);
  if (absl::Status sent = client.UploadTensor(handle, layout, matrix.bytes);
      !sent.ok()) {
    if (created) client.DeleteTensor(handle).IgnoreError();
    return Fail(sent);
  }
  absl::PrintF("%s\n", handle);
  return kOk;
}

int Download(client::Client& client, const Arguments& arguments) {
  if (!arguments.Has("-o")) {
    return FailUsage(absl::InvalidArgumentError("-o FILE is required"));
  }
  const std::string& handle = arguments.positional()[0];
  GEMMCTL_ASSIGN(const v1::TensorInfo info, client.DescribeTensor(handle),
                 Fail);
  Matrix matrix = {info.dtype(), info.order(), info.rows(), info.columns(), {}};
  matrix.bytes.resize(info.rows() * info.columns() *
                      ElementBytes(info.dtype()));
  v1::Layout layout;
  layout.set_order(info.order());
  if (absl::Status got = client.DownloadTensor(
          handle, layout,
          absl::MakeSpan(matrix.bytes.data(), matrix.bytes.size()));
      !got.ok()) {
    return Fail(got);
  }
  const absl::Status written = WriteNpy(arguments.Get("-o"), matrix);
  return written.ok() ? kOk : FailFile(written);
}

int List(client::Client& client, const Arguments& arguments) {
  GEMMCTL_ASSIGN(const std::vector<v1::TensorInfo> tensors,
                 client.ListTensors(), Fail);
  if (arguments.Has("--json")) {
    v1::ListTensorsResponse response;
    *response.mutable_tensors() = {tensors.begin(), tensors.end()};
    PrintJson(response);
    return kOk;
  }
  for (const v1::TensorInfo& info : tensors) Print(info);
  return kOk;
}

int Describe(client::Client& client, const Arguments& arguments) {
  GEMMCTL_ASSIGN(const v1::TensorInfo info,
                 client.DescribeTensor(arguments.positional()[0]), Fail);
  arguments.Has("--json") ? PrintJson(info) : Print(info);
  return kOk;
}

int Delete(client::Client& client, const Arguments& arguments) {
  for (const std::string& handle : arguments.positional()) {
    if (absl::Status gone = client.DeleteTensor(handle); !gone.ok()) {
      return Fail(gone);
    }
  }
  return kOk;
}

}  // namespace

std::vector<Command> TensorCommands() {
  return {
      {"tensor create",
       "ROWS COLUMNS",
       "make a tensor of zeros, print its handle",
       {{"--dtype", "TYPE", "bf16, f16 or f32", "bf16"},
        {"--order", "ORDER", "row or column", "row"},
        kTtl,
        kDevice,
        kLabel},
       2,
       2,
       Create},
      {"tensor upload",
       "FILE.npy",
       "make a tensor of a file's elements, print its handle",
       {{"--to", "HANDLE", "replace the elements of this tensor instead", ""},
        {"--dtype", "TYPE", "bf16 or f16: converts an f4 file", ""},
        kTtl,
        kDevice,
        kLabel},
       1,
       1,
       Upload},
      {"tensor download",
       "HANDLE -o FILE.npy",
       "save a tensor's elements",
       {{"-o", "FILE", "where to (required)", ""}},
       1,
       1,
       Download},
      {"tensor list", "", "all tensors of the daemon", {kJson}, 0, 0, List},
      {"tensor describe", "HANDLE", "one tensor", {kJson}, 1, 1, Describe},
      {"tensor delete", "HANDLE...", "free tensors", {}, 1, 1000, Delete},
  };
}

}  // namespace gemmd::gemmctl
