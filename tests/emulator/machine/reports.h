// What a program did that hardware leaves undefined, each kind of thing once.
// Thread-compatible.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_REPORTS_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_REPORTS_H_

#include <algorithm>
#include <string>
#include <vector>

namespace gemmd::emulator {

class Reports {
 public:
  // `text` says who did what and why that is undefined. What is said once of a
  // thread is not said of others: only the first report of a `kind` is kept.
  void Add(const std::string& kind, const std::string& text) {
    if (std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end()) return;
    kinds_.push_back(kind);
    texts_.push_back(kind + ": " + text);
  }
  const std::vector<std::string>& texts() const { return texts_; }
  bool empty() const { return texts_.empty(); }

 private:
  std::vector<std::string> kinds_;
  std::vector<std::string> texts_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_REPORTS_H_
