// The experts of a mixture, and how tokens may be spread over them. Pure
// functions.
#ifndef GEMMD_CLIENTS_WARMUP_EXPERTS_H_
#define GEMMD_CLIENTS_WARMUP_EXPERTS_H_

#include <cstdint>
#include <random>
#include <vector>

#include "clients/warmup/weight.h"
#include "jit/problem/group_line.h"

namespace gemmd::warmup {

// Every token goes to `chosen` of `count` experts, each of which has all of
// `weights`; a count of 0 where a model has none.
struct Experts {
  int64_t count = 0;
  int64_t chosen = 0;
  std::vector<Weight> weights;
};

// How a router spreads tokens.
enum class Routing {
  kEven,     // As evenly as can be.
  kUniform,  // Each token to any.
  kSkewed,   // To some far more often than to others.
};

// The tokens that each expert has of `tokens`: most first, and none of those
// that have none.
std::vector<int64_t> Route(const Experts& experts, int64_t tokens,
                           Routing routing, std::mt19937& random);

// What one call of MatmulGrouped makes: a projection for each count of tokens.
jit::ProblemGroup ExpertProjections(const Weight& weight,
                                    const std::vector<int64_t>& tokens,
                                    jit::Order b);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_EXPERTS_H_
