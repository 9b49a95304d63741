#include "clients/warmup/progress.h"

#include <unistd.h>

#include "absl/strings/str_format.h"

namespace gemmd::warmup {
namespace {

constexpr int kBarColumns = 24;
constexpr char kClearLine[] = "\r\033[K";

}  // namespace

Progress::Progress(std::FILE* out, int steps)
    : out_(out), steps_(steps), terminal_(isatty(fileno(out)) == 1) {}

Progress::~Progress() {
  if (terminal_) std::fputs(kClearLine, out_);
}

void Progress::Step(const std::string& text) {
  std::lock_guard lock(mutex_);
  ++done_;
  Draw(text);
}

void Progress::Note(const std::string& text) {
  std::lock_guard lock(mutex_);
  absl::FPrintF(out_, "%s%s\n", terminal_ ? kClearLine : "", text);
  std::fflush(out_);
}

void Progress::Draw(const std::string& text) {
  if (terminal_) {
    const int filled = steps_ == 0 ? 0 : kBarColumns * done_ / steps_;
    absl::FPrintF(out_, "%s[%s%s] %d/%d %s", kClearLine,
                  std::string(filled, '#'),
                  std::string(kBarColumns - filled, '.'), done_, steps_, text);
  } else {
    absl::FPrintF(out_, "[%d/%d] %s\n", done_, steps_, text);
  }
  std::fflush(out_);
}

}  // namespace gemmd::warmup
