// The answers of products that come in one message.
#ifndef GEMMD_CLIENTS_CPP_MATMUL_RESPONSE_H_
#define GEMMD_CLIENTS_CPP_MATMUL_RESPONSE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "clients/cpp/product.h"
#include "clients/cpp/slice_reader.h"

namespace gemmd::client {

// A MatmulResponse after which `rest` bytes are left, to `result`, which is
// new.
absl::Status ReadResponse(SliceReader& reader, uint64_t rest,
                          const Product& product, Result& result);

// A message that has a MatmulResponse for each of `products`, in `field`.
// Errors call that `name`. What else is length-delimited is read or skipped by
// `other`.
using ReadOther = absl::FunctionRef<absl::Status(
    const SliceReader::Field& field, SliceReader& reader)>;
absl::StatusOr<std::vector<Result>> ReadResponses(
    const grpc::ByteBuffer& message, int field, absl::string_view name,
    absl::Span<const Product> products, ReadOther other);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_MATMUL_RESPONSE_H_
