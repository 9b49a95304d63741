#include "service/rpc/wire_writer.h"

#include <utility>

namespace gemmd::rpc {
namespace {

void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) {
    to.push_back(static_cast<char>(value | 0x80));
  }
  to.push_back(static_cast<char>(value));
}

}  // namespace

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

grpc::Slice Wrap(std::unique_ptr<device::HostBuffer> buffer) {
  const absl::Span<char> bytes = buffer->bytes();
  return grpc::Slice(
      bytes.data(), bytes.size(),
      [](void* owner) { delete static_cast<device::HostBuffer*>(owner); },
      buffer.release());
}

void WireWriter::AddMessage(uint32_t number,
                            const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  AddPrefix(number, bytes.size());
  small_ += bytes;
}

void WireWriter::AddFields(const google::protobuf::MessageLite& message) {
  small_ += message.SerializeAsString();
}

void WireWriter::AddNumber(uint32_t number, uint64_t value) {
  AppendVarint(number << 3, small_);  // 0: a varint.
  AppendVarint(value, small_);
}

void WireWriter::AddBytes(uint32_t number, std::vector<grpc::Slice> slices) {
  uint64_t length = 0;
  for (const grpc::Slice& slice : slices) length += slice.size();
  if (length == 0) return;
  AddPrefix(number, length);
  Flush();
  for (grpc::Slice& slice : slices) slices_.push_back(std::move(slice));
}

void WireWriter::AddPacked(uint32_t number, absl::Span<const uint64_t> values) {
  if (values.empty()) return;
  std::string packed;
  for (const uint64_t value : values) AppendVarint(value, packed);
  AddPrefix(number, packed.size());
  small_ += packed;
}

// What is small stays in one slice with what is around it.
void WireWriter::AddWritten(uint32_t number, WireWriter message) {
  if (message.slices_.empty()) {
    AddPrefix(number, message.small_.size());
    small_ += message.small_;
    return;
  }
  message.Flush();
  AddBytes(number, std::move(message.slices_));
}

grpc::ByteBuffer WireWriter::Finish() && {
  Flush();
  return grpc::ByteBuffer(slices_.data(), slices_.size());
}

void WireWriter::AddPrefix(uint32_t number, uint64_t length) {
  AppendVarint(number << 3 | 2, small_);  // 2: length-delimited.
  AppendVarint(length, small_);
}

void WireWriter::Flush() {
  if (small_.empty()) return;
  slices_.emplace_back(small_);
  small_.clear();
}

}  // namespace gemmd::rpc
