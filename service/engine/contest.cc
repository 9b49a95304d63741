#include "service/engine/contest.h"

#include <algorithm>
#include <numeric>

#include "jit/base/status.h"

namespace gemmd::engine {
namespace {

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

Contest::Contest(size_t contenders, Options options)
    : options_(options),
      left_(contenders),
      samples_(contenders),
      medians_us_(contenders) {
  CHECK(contenders > 0);
  std::iota(left_.begin(), left_.end(), size_t{0});
  Schedule(Stage::kFirstLook, 1);
}

// Forth and back: nobody always follows the same neighbour.
void Contest::Schedule(Stage stage, int samples) {
  stage_ = stage;
  order_.clear();
  at_ = 0;
  for (int i = 0; i < samples; ++i, backwards_ = !backwards_) {
    if (backwards_) {
      order_.insert(order_.end(), left_.rbegin(), left_.rend());
    } else {
      order_.insert(order_.end(), left_.begin(), left_.end());
    }
  }
}

std::optional<size_t> Contest::Next() const {
  if (stage_ == Stage::kOver) return std::nullopt;
  return order_[at_];
}

void Contest::Add(double us) {
  CHECK(stage_ != Stage::kOver);
  samples_[order_[at_]].push_back(us);
  if (++at_ == order_.size()) EndStage();
}

void Contest::EndStage() {
  switch (stage_) {
    case Stage::kFirstLook:
      KeepWithin(options_.unlikely);
      return Schedule(Stage::kSecondLook, 1);
    case Stage::kSecondLook:
      KeepWithin(options_.hopeless);
      KeepFastest(options_.finalists);
      for (std::vector<double>& of_one : samples_) of_one.clear();
      return Schedule(Stage::kFirstRound, options_.samples);
    case Stage::kFirstRound:
      EndRound();
      if (left_.size() == 1) return Decide();
      return Schedule(Stage::kSecondRound, options_.samples);
    case Stage::kSecondRound:
      EndRound();
      return Decide();
    case Stage::kOver:
      return;
  }
}

double Contest::Least(size_t contender) const {
  return std::ranges::min(samples_[contender]);
}

void Contest::KeepWithin(double times) {
  double least = Least(0);
  for (const size_t i : left_) least = std::min(least, Least(i));
  std::erase_if(left_,
                [&](size_t i) { return i != 0 && Least(i) > times * least; });
}

void Contest::KeepFastest(size_t count) {
  const auto others = left_.begin() + 1;
  std::stable_sort(others, left_.end(),
                   [this](size_t a, size_t b) { return Least(a) < Least(b); });
  left_.resize(std::min(left_.size(), 1 + count));
}

void Contest::EndRound() {
  ++rounds_;
  const double incumbent_us = Median(samples_[0]);
  const double worth_us =
      incumbent_us -
      std::max(options_.least_gain * incumbent_us, options_.least_gain_us);
  const double to_beat_us = std::min(worth_us, Least(0));
  std::vector<double> medians(samples_.size());
  for (const size_t i : left_) {
    medians[i] = Median(samples_[i]);
    medians_us_[i] += medians[i];
    samples_[i].clear();
  }
  std::erase_if(left_,
                [&](size_t i) { return i != 0 && medians[i] >= to_beat_us; });
}

void Contest::Decide() {
  stage_ = Stage::kOver;
  // Who is left beside the incumbent beat it twice.
  const size_t winner = *std::ranges::min_element(
      left_, {}, [this](size_t i) { return medians_us_[i]; });
  result_ = {winner, medians_us_[0] / rounds_, medians_us_[winner] / rounds_};
}

}  // namespace gemmd::engine
