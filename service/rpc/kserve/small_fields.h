// The fields of a message that are worth parsing, taken from those that hold
// matrices. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_KSERVE_SMALL_FIELDS_H_
#define GEMMD_SERVICE_RPC_KSERVE_SMALL_FIELDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc::kserve {

class SmallFields {
 public:
  explicit SmallFields(int64_t limit) : limit_(limit) {}

  // Appends the field that `reader` is at. Numbers of fixed length, which no
  // message here has at its top, are left out. INVALID_ARGUMENT when there are
  // more bytes than the limit.
  absl::Status Add(const WireReader& reader);
  // Appends the fields of `message` as field `number`.
  absl::Status AddMessage(uint32_t number, const SmallFields& message);

  // A serialised message of these fields.
  const std::string& bytes() const { return bytes_; }
  int64_t room() const { return limit_ - static_cast<int64_t>(bytes_.size()); }

 private:
  absl::Status CheckRoom(int64_t bytes) const;
  void AddTag(uint32_t number, uint32_t type);
  void AddVarint(uint64_t value);

  const int64_t limit_;
  std::string bytes_;
};

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_SMALL_FIELDS_H_
