#include "clients/cpp/slice_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gemmd::client {
namespace {

// Wire types of protobuf's encoding.
enum WireType { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };

absl::Status Malformed() {
  return absl::InternalError("the daemon sent a malformed message");
}

void AppendVarint(uint64_t value, std::string& to) {
  for (; value > 0x7f; value >>= 7) {
    to.push_back(static_cast<char>((value & 0x7f) | 0x80));
  }
  to.push_back(static_cast<char>(value));
}

}  // namespace

absl::StatusOr<SliceReader> SliceReader::Create(
    const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (grpc::Status status = message.Dump(&slices); !status.ok()) {
    return absl::InternalError(status.error_message());
  }
  return SliceReader(std::move(slices));
}

SliceReader::SliceReader(std::vector<grpc::Slice> slices)
    : slices_(std::move(slices)) {
  for (const grpc::Slice& slice : slices_) remaining_ += slice.size();
}

template <typename Use>
void SliceReader::Advance(uint64_t length, Use use) {
  length = std::min(length, remaining_);
  remaining_ -= length;
  while (length > 0) {
    const grpc::Slice& slice = slices_[slice_];
    const size_t step = std::min<uint64_t>(length, slice.size() - offset_);
    use(reinterpret_cast<const char*>(slice.begin()) + offset_, step);
    length -= step;
    offset_ += step;
    if (offset_ == slice.size()) {
      ++slice_;
      offset_ = 0;
    }
  }
}

bool SliceReader::ReadVarint(uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (remaining_ == 0) return false;
    char byte = 0;
    Advance(1, [&](const char* data, size_t size) {
      if (size > 0) byte = *data;
    });
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

absl::StatusOr<SliceReader::Field> SliceReader::ReadField() {
  uint64_t tag = 0;
  if (!ReadVarint(tag)) return Malformed();
  Field field;
  field.number = static_cast<int>(tag >> 3);
  switch (tag & 7) {
    case kVarint:
      if (!ReadVarint(field.length)) return Malformed();
      field.length = 0;
      return field;
    case kFixed64:
      if (remaining_ < 8) return Malformed();
      Skip(8);
      return field;
    case kFixed32: {
      if (remaining_ < 4) return Malformed();
      uint32_t value = 0;  // Little-endian, as this machine.
      Read(absl::MakeSpan(reinterpret_cast<char*>(&value), sizeof value));
      field.fixed32 = value;
      return field;
    }
    case kDelimited:
      if (!ReadVarint(field.length) || field.length > remaining_) {
        return Malformed();
      }
      field.delimited = true;
      return field;
    default:
      return Malformed();
  }
}

void SliceReader::Read(absl::Span<char> to) {
  char* next = to.data();
  Advance(to.size(), [&](const char* data, size_t size) {
    std::memcpy(next, data, size);
    next += size;
  });
}

std::string SliceReader::Read(uint64_t length) {
  std::string bytes;
  Advance(length,
          [&](const char* data, size_t size) { bytes.append(data, size); });
  return bytes;
}

void SliceReader::Skip(uint64_t length) {
  Advance(length, [](const char*, size_t) {});
}

std::string FieldPrefix(int number, uint64_t length) {
  std::string prefix;
  AppendVarint(static_cast<uint64_t>(number) << 3 | kDelimited, prefix);
  AppendVarint(length, prefix);
  return prefix;
}

}  // namespace gemmd::client
