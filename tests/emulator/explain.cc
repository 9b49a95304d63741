#include "tests/emulator/explain.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gemmd::emulator {
namespace {

using jit::MatrixLayout;

// A D by its elements' bytes.
class View {
 public:
  View(const MatrixLayout& layout, const char* bytes)
      : layout_(layout), bytes_(bytes) {}

  const char* At(int64_t line, int64_t i) const {
    return bytes_ + line * layout_.pitch_bytes() + i * size();
  }
  bool Same(int64_t line, int64_t i, const View& other, int64_t other_line,
            int64_t other_i) const {
    return std::memcmp(At(line, i), other.At(other_line, other_i),
                       static_cast<size_t>(size())) == 0;
  }
  int64_t size() const { return jit::BytesOf(layout_.type); }
  int64_t lines() const { return layout_.lines(); }
  int64_t width() const { return layout_.width(); }

 private:
  const MatrixLayout layout_;
  const char* bytes_;
};

int64_t Wrong(const View& is, const View& should) {
  int64_t wrong = 0;
  for (int64_t line = 0; line < is.lines(); ++line) {
    for (int64_t i = 0; i < is.width(); ++i) {
      wrong += !is.Same(line, i, should, line, i);
    }
  }
  return wrong;
}

std::string NeverWritten(const View& is, const View& should) {
  const std::string old(static_cast<size_t>(is.size()), Operands::kUnwritten);
  int64_t count = 0;
  for (int64_t line = 0; line < is.lines(); ++line) {
    for (int64_t i = 0; i < is.width(); ++i) {
      count += !is.Same(line, i, should, line, i) &&
               std::memcmp(is.At(line, i), old.data(), old.size()) == 0;
    }
  }
  return count == 0 ? "" : absl::StrCat(count, " were never written");
}

// Whether another problem on the same operands gives what is there.
bool Gives(const jit::Problem& other, const Operands& operands) {
  const std::string d = operands.Expected(other).d;
  return Wrong(View(other.d(), operands.d.data()), View(other.d(), d.data())) ==
         0;
}

std::string AnotherScalar(const jit::Problem& problem,
                          const Operands& operands) {
  for (const float scalar : {0.0f, 1.0f, -problem.alpha, problem.beta}) {
    jit::Problem other = problem;
    other.alpha = scalar;
    if (scalar != problem.alpha && Gives(other, operands)) {
      return absl::StrCat("as if alpha were ", scalar);
    }
  }
  for (const float scalar : {0.0f, 1.0f, -problem.beta, problem.alpha}) {
    jit::Problem other = problem;
    other.beta = scalar;
    // An operand that is not there cannot have been added.
    if (!problem.reads_c()) continue;
    if (scalar != problem.beta && Gives(other, operands)) {
      return absl::StrCat("as if beta were ", scalar);
    }
  }
  return "";
}

std::string StageLeftOut(const jit::Problem& problem,
                         const Operands& operands) {
  if (!problem.reads_ab()) return "";
  const View is(problem.d(), operands.d.data());
  const auto explains = [&](const auto& left_out) {
    const std::string d = operands.ExpectedWithout(problem, left_out).d;
    return Wrong(is, View(problem.d(), d.data())) == 0;
  };
  const int64_t stage = 128 * 8 / jit::BitsOf(problem.a_type);
  for (int64_t first = 0; first < problem.k; first += stage) {
    if (explains([&](int64_t k) { return k / stage == first / stage; })) {
      return absl::StrCat("as if k from ", first, " to ",
                          std::min(first + stage, problem.k), " were left out");
    }
  }
  for (int part = 0; part < operands.splits(); ++part) {
    if (explains(
            [&](int64_t k) { return k / stage % operands.splits() == part; })) {
      return absl::StrCat("as if part ", part, " of ", operands.splits(),
                          " of k were left out");
    }
  }
  return "";
}

// Whether half of the wrong elements have been made with another line of C.
std::string AnotherC(const jit::Problem& problem, const Operands& operands,
                     const View& should) {
  if (!problem.reads_c()) return "";
  const View is(problem.d(), operands.d.data());
  const int64_t wrong = Wrong(is, should);
  for (const int64_t by : {8, 16, 32, 64, 96, 128}) {
    for (const int64_t lines : {by, -by}) {
      const std::string d = operands.ExpectedWithCFrom(problem, lines).d;
      const View other(problem.d(), d.data());
      int64_t found = 0;
      for (int64_t line = 0; line < is.lines(); ++line) {
        for (int64_t i = 0; i < is.width(); ++i) {
          found += !is.Same(line, i, should, line, i) &&
                   is.Same(line, i, other, line, i);
        }
      }
      if (found * 2 >= wrong) {
        return absl::StrCat("as if C's lines were those ", by,
                            lines > 0 ? " further on" : " before");
      }
    }
  }
  return "";
}

// Whether nine in ten of the wrong elements are right ones of another place.
std::string Displaced(const View& is, const View& should) {
  for (const int64_t by : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    for (const auto& [lines, elements] :
         {std::pair{by, int64_t{0}}, std::pair{-by, int64_t{0}},
          std::pair{int64_t{0}, by}, std::pair{int64_t{0}, -by}}) {
      int64_t wrong = 0, found = 0;
      for (int64_t line = 0; line < is.lines(); ++line) {
        for (int64_t i = 0; i < is.width(); ++i) {
          if (is.Same(line, i, should, line, i)) continue;
          const int64_t from = line + lines, at = i + elements;
          if (from < 0 || from >= is.lines() || at < 0 || at >= is.width()) {
            continue;
          }
          ++wrong;
          found += is.Same(line, i, should, from, at);
        }
      }
      if (wrong > 0 && found * 10 >= wrong * 9) {
        return absl::StrCat(
            "right ones of ", std::abs(by), lines != 0 ? " lines" : " elements",
            by == lines || by == elements ? " further on" : " before");
      }
    }
  }
  return "";
}

// Whether most blocks of 128 bytes of lines have the right pieces of 16 bytes,
// if in another order: that is what swizzles permute.
std::string Permuted(const View& is, const View& should) {
  constexpr int64_t kPieceBytes = 16, kPieces = 8;
  const int64_t piece = kPieceBytes / is.size();
  int64_t alike = 0, blocks = 0;
  for (int64_t line = 0; line < is.lines(); ++line) {
    for (int64_t block = 0; block + kPieces * piece <= is.width();
         block += kPieces * piece) {
      std::vector<std::string> here, there;
      for (int64_t i = 0; i < kPieces; ++i) {
        here.emplace_back(is.At(line, block + i * piece), kPieceBytes);
        there.emplace_back(should.At(line, block + i * piece), kPieceBytes);
      }
      std::sort(here.begin(), here.end());
      std::sort(there.begin(), there.end());
      ++blocks;
      alike += here == there;
    }
  }
  if (alike * 10 < blocks * 7) return "";
  return "lines have the right pieces of 16 bytes in a wrong order: another"
         " swizzle than the copy engine's";
}

}  // namespace

std::string Explain(const jit::Problem& problem, const Operands& operands,
                    const std::string& expected) {
  const View is(problem.d(), operands.d.data());
  const View should(problem.d(), expected.data());
  std::string why = NeverWritten(is, should);
  if (why.empty()) why = AnotherScalar(problem, operands);
  if (why.empty()) why = StageLeftOut(problem, operands);
  if (why.empty()) why = AnotherC(problem, operands, should);
  if (why.empty()) why = Displaced(is, should);
  if (why.empty()) why = Permuted(is, should);
  return why;
}

}  // namespace gemmd::emulator
