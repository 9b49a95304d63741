// The Client methods of TensorService.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/client.h"
#include "clients/cpp/loan.h"
#include "clients/cpp/page_token.h"
#include "clients/cpp/slice_reader.h"
#include "clients/cpp/status.h"
#include "clients/cpp/stream.h"
#include "clients/cpp/striping.h"
#include "clients/cpp/unary.h"
#include "jit/base/status.h"

namespace gemmd::client {
namespace {

constexpr int kDataField = 2;            // Of UploadTensorRequest.
constexpr int kDownloadedDataField = 1;  // Of DownloadTensorResponse.
constexpr uint64_t kChunkBytes = 2 << 20;
constexpr int64_t kMostElements = int64_t{1} << 57;  // Bits fit 63 of them.

// Whether the daemon can mean it: what does not fit would look like nothing.
bool IsMatrix(const v1::TensorInfo& info) {
  if (info.rows() < 1 || info.columns() < 1 || info.count() < 0) return false;
  const absl::uint128 elements = absl::uint128(info.rows()) * info.columns();
  return elements <= kMostElements &&
         elements * std::max<int64_t>(info.count(), 1) <= kMostElements;
}

grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// Copies the data field of one message to the front of `rest`, which shrinks:
// of messages without bytes there could be any number.
absl::Status TakeChunk(const grpc::ByteBuffer& message,
                       absl::Span<char>& rest) {
  const size_t before = rest.size();
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::Create(message));
  while (!reader.done()) {
    ASSIGN_OR_RETURN(const SliceReader::Field field, reader.ReadField());
    if (!field.delimited || field.number != kDownloadedDataField) {
      reader.Skip(field.length);
      continue;
    }
    if (field.length > rest.size()) {
      return absl::InternalError(
          "the daemon sent more bytes than the tensor has");
    }
    reader.Read(rest.subspan(0, field.length));
    rest.remove_prefix(field.length);
  }
  if (rest.size() == before) {
    return absl::InternalError("the daemon sent a message without bytes");
  }
  return absl::OkStatus();
}

// Of a transfer: nobody else has it.
std::string RandomName() {
  std::random_device random;
  std::string name;
  while (name.size() < 16) {
    const std::random_device::result_type word = random();
    name.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  return name;
}

v1::RegionPart Part(const v1::Layout& layout, const SharedMemory& memory,
                    int64_t offset) {
  v1::RegionPart part;
  part.set_region(memory.handle());
  part.set_offset(offset);
  *part.mutable_layout() = layout;
  return part;
}

}  // namespace

absl::StatusOr<v1::TensorInfo> Client::CreateTensor(
    const v1::CreateTensorRequest& request) {
  return Create(request, EndOf(absl::ZeroDuration()));
}

absl::StatusOr<v1::TensorInfo> Client::Create(
    const v1::CreateTensorRequest& request, absl::Time end) {
  grpc::ClientContext context;
  Prepare(context, end);
  v1::TensorInfo info;
  RETURN_IF_ERROR(ToStatus(tensors_->CreateTensor(&context, request, &info)));
  return info;
}

absl::Status Client::UploadTensor(const std::string& handle,
                                  const v1::Layout& layout,
                                  absl::Span<const char> bytes) {
  return Upload(handle, layout, bytes,
                ConnectionsFor(options_.striping, bytes.size()),
                EndOf(absl::ZeroDuration()));
}

absl::Status Client::Upload(const std::string& handle, const v1::Layout& layout,
                            absl::Span<const char> bytes, int connections,
                            absl::Time end) {
  v1::UploadTensorRequest first;
  first.mutable_header()->set_handle(handle);
  *first.mutable_header()->mutable_layout() = layout;
  const uint64_t room = MessageRoom(bytes.size(), end);
  std::vector<Stripe> stripes;
  if (connections > 1) {
    ASSIGN_OR_RETURN(const v1::TensorInfo info, Describe(handle, end));
    stripes = SplitLines(info, layout, bytes.size(), connections);
  }
  if (!stripes.empty()) {
    first.mutable_header()->mutable_part()->set_transfer(RandomName());
    const absl::Status moved = MoveStripes(
        stripes.size(), end,
        [&](size_t i, Client& client, Loan& loan,
            grpc::ClientContext& context) {
          const Stripe& stripe = stripes[i];
          v1::UploadTensorRequest part = first;
          *part.mutable_header()->mutable_part()->mutable_lines() =
              stripe.lines;
          return client.UploadLines(part,
                                    bytes.subspan(stripe.offset, stripe.bytes),
                                    room, loan, context);
        });
    // There may be room for one call where there is none for several.
    if (!absl::IsResourceExhausted(moved)) return moved;
    first.mutable_header()->clear_part();
  }
  Loan loan;  // Outlives the context, whose end lets the transport go.
  grpc::ClientContext context;
  Prepare(context, end);
  return UploadLines(first, bytes, room, loan, context);
}

absl::Status Client::UploadLines(const v1::UploadTensorRequest& first,
                                 absl::Span<const char> bytes, uint64_t room,
                                 Loan& loan, grpc::ClientContext& context) {
  const size_t chunk_bytes = std::min(kChunkBytes, room);
  // With the prefix of a chunk.
  Announce(context, std::min(bytes.size(), chunk_bytes) + 16,
           options_.checksums);
  Stream stream(channel_, "/gemmd.v1.TensorService/UploadTensor", context,
                options_.checksums);
  bool open = stream.Write(Encode(first));
  while (open && !bytes.empty()) {
    const auto chunk =
        bytes.subspan(0, std::min<size_t>(chunk_bytes, bytes.size()));
    const grpc::Slice slices[] = {
        grpc::Slice(FieldPrefix(kDataField, chunk.size())), loan.Lend(chunk)};
    open = stream.Write(grpc::ByteBuffer(slices, 2));
    bytes.remove_prefix(chunk.size());
  }
  // When the call ended early, Finish says why.
  if (open && stream.WritesDone()) {
    grpc::ByteBuffer response;
    stream.Read(response);
  }
  return stream.Finish();
}

absl::Status Client::DownloadTensor(const std::string& handle,
                                    const v1::Layout& layout,
                                    absl::Span<char> bytes) {
  return Download(handle, layout, bytes,
                  ConnectionsFor(options_.striping, bytes.size()),
                  EndOf(absl::ZeroDuration()));
}

absl::Status Client::Download(const std::string& handle,
                              const v1::Layout& layout, absl::Span<char> bytes,
                              int connections, absl::Time end) {
  v1::DownloadTensorRequest request;
  request.set_handle(handle);
  *request.mutable_layout() = layout;
  request.set_chunk_bytes(kChunkBytes);
  std::vector<Stripe> stripes;
  if (connections > 1) {
    ASSIGN_OR_RETURN(const v1::TensorInfo info, Describe(handle, end));
    stripes = SplitLines(info, layout, bytes.size(), connections);
    if (!stripes.empty()) request.set_version(info.version());
  }
  if (!stripes.empty()) {
    const absl::Status moved = MoveStripes(
        stripes.size(), end,
        [&](size_t i, Client& client, Loan&, grpc::ClientContext& context) {
          const Stripe& stripe = stripes[i];
          v1::DownloadTensorRequest part = request;
          *part.mutable_lines() = stripe.lines;
          const auto padding =
              bytes.subspan(stripe.offset + stripe.bytes, stripe.padding);
          std::ranges::fill(padding, '\0');
          return client.DownloadLines(
              part, bytes.subspan(stripe.offset, stripe.bytes), context);
        });
    if (!absl::IsResourceExhausted(moved)) return moved;  // As above.
    request.clear_version();
  }
  grpc::ClientContext context;
  Prepare(context, end);
  return DownloadLines(request, bytes, context);
}

absl::Status Client::DownloadLines(const v1::DownloadTensorRequest& request,
                                   absl::Span<char> bytes,
                                   grpc::ClientContext& context) {
  Stream stream(channel_, "/gemmd.v1.TensorService/DownloadTensor", context,
                options_.checksums);
  absl::Status taken;
  if (stream.Write(Encode(request)) && stream.WritesDone()) {
    for (grpc::ByteBuffer message; taken.ok() && stream.Read(message);) {
      taken = TakeChunk(message, bytes);
    }
  }
  if (!taken.ok()) {
    context.TryCancel();
    stream.Finish().IgnoreError();
    return taken;
  }
  RETURN_IF_ERROR(stream.Finish());
  if (!bytes.empty()) {
    return absl::InternalError(absl::StrCat("the daemon sent ", bytes.size(),
                                            " bytes less than asked for"));
  }
  return absl::OkStatus();
}

absl::Status Client::UploadTensor(const std::string& handle,
                                  const v1::Layout& layout,
                                  const SharedMemory& memory, int64_t offset) {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  v1::UploadTensorRequest request;
  request.mutable_header()->set_handle(handle);
  *request.mutable_header()->mutable_region() = Part(layout, memory, offset);
  v1::TensorInfo info;
  const auto stream = tensors_->UploadTensor(&context, &info);
  // When the call ended early, Finish says why.
  if (stream->Write(request)) stream->WritesDone();
  return ToStatus(stream->Finish());
}

absl::Status Client::DownloadTensor(const std::string& handle,
                                    const v1::Layout& layout,
                                    const SharedMemory& memory,
                                    int64_t offset) {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  v1::DownloadTensorRequest request;
  request.set_handle(handle);
  *request.mutable_region() = Part(layout, memory, offset);
  const auto stream = tensors_->DownloadTensor(&context, request);
  v1::DownloadTensorResponse none;
  if (!stream->Read(&none)) return ToStatus(stream->Finish());
  context.TryCancel();
  stream->Finish();
  return absl::InternalError(
      "the daemon sent a message where it was to write to shared memory");
}

absl::StatusOr<v1::TensorInfo> Client::DescribeTensor(
    const std::string& handle) {
  return Describe(handle, EndOf(absl::ZeroDuration()));
}

absl::StatusOr<v1::TensorInfo> Client::Describe(const std::string& handle,
                                                absl::Time end) {
  grpc::ClientContext context;
  Prepare(context, end);
  v1::DescribeTensorRequest request;
  request.set_handle(handle);
  v1::TensorInfo info;
  RETURN_IF_ERROR(ToStatus(tensors_->DescribeTensor(&context, request, &info)));
  const bool known = v1::DataType_IsValid(info.dtype()) &&
                     info.dtype() != v1::DATA_TYPE_UNSPECIFIED;
  if (!known || !IsMatrix(info)) {
    return absl::InternalError(
        absl::StrCat("the daemon describes a tensor of ", info.rows(), " x ",
                     info.columns(), " elements of type ", info.dtype(),
                     ", which this client does not know"));
  }
  return info;
}

absl::StatusOr<std::vector<v1::TensorInfo>> Client::ListTensors() {
  const absl::Time end = EndOf(absl::ZeroDuration());  // Of all pages.
  std::vector<v1::TensorInfo> tensors;
  PageToken token;
  do {
    grpc::ClientContext context;
    Prepare(context, end);
    v1::ListTensorsRequest request;
    request.set_page_token(token.text());
    v1::ListTensorsResponse page;
    RETURN_IF_ERROR(ToStatus(tensors_->ListTensors(&context, request, &page)));
    for (v1::TensorInfo& tensor : *page.mutable_tensors()) {
      tensors.push_back(std::move(tensor));
    }
    RETURN_IF_ERROR(token.Advance(page.next_page_token()));
  } while (!token.text().empty());
  return tensors;
}

absl::Status Client::DeleteTensor(const std::string& handle) {
  return Delete(handle, EndOf(absl::ZeroDuration()));
}

absl::Status Client::Delete(const std::string& handle, absl::Time end) {
  grpc::ClientContext context;
  Prepare(context, end);
  v1::DeleteTensorRequest request;
  request.set_handle(handle);
  v1::DeleteTensorResponse response;
  return ToStatus(tensors_->DeleteTensor(&context, request, &response));
}

}  // namespace gemmd::client
