// Which of several contenders is the fastest, from samples of their times that
// somebody else takes one after the other. Contender 0 is the incumbent:
// another one takes its place only when it beats it in two rounds that share no
// sample. It beats it in a round when its median is below all that the
// incumbent took, and below the incumbent's median by what is worth a change.
// Thread-compatible.
//
// All are sampled once or twice, and those that cannot win drop out, as they do
// after the first round. The rest are sampled in turn, forth and back, so that
// what disturbs the device disturbs all alike.
#ifndef GEMMD_SERVICE_ENGINE_CONTEST_H_
#define GEMMD_SERVICE_ENGINE_CONTEST_H_

#include <cstddef>
#include <optional>
#include <vector>

namespace gemmd::engine {

class Contest {
 public:
  struct Options {
    double least_gain = 0.005;   // Of the incumbent's time,
    double least_gain_us = 0.1;  // and in microseconds: what the shortest
                                 // kernels take differs by it from day to day.
    double unlikely = 1.3;       // Times of the fastest, in one sample;
    double hopeless = 1.1;       // in the better one of two.
    size_t finalists = 5;        // Beside the incumbent.
    int samples = 5;             // Of each finalist in a round.
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
  enum class Stage {
    kFirstLook,
    kSecondLook,
    kFirstRound,
    kSecondRound,
    kOver
  };

  void EndStage();
  // Wants so many samples of each that is left.
  void Schedule(Stage stage, int samples);
  // Keeps the incumbent and whose best sample is at most so many times that of
  // the fastest.
  void KeepWithin(double times);
  void KeepFastest(size_t count);  // And the incumbent.
  // Adds the medians of a round, and keeps the incumbent and who beats it.
  void EndRound();
  void Decide();
  double Least(size_t contender) const;

  const Options options_;
  Stage stage_ = Stage::kFirstLook;
  std::vector<size_t> left_;                  // The incumbent first.
  std::vector<std::vector<double>> samples_;  // By contender, of both looks or
                                              // of a round.
  std::vector<size_t> order_;                 // Of this stage.
  size_t at_ = 0;                             // In order_.
  bool backwards_ = false;                    // The next pass.
  std::vector<double> medians_us_;            // By contender, of all rounds.
  int rounds_ = 0;
  Result result_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_CONTEST_H_
