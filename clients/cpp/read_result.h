// Fields that answers of products have, in one message or in chunks.
#ifndef GEMMD_CLIENTS_CPP_READ_RESULT_H_
#define GEMMD_CLIENTS_CPP_READ_RESULT_H_

#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/base/casts.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "clients/cpp/client.h"
#include "clients/cpp/slice_reader.h"
#include "jit/base/status.h"

namespace gemmd::client {

// Reads a Response after which `rest` bytes are left. An Output has the number
// of its `field` of Response, and takes what comes in it:
//   absl::Status Take(uint64_t length, SliceReader& reader);
template <typename Response, typename Output>
absl::Status ReadResult(SliceReader& reader, uint64_t rest,
                        absl::Span<Output> outputs, Result& result) {
  while (reader.remaining() > rest) {
    ASSIGN_OR_RETURN(const SliceReader::Field field, reader.ReadField());
    const auto output = absl::c_find_if(outputs, [&](const Output& one) {
      return field.delimited && one.field == field.number;
    });
    if (output != outputs.end()) {
      RETURN_IF_ERROR(output->Take(field.length, reader));
    } else if (field.fixed32 && field.number == Response::kAmaxFieldNumber) {
      result.amax = absl::bit_cast<float>(*field.fixed32);
    } else if (field.delimited &&
               field.number == Response::kExecutionFieldNumber) {
      if (!result.execution.ParseFromString(reader.Read(field.length))) {
        return absl::InternalError("the daemon sent a malformed execution");
      }
    } else {
      reader.Skip(field.length);
    }
  }
  return absl::OkStatus();
}

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_READ_RESULT_H_
