#include "clients/warmup/progress.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "jit/base/printable.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::warmup {
namespace {

constexpr int kBarColumns = 24;
constexpr size_t kUsualColumns = 80;
constexpr char kClearLine[] = "\r\033[K";

// What comes out of `interrupt_pipe`.
constexpr char kInterrupted = 1;
constexpr char kOver = 0;
int interrupt_pipe[2];

void Tell(char byte) {
  const int error = errno;
  // One byte into an empty pipe cannot fail.
  [[maybe_unused]] const ssize_t written = write(interrupt_pipe[1], &byte, 1);
  errno = error;
}

void OnInterrupt(int) { Tell(kInterrupted); }

void SetHandler(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  CHECK(sigaction(SIGINT, &action, nullptr) == 0);
}

size_t ColumnsOf(std::FILE* out) {
  winsize size = {};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0;
  return known && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

std::string MinutesAndSeconds(absl::Duration time) {
  const int64_t seconds = absl::ToInt64Seconds(time);
  return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
}

}  // namespace

std::string ProgressLine(int done, int steps, absl::Duration elapsed,
                         const std::string& text, size_t columns) {
  const int filled = steps == 0 ? 0 : kBarColumns * done / steps;
  std::string line = absl::StrCat("[", std::string(filled, '#'),
                                  std::string(kBarColumns - filled, '.'), "] ",
                                  done, "/", steps);
  if (done > 0 && done < steps) {
    const absl::Duration left = elapsed / done * (steps - done);
    absl::StrAppend(&line, ", ", MinutesAndSeconds(left), " left");
  }
  absl::StrAppend(&line, ": ", text);
  return line.substr(0, columns);
}

Progress::Progress(std::FILE* out, int steps)
    : out_(out),
      steps_(steps),
      terminal_(isatty(fileno(out)) == 1),
      start_(jit::SteadyNow()) {
  CHECK(pipe2(interrupt_pipe, O_CLOEXEC) == 0);
  interrupts_ = std::thread([this] { WaitForInterrupt(); });
  SetHandler(OnInterrupt);
}

Progress::~Progress() {
  SetHandler(SIG_DFL);
  Tell(kOver);
  interrupts_.join();
  close(interrupt_pipe[0]);
  close(interrupt_pipe[1]);
  if (terminal_) std::fputs(kClearLine, out_);
}

void Progress::WaitForInterrupt() {
  char byte = kOver;
  while (read(interrupt_pipe[0], &byte, 1) != 1) CHECK(errno == EINTR);
  if (byte != kInterrupted) return;
  int done = 0;
  {
    std::lock_guard lock(mutex_);
    done = done_;
  }
  Note(absl::StrCat("interrupted after ",
                    MinutesAndSeconds(jit::SteadyNow() - start_), ": ", done,
                    " of ", steps_, " done; what is done is kept"));
  SetHandler(SIG_DFL);
  kill(getpid(), SIGINT);
}

void Progress::Step(const std::string& text) {
  std::lock_guard lock(mutex_);
  ++done_;
  Draw(text);
}

void Progress::Note(const std::string& text) { Print(out_, text); }

void Progress::Fault(const std::string& text) { Print(stderr, text); }

void Progress::Print(std::FILE* to, const std::string& text) {
  std::lock_guard lock(mutex_);
  if (terminal_) std::fputs(kClearLine, out_);
  std::fflush(out_);
  absl::FPrintF(to, "%s\n", jit::PrintableLines(text));
  std::fflush(to);
}

void Progress::Draw(const std::string& text) {
  if (terminal_) {
    // A line as long as the terminal is wide would wrap on some.
    const size_t columns = ColumnsOf(out_) - 1;
    absl::FPrintF(out_, "%s%s", kClearLine,
                  ProgressLine(done_, steps_, jit::SteadyNow() - start_,
                               jit::Printable(text), columns));
  } else {
    absl::FPrintF(out_, "[%d/%d] %s\n", done_, steps_, jit::Printable(text));
  }
  std::fflush(out_);
}

}  // namespace gemmd::warmup
