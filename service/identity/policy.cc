#include "service/identity/policy.h"

#include <google/protobuf/util/json_util.h>
#include <pwd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gemmd/v1/policy.pb.h"
#include "jit/base/file.h"
#include "jit/base/printable.h"
#include "jit/base/status.h"

namespace gemmd::identity {
namespace {

constexpr int kMaxPrincipals = 10'000;
constexpr size_t kMaxNameBytes = 64;
constexpr int kMaxWeight = 1000;
// As of --max-inflight-bytes: smaller messages need no room.
constexpr int64_t kLeastInFlightBytes = 64 << 10;

absl::Status Wrong(absl::string_view where, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

absl::Status NoJson(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("it is no JSON of gemmd.v1.Policy: ", why));
}

// protobuf says in one line what is wrong, in the next what stands there, and
// marks the place below that, for which a line of a log has no room.
std::string InOneLine(absl::string_view said) {
  const std::vector<absl::string_view> lines = absl::StrSplit(said, '\n');
  if (lines.size() != 3) return jit::Printable(said);
  const size_t place = std::min(lines[2].find('^'), lines[1].size());
  const std::string there = jit::Printable(lines[1].substr(place));
  return absl::StrCat(
      lines[0], there.empty() ? " It ends there." : " It goes on: ", there);
}

using Json = nlohmann::json;

// `json`, which is a policy to protobuf, if no object of it names a field
// twice: protobuf would take both together, and another reader one of them.
absl::StatusOr<Json> ParseOnceNamed(absl::string_view json) {
  // Of the objects around, the outermost first. A field is max_calls and
  // maxCalls.
  std::vector<absl::flat_hash_set<std::string>> named;
  int objects = 0;  // The policy itself, and principals.
  absl::Status status;
  const auto note = [&](int, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::object_start) {
      named.emplace_back();
      ++objects;
    } else if (event == Json::parse_event_t::object_end) {
      named.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const std::string name = value.get<std::string>();
      const std::string field =
          absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"_", ""}}));
      if (named.back().insert(field).second || !status.ok()) return true;
      const std::string where =
          named.size() == 1 ? "the policy"
                            : absl::StrCat("principals[", objects - 2, "]");
      status = Wrong(where, absl::StrCat("\"", name, "\" is named twice"));
    }
    return true;
  };
  Json parsed = Json::parse(json, note, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) {
    return NoJson(
        "names and texts have to be in double quotes, and behind the "
        "last of an object or a list is no comma");
  }
  RETURN_IF_ERROR(status);
  return parsed;
}

// That values are of the types of their fields, and not what protobuf makes
// those of: it takes null for nothing, "3" for 3, and "a" for ["a"].
absl::Status CheckTypes(const Json& value,
                        const google::protobuf::Descriptor& message,
                        absl::string_view where) {
  if (!value.is_object()) return Wrong(where, "allowed: an object");
  for (const auto& [name, of_field] : value.items()) {
    const auto* field = message.FindFieldByName(name);
    if (field == nullptr) field = message.FindFieldByCamelcaseName(name);
    if (field == nullptr) {
      return Wrong(where, absl::StrCat("\"", jit::PrintableLines(name),
                                       "\" is no field of it"));
    }
    const auto wrong = [&](absl::string_view allowed) {
      return Wrong(where, absl::StrCat("\"", name,
                                       "\" has a value of another type; "
                                       "allowed: ",
                                       allowed));
    };
    const bool texts = field->type() == field->TYPE_STRING;
    if (!field->is_repeated()) {
      if (texts ? of_field.is_string() : of_field.is_number()) continue;
      return wrong(texts ? "a text" : "a number");
    }
    if (!of_field.is_array()) return wrong("a list");
    for (size_t i = 0; i < of_field.size(); ++i) {
      if (!texts) {
        RETURN_IF_ERROR(CheckTypes(of_field[i], *field->message_type(),
                                   absl::StrCat(name, "[", i, "]")));
      } else if (!of_field[i].is_string()) {
        return wrong("a list of texts");
      }
    }
  }
  return absl::OkStatus();
}

bool IsPrincipalName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        !absl::StrContains("_.-@", c)) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<Access> ToRole(const std::string& name) {
  for (const Access role :
       {Access::kCompute, Access::kTensors, Access::kKernels, Access::kAdmin}) {
    if (name == RoleName(role)) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", jit::PrintableLines(name),
                   "\" is no role; allowed: compute, tensors, kernels, admin"));
}

absl::StatusOr<uid_t> ToUser(const std::string& name,
                             const UserFinder& find_user) {
  uid_t number = 0;
  // Digits alone: SimpleAtoi skips blanks.
  if (absl::c_all_of(name, absl::ascii_isdigit) &&
      absl::SimpleAtoi(name, &number)) {
    return number;
  }
  ASSIGN_OR_RETURN(const std::optional<uid_t> found, find_user(name));
  if (found.has_value()) return *found;
  return absl::InvalidArgumentError(
      absl::StrCat("this machine has no user \"", jit::PrintableLines(name),
                   "\"; allowed: names and numbers of users"));
}

