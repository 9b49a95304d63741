// Builds serialised protobuf messages whose large bytes field is sent from
// where it lies. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_WIRE_WRITER_H_
#define GEMMD_SERVICE_RPC_WIRE_WRITER_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/device/device.h"

namespace gemmd::rpc {

grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message);
// Of one that is serialised already.
inline grpc::ByteBuffer Serialize(const grpc::ByteBuffer& message) {
  return message;
}

// The slice owns the buffer and may be used on any thread.
grpc::Slice Wrap(std::unique_ptr<device::HostBuffer> buffer);

class WireWriter {
 public:
  // Appends `message` as field `number`.
  void AddMessage(uint32_t number,
                  const google::protobuf::MessageLite& message);
  // Appends the fields of `message`, which has the type that is written.
  void AddFields(const google::protobuf::MessageLite& message);
  // Appends the numbers as one packed field `number`; nothing of none.
  void AddPacked(uint32_t number, absl::Span<const uint64_t> values);
  // Appends a varint as field `number`.
  void AddNumber(uint32_t number, uint64_t value);
  // Appends the joined slices as one bytes field; nothing when they are empty.
  void AddBytes(uint32_t number, std::vector<grpc::Slice> slices);
  // Appends what `message` has as field `number`.
  void AddWritten(uint32_t number, WireWriter message);

  grpc::ByteBuffer Finish() &&;

 private:
  void AddPrefix(uint32_t number, uint64_t length);
  void Flush();

  std::string small_;  // Not yet in slices_.
  std::vector<grpc::Slice> slices_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_WIRE_WRITER_H_
