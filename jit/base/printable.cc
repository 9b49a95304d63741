#include "jit/base/printable.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace gemmd::jit {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: not UTF-8.
};

// The first character of `text`, which is not empty.
Character Decode(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  // Too long a form of a smaller one, half of a pair, beyond Unicode.
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[bytes] || surrogate || code > 0x10ffff) return {};
  return {code, bytes};
}

// Ranges of controls: C0, delete and C1, then invisible and bidirectional
// formatting, line and paragraph separators, tags.
bool IsControl(uint32_t code) {
  constexpr struct {
    uint32_t first, last;
  } kControls[] = {
      {0x0, 0x1f},      {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
      {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
      {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
  };
  for (const auto& range : kControls) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

std::string Escape(uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
  }
  if (code < 0x80) return absl::StrFormat("\\x%02x", code);
  if (code > 0xffff) return absl::StrFormat("\\U%08x", code);
  return absl::StrFormat("\\u%04x", code);
}

std::string Show(absl::string_view text, bool lines) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character character = Decode(text);
    if (character.bytes == 0) {
      shown += absl::StrFormat("\\x%02x", static_cast<uint8_t>(text[0]));
    } else if (lines && (character.code == '\n' || character.code == '\t')) {
      shown += text[0];
    } else if (IsControl(character.code)) {
      shown += Escape(character.code);
    } else {
      shown.append(text.data(), character.bytes);
    }
    text.remove_prefix(character.bytes == 0 ? 1 : character.bytes);
  }
  return shown;
}

}  // namespace

std::string Printable(absl::string_view text) { return Show(text, false); }

std::string PrintableLines(absl::string_view text) { return Show(text, true); }

}  // namespace gemmd::jit
