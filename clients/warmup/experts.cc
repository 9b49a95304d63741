#include "clients/warmup/experts.h"

#include <algorithm>
#include <functional>

namespace gemmd::warmup {
namespace {

// The same on every platform, which std::uniform_int_distribution is not.
int64_t Draw(int64_t below, std::mt19937& random) {
  return static_cast<int64_t>(random() % static_cast<uint32_t>(below));
}

}  // namespace

std::vector<int64_t> Route(const Experts& experts, int64_t tokens,
                           Routing routing, std::mt19937& random) {
  std::vector<int64_t> counts(experts.count);
  std::vector<int64_t> last(experts.count, -1);  // Token that came.
  for (int64_t token = 0; token < tokens; ++token) {
    for (int64_t i = 0; i < experts.chosen;) {
      int64_t expert = (token * experts.chosen + i) % experts.count;
      if (routing != Routing::kEven) expert = Draw(experts.count, random);
      if (routing == Routing::kSkewed) {
        expert = std::min(expert, Draw(experts.count, random));
      }
      if (last[expert] == token) continue;  // Another one for this token.
      last[expert] = token;
      ++counts[expert];
      ++i;
    }
  }
  std::erase(counts, 0);
  std::ranges::sort(counts, std::greater<>());
  return counts;
}

jit::ProblemGroup ExpertProjections(const Weight& weight,
                                    const std::vector<int64_t>& tokens,
                                    jit::Order b) {
  jit::ProblemGroup group;
  for (const int64_t m : tokens) group.push_back(Projection(weight, m, b));
  return group;
}

}  // namespace gemmd::warmup
