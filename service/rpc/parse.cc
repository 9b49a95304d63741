#include "service/rpc/parse.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/strings/str_cat.h"

namespace gemmd::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

absl::Status NoText(absl::string_view field) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is no UTF-8; allowed: text in UTF-8"));
}

// The first text of a message of type `type` that is not UTF-8 ("a.tensor");
// "" where there is none. protobuf tells it to its log alone. None of our types
// holds messages of itself.
std::string BadText(const std::string& bytes, const Descriptor& type) {
  google::protobuf::io::CodedInputStream input(
      reinterpret_cast<const uint8_t*>(bytes.data()),
      static_cast<int>(bytes.size()));
  while (const uint32_t tag = input.ReadTag()) {
    const FieldDescriptor* const field =
        type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    const bool is_message =
        field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE;
    if (WireFormatLite::GetTagWireType(tag) !=
            WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
        (!is_message &&
         (field == nullptr || field->type() != FieldDescriptor::TYPE_STRING))) {
      if (!WireFormatLite::SkipField(&input, tag)) return "";
      continue;
    }
    std::string value;
    if (!WireFormatLite::ReadBytes(&input, &value)) return "";
    if (is_message) {
      const std::string inner = BadText(value, *field->message_type());
      if (!inner.empty()) return absl::StrCat(field->name(), ".", inner);
    } else if (!CheckText("", value).ok()) {
      return field->name();
    }
  }
  return "";
}

}  // namespace

absl::Status Parse(const std::string& bytes, absl::string_view what,
                   google::protobuf::Message& message) {
  if (message.MergeFromString(bytes)) return absl::OkStatus();
  const std::string text = BadText(bytes, *message.GetDescriptor());
  if (!text.empty()) return NoText(text);
  return absl::InvalidArgumentError(absl::StrCat(
      what, " is not a serialised ", message.GetDescriptor()->name()));
}

absl::Status CheckText(absl::string_view field, const std::string& text) {
  if (google::protobuf::internal::IsStructurallyValidUTF8(text)) {
    return absl::OkStatus();
  }
  return NoText(field);
}

}  // namespace gemmd::rpc
