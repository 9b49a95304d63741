// What a plan depends on: a problem, folded, without the values of its scalars,
// of which only zero or not zero matters. Key of the table of plans.
#ifndef GEMMD_SERVICE_ENGINE_SHAPE_H_
#define GEMMD_SERVICE_ENGINE_SHAPE_H_

#include <utility>

#include "jit/problem/problem.h"

namespace gemmd::engine {

class Shape {
 public:
  explicit Shape(const jit::Problem& problem) : problem_(jit::Folded(problem)) {
    if (!problem.reads_ab())
      problem_.alpha = 0.0f;
    else if (problem.alpha != 1.0f)
      problem_.alpha = 2.0f;
    problem_.beta = problem.reads_c() ? 1.0f : 0.0f;
  }

  // One of that shape.
  const jit::Problem& problem() const { return problem_; }

  template <typename H>
  friend H AbslHashValue(H h, const Shape& shape) {
    const jit::Problem& p = shape.problem_;
    return H::combine(std::move(h), p.m, p.n, p.k, p.a_type, p.d_type,
                      p.a_order, p.b_order);
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  jit::Problem problem_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_SHAPE_H_
