// Those who wait for bytes, in the order in which they came: a line for each
// size, of which those between two powers of two are one. A step looks at the
// first of each line alone, so that it takes as long with ten thousand who wait
// as with ten, and among those of one line nobody is overtaken.
// Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_LINES_BY_SIZE_H_
#define GEMMD_SERVICE_RPC_LINES_BY_SIZE_H_

#include <bit>
#include <cstdint>
#include <limits>
#include <map>

namespace gemmd::rpc {

// T has `bytes()`, and `number()`, which grows from each to the next who comes.
template <typename T>
class LinesBySize {
 public:
  bool empty() const { return lines_.empty(); }
  void Add(T& one) { lines_[LineOf(one)].emplace(one.number(), &one); }
  void Remove(const T& one) {
    const auto line = lines_.find(LineOf(one));
    line->second.erase(one.number());
    if (line->second.empty()) lines_.erase(line);
  }

  // Who came first of those that are first in a line and wait for at most
  // `most_bytes`; null when there is none.
  T* First(int64_t most_bytes = std::numeric_limits<int64_t>::max()) const {
    T* first = nullptr;
    for (const auto& [size, line] : lines_) {
      T* const one = line.begin()->second;
      if (one->bytes() > most_bytes) continue;
      if (first == nullptr || one->number() < first->number()) first = one;
    }
    return first;
  }

 private:
  static int LineOf(const T& one) {
    return std::bit_width(static_cast<uint64_t>(one.bytes()));
  }

  std::map<int, std::map<int64_t, T*>> lines_;  // None is empty.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_LINES_BY_SIZE_H_
