// Which page of a list is next. Thread-compatible.
#ifndef GEMMD_CLIENTS_CPP_PAGE_TOKEN_H_
#define GEMMD_CLIENTS_CPP_PAGE_TOKEN_H_

#include <string>

#include "absl/status/status.h"

namespace gemmd::client {

// Of a daemon that is trusted to have ever more to tell, a list would have no
// end, and would take all memory.
class PageToken {
 public:
  // Of 1000 each; a daemon has room for less.
  static constexpr int kMostPages = 1000;

  // "" for the first page, and once there was the last one.
  const std::string& text() const { return text_; }
  // Goes on to the page after the one that says so. INTERNAL where that is the
  // same again, or there were too many.
  absl::Status Advance(const std::string& next);

 private:
  std::string text_;
  int pages_ = 0;
};

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_PAGE_TOKEN_H_
