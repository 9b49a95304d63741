#include "clients/cli/nearest.h"

#include <algorithm>

namespace gemmd::cli {
namespace {

// Letters to insert, leave out, replace or swap with their neighbours until `a`
// is `b`.
size_t Distance(absl::string_view a, absl::string_view b) {
  // Of the first i letters of `a` and the first j of `b`.
  std::vector<std::vector<size_t>> to(a.size() + 1,
                                      std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        to[i][j] = i + j;
        continue;
      }
      to[i][j] = std::min({to[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                           to[i - 1][j] + 1, to[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        to[i][j] = std::min(to[i][j], to[i - 2][j - 2] + 1);
      }
    }
  }
  return to.back().back();
}

}  // namespace

std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& known) {
  constexpr size_t kMostLetters = 64;  // Longer ones are no slip.
  if (word.size() > kMostLetters) return "";
  std::string nearest;
  size_t least = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = Distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace gemmd::cli
