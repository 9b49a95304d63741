// What --json prints: one object, with the names that the API has for things.
#ifndef GEMMD_CLIENTS_WARMUP_JSON_H_
#define GEMMD_CLIENTS_WARMUP_JSON_H_

#include <google/protobuf/struct.pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "clients/warmup/flags.h"

namespace gemmd::warmup {

// The switch.
FlagSpec JsonFlag();

// Thread-compatible.
class Json {
 public:
  void Set(const std::string& name, absl::string_view text);
  void Set(const std::string& name, int64_t number);
  void Set(const std::string& name, const std::vector<std::string>& texts);
  // A further object in the list `name`.
  void Append(const std::string& name, const Json& object);

  // To standard output, with a line end.
  void Print() const;

 private:
  google::protobuf::Value& Field(const std::string& name);

  google::protobuf::Struct struct_;
};

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_JSON_H_