absl::Status CheckCertificateName(absl::string_view name) {
  for (const absl::string_view kind : {"URI:", "DNS:", "email:", "CN:"}) {
    if (absl::StartsWith(name, kind) && name.size() > kind.size()) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("certificates: \"", jit::PrintableLines(name),
                   "\" is none; allowed: URI:, DNS:, email: or CN: and what "
                   "follows it in the certificate"));
}

absl::Status CheckLimit(absl::string_view field, int64_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; allowed: from 0"));
}

absl::StatusOr<Principal> ToPrincipal(const v1::Principal& wire) {
  Principal principal;
  principal.name = wire.name();
  for (const std::string& name : wire.roles()) {
    ASSIGN_OR_RETURN(const Access role, ToRole(name));
    principal.roles |= 1u << static_cast<int>(role);
  }
  if (wire.weight() < 0 || wire.weight() > kMaxWeight) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weight is ", wire.weight(), "; allowed: 0 to ", kMaxWeight));
  }
  if (wire.weight() > 0) principal.weight = wire.weight();
  RETURN_IF_ERROR(CheckLimit("max_tensor_bytes", wire.max_tensor_bytes()));
  RETURN_IF_ERROR(CheckLimit("max_tensors", wire.max_tensors()));
  RETURN_IF_ERROR(CheckLimit("max_calls", wire.max_calls()));
  const int64_t in_flight = wire.max_in_flight_bytes();
  if (in_flight != 0 && in_flight < kLeastInFlightBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_in_flight_bytes is ", in_flight,
                     "; allowed: 0, and from ", kLeastInFlightBytes));
  }
  principal.max_tensor_bytes = wire.max_tensor_bytes();
  principal.max_tensors = wire.max_tensors();
  principal.max_calls = wire.max_calls();
  principal.max_in_flight_bytes = in_flight;
  return principal;
}

// False when `key` stands for another principal already.
template <typename Map, typename Key>
bool Put(Map& map, const Key& key, const PrincipalPointer& principal) {
  const auto [at, created] = map.try_emplace(key, principal);
  return created || at->second == principal;
}

}  // namespace

absl::StatusOr<std::optional<uid_t>> FindUser(const std::string& name) {
  std::vector<char> text(16 << 10);
  passwd entry = {};
  passwd* found = nullptr;
  const int error =
      getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
  if (error != 0) {
    return jit::ErrnoStatus(
        error, absl::StrCat("look up the user \"", jit::PrintableLines(name),
                            "\" on this machine"));
  }
  if (found == nullptr) return std::nullopt;
  return found->pw_uid;
}

absl::StatusOr<Policy> Policy::Parse(absl::string_view json,
                                     const UserFinder& find_user) {
  v1::Policy wire;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      {json.data(), json.size()}, &wire);
  if (!parsed.ok()) {
    return NoJson(InOneLine(std::string(parsed.message())));
  }
  ASSIGN_OR_RETURN(const Json fields, ParseOnceNamed(json));
  RETURN_IF_ERROR(CheckTypes(fields, *wire.GetDescriptor(), "the policy"));
  if (wire.principals_size() > kMaxPrincipals) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", wire.principals_size(),
                     " principals; allowed: 0 to ", kMaxPrincipals));
  }
  Policy policy;
  for (int i = 0; i < wire.principals_size(); ++i) {
    const v1::Principal& one = wire.principals(i);
    const std::string where = absl::StrCat("principals[", i, "]");
    if (!IsPrincipalName(one.name())) {
      return Wrong(where,
                   absl::StrCat("the name has to be 1 to ", kMaxNameBytes,
                                " letters, digits and \"_.-@\""));
    }
    absl::StatusOr<Principal> made = ToPrincipal(one);
    if (!made.ok()) return Wrong(where, made.status().message());
    const auto principal = std::make_shared<const Principal>(*std::move(made));
    if (!policy.by_name_.try_emplace(one.name(), principal).second) {
      return Wrong(where, absl::StrCat(one.name(), " is there already"));
    }
    for (const std::string& name : one.unix_users()) {
      const absl::StatusOr<uid_t> user = ToUser(name, find_user);
      if (!user.ok()) return Wrong(where, user.status().message());
      if (!Put(policy.by_user_, *user, principal)) {
        return Wrong(where, absl::StrCat("the user ", *user,
                                         " is another principal already"));
      }
    }
    for (const std::string& name : one.certificates()) {
      const absl::Status valid = CheckCertificateName(name);
      if (!valid.ok()) return Wrong(where, valid.message());
      if (!Put(policy.by_certificate_, name, principal)) {
        return Wrong(where, absl::StrCat("the certificate ", name,
                                         " is another principal already"));
      }
    }
  }
  return policy;
}

PrincipalPointer Policy::Named(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

PrincipalPointer Policy::OfUser(uid_t user) const {
  const auto found = by_user_.find(user);
  return found == by_user_.end() ? nullptr : found->second;
}

PrincipalPointer Policy::OfCertificate(
    absl::Span<const std::string> names) const {
  PrincipalPointer one;
  for (const std::string& name : names) {
    const auto found = by_certificate_.find(name);
    if (found == by_certificate_.end()) continue;
    if (one != nullptr && one != found->second) return nullptr;
    one = found->second;
  }
  return one;
}

}  // namespace gemmd::identity
