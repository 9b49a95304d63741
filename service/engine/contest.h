// Which of several contenders is the fastest, from samples of their times that
// somebody else takes one after the other. Contender 0 is the incumbent:
// another one takes its place only when it is faster by more than noise is, in
// two rounds that share no sample. Thread-compatible.
//
// All are sampled first, and those that cannot win drop out; the rest are
// sampled in turn, forth and back, so that what disturbs the device disturbs
// all alike.
#ifndef GEMMD_SERVICE_ENGINE_CONTEST_H_
#define GEMMD_SERVICE_ENGINE_CONTEST_H_

#include <cstddef>
#include <optional>
#include <vector>

namespace gemmd::engine {

class Contest {
 public:
  struct Options {
    double noise = 0.02;    // What two times of one kernel may differ by.
    double hopeless = 1.1;  // Times of the fastest, in the first samples.
    size_t finalists = 5;   // Beside the incumbent.
    int first_samples = 2;  // Of each contender; the least counts.
    int samples = 3;        // Of each finalist in a round; their median counts.
  };

  // At least one contender.
  explicit Contest(size_t contenders) : Contest(contenders, Options()) {}
  Contest(size_t contenders, Options options);

  // Whose sample is wanted; none when all is decided.
  std::optional<size_t> Next() const;
  // The sample that was wanted, in microseconds.
  void Add(double us);

  struct Result {
    size_t winner = 0;
    double incumbent_us = 0;
    double winner_us = 0;
  };
  // Once nothing is wanted any more.
  Result result() const { return result_; }

 private:
  static constexpr int kRounds = 2;

  void Schedule(const std::vector<size_t>& contenders, int samples);
  void DropHopeless();
  std::vector<double> EndRound();
  void Decide();

  const Options options_;
  std::vector<std::vector<double>> samples_;  // Of this stage, by contender.
  std::vector<size_t> order_;                 // Of this stage.
  size_t at_ = 0;                             // In order_.
  std::vector<size_t> finalists_;             // Empty in the first stage.
  std::vector<std::vector<double>> rounds_;   // Medians by finalist.
  bool decided_ = false;
  Result result_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_CONTEST_H_
