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
    : options_(options), samples_(contenders) {
  CHECK(contenders > 0);
  std::vector<size_t> all(contenders);
  std::iota(all.begin(), all.end(), size_t{0});
  Schedule(all, options_.first_samples);
}

// Forth and back: nobody always follows the same neighbour.
void Contest::Schedule(const std::vector<size_t>& contenders, int samples) {
  for (std::vector<double>& of_one : samples_) of_one.clear();
  order_.clear();
  at_ = 0;
  for (int i = 0; i < samples; ++i) {
    if (i % 2 == 0) {
      order_.insert(order_.end(), contenders.begin(), contenders.end());
    } else {
      order_.insert(order_.end(), contenders.rbegin(), contenders.rend());
    }
  }
}

std::optional<size_t> Contest::Next() const {
  if (decided_) return std::nullopt;
  return order_[at_];
}

void Contest::Add(double us) {
  CHECK(!decided_);
  samples_[order_[at_]].push_back(us);
  if (++at_ < order_.size()) return;
  if (finalists_.empty()) {
    DropHopeless();
  } else {
    rounds_.push_back(EndRound());
  }
  if (rounds_.size() == kRounds) {
    Decide();
  } else {
    Schedule(finalists_, options_.samples);
  }
}

void Contest::DropHopeless() {
  std::vector<double> least;
  for (const std::vector<double>& of_one : samples_) {
    least.push_back(std::ranges::min(of_one));
  }
  const double limit = options_.hopeless * std::ranges::min(least);
  std::vector<size_t> others;
  for (size_t i = 1; i < least.size(); ++i) {
    if (least[i] <= limit) others.push_back(i);
  }
  std::ranges::stable_sort(
      others, [&](size_t a, size_t b) { return least[a] < least[b]; });
  if (others.size() > options_.finalists) others.resize(options_.finalists);
  finalists_ = {0};
  finalists_.insert(finalists_.end(), others.begin(), others.end());
}

std::vector<double> Contest::EndRound() {
  std::vector<double> medians;
  for (const size_t finalist : finalists_) {
    medians.push_back(Median(samples_[finalist]));
  }
  return medians;
}

void Contest::Decide() {
  decided_ = true;
  const auto mean = [this](size_t i) {
    return (rounds_[0][i] + rounds_[1][i]) / kRounds;
  };
  size_t best = 0;
  for (size_t i = 1; i < finalists_.size(); ++i) {
    const bool faster =
        std::ranges::all_of(rounds_, [&](const std::vector<double>& us) {
          return us[i] < (1 - options_.noise) * us[0];
        });
    if (faster && mean(i) < mean(best)) best = i;
  }
  result_ = {finalists_[best], mean(0), mean(best)};
}

}  // namespace gemmd::engine
