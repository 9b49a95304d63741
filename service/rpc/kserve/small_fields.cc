#include "service/rpc/kserve/small_fields.h"

#include "jit/base/status.h"

namespace gemmd::rpc::kserve {
namespace {

// A tag and a length, or a number.
constexpr int64_t kPrefixBytes = 20;

}  // namespace

absl::Status SmallFields::Add(const WireReader& reader) {
  if (reader.length_delimited()) {
    const int64_t size = SizeOf(reader.value());
    RETURN_IF_ERROR(CheckRoom(size));
    AddTag(reader.number(), 2);
    AddVarint(size);
    for (const Piece& piece : reader.value()) {
      bytes_.append(piece.data(), piece.size());
    }
    return absl::OkStatus();
  }
  if (!reader.is_varint()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRoom(0));
  AddTag(reader.number(), 0);
  AddVarint(reader.varint());
  return absl::OkStatus();
}

absl::Status SmallFields::AddMessage(uint32_t number,
                                     const SmallFields& message) {
  RETURN_IF_ERROR(CheckRoom(static_cast<int64_t>(message.bytes_.size())));
  AddTag(number, 2);
  AddVarint(message.bytes_.size());
  bytes_ += message.bytes_;
  return absl::OkStatus();
}

absl::Status SmallFields::CheckRoom(int64_t bytes) const {
  if (bytes <= room() - kPrefixBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "names, shapes and parameters of the request are longer than is allowed: "
      "64 KiB in all");
}

void SmallFields::AddTag(uint32_t number, uint32_t type) {
  AddVarint(uint64_t{number} << 3 | type);
}

void SmallFields::AddVarint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    bytes_.push_back(static_cast<char>(value | 0x80));
  }
  bytes_.push_back(static_cast<char>(value));
}

}  // namespace gemmd::rpc::kserve
