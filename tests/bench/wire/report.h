// Rows of a contest as a table, and as JSON.
#ifndef GEMMD_TESTS_BENCH_WIRE_REPORT_H_
#define GEMMD_TESTS_BENCH_WIRE_REPORT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tests/bench/wire/contest.h"
#include "tests/bench/wire/way.h"

namespace gemmd::wire {

std::string TableHead();
std::string TableLine(const Row& row);
std::string Json(const Load& load, const ContestOptions& options,
                 absl::Span<const Row> rows);

}  // namespace gemmd::wire

#endif  // GEMMD_TESTS_BENCH_WIRE_REPORT_H_
