#include "clients/gemmctl/npy_header.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "jit/base/printable.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is malformed"));
}

// What is left of a literal. Blanks between its words mean nothing.
class Literal {
 public:
  explicit Literal(absl::string_view text) : rest_(text) {}

  bool Take(absl::string_view word) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return absl::ConsumePrefix(&rest_, word);
  }
  // In quotes of either kind; numpy escapes nothing.
  std::optional<std::string> TakeText() {
    const absl::string_view quote = Take("'") ? "'" : Take("\"") ? "\"" : "";
    const size_t end = quote.empty() ? rest_.npos : rest_.find(quote);
    if (end == rest_.npos) return {};
    return std::string(TakeBytes(end + 1).substr(0, end));
  }
  std::optional<int64_t> TakeNumber() {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    size_t end = 0;
    while (end < rest_.size() &&
           absl::ascii_isdigit(static_cast<unsigned char>(rest_[end]))) {
      ++end;
    }
    int64_t number = 0;
    if (!absl::SimpleAtoi(TakeBytes(end), &number)) return {};
    absl::ConsumePrefix(&rest_, "L");  // Of Python 2.
    return number;
  }
  bool ended() const { return absl::StripAsciiWhitespace(rest_).empty(); }

 private:
  absl::string_view TakeBytes(size_t count) {
    return std::exchange(rest_, rest_.substr(count)).substr(0, count);
  }

  absl::string_view rest_;
};

absl::Status Read(Literal& from, std::string& type) {
  std::optional<std::string> text = from.TakeText();
  if (!text) {
    return absl::InvalidArgumentError("structured types are no matrices");
  }
  type = *std::move(text);
  return absl::OkStatus();
}

absl::Status Read(Literal& from, bool& is_fortran) {
  is_fortran = from.Take("True");
  if (is_fortran || from.Take("False")) return absl::OkStatus();
  return Malformed("its fortran_order");
}

absl::Status Read(Literal& from, std::vector<int64_t>& shape) {
  if (!from.Take("(")) return Malformed("its shape");
  bool comma = true;
  while (!from.Take(")")) {
    const std::optional<int64_t> side = from.TakeNumber();
    if (!comma || !side) return Malformed("its shape");
    shape.push_back(*side);
    comma = from.Take(",");
  }
  // To Python (3) is a number, and (3,) a tuple.
  if (shape.size() == 1 && !comma) return Malformed("its shape");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text) {
  NpyHeader header;
  Literal rest(text);
  std::set<std::string> missing = {"descr", "fortran_order", "shape"};
  if (!rest.Take("{")) return Malformed("the header");
  bool comma = true;
  while (!rest.Take("}")) {
    const std::optional<std::string> key = rest.TakeText();
    if (!comma || !key || !rest.Take(":")) return Malformed("the header");
    if (missing.erase(*key) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header has '", jit::Printable(*key),
                       "'; allowed: 'descr', 'fortran_order' and 'shape', each "
                       "of them once"));
    }
    RETURN_IF_ERROR(*key == "descr"   ? Read(rest, header.type)
                    : *key == "shape" ? Read(rest, header.shape)
                                      : Read(rest, header.is_fortran));
    comma = rest.Take(",");
  }
  if (!rest.ended()) return Malformed("the header");
  if (missing.empty()) return header;
  return absl::InvalidArgumentError(
      absl::StrCat("the header has no '", absl::StrJoin(missing, "', '"), "'"));
}

}  // namespace gemmd::gemmctl
