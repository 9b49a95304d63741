#include "clients/warmup/json.h"

#include <google/protobuf/util/json_util.h>

#include <cstdio>

namespace gemmd::warmup {

FlagSpec JsonFlag() { return {"json", "", "print JSON"}; }

google::protobuf::Value& Json::Field(const std::string& name) {
  return (*struct_.mutable_fields())[name];
}

void Json::Set(const std::string& name, absl::string_view text) {
  Field(name).set_string_value(std::string(text));
}

void Json::Set(const std::string& name, int64_t number) {
  Field(name).set_number_value(static_cast<double>(number));
}

void Json::Set(const std::string& name, const std::vector<std::string>& texts) {
  auto& list = *Field(name).mutable_list_value();
  for (const std::string& text : texts) {
    list.add_values()->set_string_value(text);
  }
}

void Json::Append(const std::string& name, const Json& object) {
  *Field(name).mutable_list_value()->add_values()->mutable_struct_value() =
      object.struct_;
}

void Json::Print() const {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string text;
  // Fails only for what a Struct cannot hold.
  (void)google::protobuf::util::MessageToJsonString(struct_, &text, options);
  std::fputs(text.c_str(), stdout);
}

}  // namespace gemmd::warmup
