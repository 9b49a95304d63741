#include "tests/bench/report.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "tests/bench/sample.h"

namespace gemmd::bench {
namespace {

double Tflops(const jit::Problem& problem, double us) {
  const double flops = 2.0 * static_cast<double>(problem.batch) *
                       static_cast<double>(problem.m) *
                       static_cast<double>(problem.n) *
                       static_cast<double>(problem.k);
  return us > 0 ? flops / us / 1e6 : 0;
}

// What a user waits for: with the padding of odd operands counted.
const Times& Counted(const RaceResult& result, const OurResult& ours) {
  return result.odd ? ours.packed : ours.resident;
}

const OurResult& Best(const RaceResult& result) {
  return result.ours[static_cast<size_t>(result.best)];
}

// How many times faster `ours` is than `theirs`; 0 when either is missing.
double Ratio(double ours_us, double theirs_us) {
  return ours_us > 0 && theirs_us > 0 ? theirs_us / ours_us : 0;
}

double CeilingOf(const Environment& environment, const jit::Problem& problem) {
  const auto found = environment.ceiling_tflops.find(
      Name(InstructionOf(problem.arithmetic())));
  return found == environment.ceiling_tflops.end() ? 0 : found->second;
}

// A ratio, or a dash where there is none.
std::string Fixed(double value, int digits) {
  return value > 0 ? absl::StrFormat("%.*f", digits, value) : "-";
}

std::string CheckText(const OurResult& ours) {
  if (!ours.check.has_value()) return "";
  const CheckResult& check = *ours.check;
  return absl::StrFormat(
      "  %s: error %.2g (%.2f of bound), %s%d foreign bytes",
      check.ok() ? "ok" : "WRONG", check.largest_error,
      check.largest_error_share,
      check.compared
          ? absl::StrFormat("%d mismatches (%.2g), ", check.mismatches,
                            check.largest_difference)
          : "",
      check.foreign_bytes);
}

class GeometricMean {
 public:
  void Add(double value) {
    if (value <= 0) return;
    log_sum_ += std::log(value);
    ++count_;
  }
  std::string Text() const {
    if (count_ == 0) return "-";
    return absl::StrFormat("%.3f (%d shapes)", std::exp(log_sum_ / count_),
                           count_);
  }

 private:
  double log_sum_ = 0;
  int count_ = 0;
};

// Geometric mean, the value that a tenth falls below, and the least.
std::string SpreadText(std::vector<double> ratios) {
  std::ranges::sort(ratios);
  double log_sum = 0;
  for (const double ratio : ratios) log_sum += std::log(ratio);
  return absl::StrFormat("%6.3f %6.3f %6.3f",
                         std::exp(log_sum / static_cast<double>(ratios.size())),
                         ratios[ratios.size() / 10], ratios[0]);
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", c);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// Members of a JSON object, in order.
class Object {
 public:
  Object& Add(const std::string& key, const std::string& json) {
    absl::StrAppend(&members_, members_.empty() ? "" : ", ", Quoted(key), ": ",
                    json);
    return *this;
  }
  // A time, a speed or a ratio; null where nothing was measured.
  Object& Add(const std::string& key, double value) {
    return value > 0 ? AddError(key, value) : Add(key, std::string("null"));
  }
  // An error, of which 0 is the best; null when it is not finite.
  Object& AddError(const std::string& key, double value) {
    return Add(key, std::isfinite(value) ? absl::StrFormat("%.6g", value)
                                         : std::string("null"));
  }
  Object& AddCount(const std::string& key, int64_t value) {
    return Add(key, absl::StrCat(value));
  }
  std::string Text() const { return absl::StrCat("{", members_, "}"); }

 private:
  std::string members_;
};

std::string CheckJson(const CheckResult& check) {
  Object json;
  json.Add("ok", std::string(check.ok() ? "true" : "false"))
      .AddCount("sampled", check.sampled)
      .AddError("largest_error", check.largest_error)
      .AddError("largest_error_share", check.largest_error_share)
      .AddCount("foreign_bytes", check.foreign_bytes);
  if (check.compared) {
    json.AddCount("mismatches", check.mismatches)
        .AddError("largest_difference",
                  static_cast<double>(check.largest_difference));
  }
  return json.Text();
}

std::string TermsJson(const jit::CostTerms& terms) {
  return absl::StrCat("[",
                      absl::StrJoin(terms, ", ",
                                    [](std::string* text, float term) {
                                      absl::StrAppendFormat(text, "%.4g", term);
                                    }),
                      "]");
}

std::string KernelJson(const RaceResult& result, const OurResult& ours) {
  Object json;
  json.Add("kernel", Quoted(ours.kernel))
      .AddCount("grid", ours.grid)
      .AddCount("splits", ours.splits)
      .AddCount("raster_group", ours.raster_group)
      .Add("predicted_cycles", ours.predicted_cycles)
      .Add("predicted_us", ours.predicted_us)
      .Add("terms", TermsJson(ours.terms))
      .Add("us", ours.resident.burst_us)
      .Add("sustained_us", ours.resident.sustained_us)
      .Add("sustained_joules", ours.resident.sustained_joules);
  if (result.odd) {
    json.Add("packed_us", ours.packed.burst_us)
        .Add("packed_sustained_us", ours.packed.sustained_us);
  }
  if (ours.check.has_value()) json.Add("check", CheckJson(*ours.check));
  return json.Text();
}

std::string ResultJson(const RaceResult& result,
                       const Environment& environment) {
  const OurResult& best = Best(result);
  const Times& times = Counted(result, best);
  const LibraryResult library = result.library.value_or(LibraryResult{});
  const double tflops = Tflops(result.problem, times.burst_us);
  const double ceiling = CeilingOf(environment, result.problem);
  Object json;
  json.Add("ours_tflops", tflops)
      .Add("cublaslt_tflops",
           Tflops(result.problem, library.best_times.burst_us))
      .Add("ratio", Ratio(times.burst_us, library.best_times.burst_us))
      .Add("first_ratio", Ratio(times.burst_us, library.first_times.burst_us))
      .Add("ceiling_fraction", ceiling > 0 ? tflops / ceiling : 0)
      .Add("us", times.burst_us)
      .Add("cublaslt_us", library.best_times.burst_us)
      .Add("cublaslt_first_us", library.first_times.burst_us)
      .Add("sustained_ratio",
           Ratio(times.sustained_us, library.best_times.sustained_us))
      .Add("joules", times.sustained_joules)
      .Add("cublaslt_joules", library.best_times.sustained_joules)
      .Add("joules_ratio",
           Ratio(times.sustained_joules, library.best_times.sustained_joules));
  if (result.odd) {
    json.Add("pack_ratio",
             Ratio(best.packed.burst_us, library.best_times.burst_us))
        .Add("resident_ratio",
             Ratio(best.resident.burst_us, library.best_times.burst_us))
        .Add("resident_tflops", Tflops(result.problem, best.resident.burst_us));
  }
  json.Add("stratum", Quoted(std::string(Name(StratumOf(result.problem)))));
  json.Add("kernel", Quoted(best.kernel));
  std::string kernels;
  for (const OurResult& ours : result.ours) {
    absl::StrAppend(&kernels, kernels.empty() ? "" : ", ",
                    KernelJson(result, ours));
  }
  return json.Add("kernels", absl::StrCat("[", kernels, "]")).Text();
}

}  // namespace

std::string KeyOf(const jit::Problem& problem) {
  std::string text = DebugString(problem);
  if (problem.d_type == problem.a_type) {
    text = std::string(
        absl::StripSuffix(text, absl::StrCat(" -> ", Name(problem.d_type))));
  }
  return text;
}

std::string TableHeader() {
  return absl::StrFormat("%-30s %10s %8s %9s %9s %6s %6s %6s %7s %7s %7s  %s\n",
                         "problem", "us", "TFLOP/s", "lt us", "first us",
                         "ratio", "first", "peak", "packed", "sust.", "joules",
                         "kernel");
}

std::string TableRows(const RaceResult& result,
                      const Environment& environment) {
  std::string rows;
  const LibraryResult library = result.library.value_or(LibraryResult{});
  const double ceiling = CeilingOf(environment, result.problem);
  for (const OurResult& ours : result.ours) {
    const double us = ours.resident.burst_us;
    const double tflops = Tflops(result.problem, us);
    const Times& counted = Counted(result, ours);
    absl::StrAppendFormat(
        &rows, "%-30s %10.2f %8.1f %9s %9s %6s %6s %6s %7s %7s %7s %s%s",
        KeyOf(result.problem), us, tflops,
        Fixed(library.best_times.burst_us, 2),
        Fixed(library.first_times.burst_us, 2),
        Fixed(Ratio(us, library.best_times.burst_us), 3),
        Fixed(Ratio(us, library.first_times.burst_us), 3),
        Fixed(ceiling > 0 ? tflops / ceiling : 0, 3),
        Fixed(Ratio(ours.packed.burst_us, library.best_times.burst_us), 3),
        Fixed(Ratio(counted.sustained_us, library.best_times.sustained_us), 3),
        Fixed(Ratio(counted.sustained_joules,
                    library.best_times.sustained_joules),
              3),
        &ours == &Best(result) ? "*" : " ", ours.kernel);
    absl::StrAppendFormat(&rows, " g%d grid %d", ours.raster_group, ours.grid);
    if (ours.splits > 1) absl::StrAppendFormat(&rows, " k/%d", ours.splits);
    absl::StrAppendFormat(&rows, " %.0f kc%s\n", ours.predicted_cycles / 1000,
                          CheckText(ours));
  }
  return rows;
}

// One line a stratum: how our plan of rank 0, and the fastest one timed,
// compare with the best heuristic on operands as we store them.
std::string StrataTable(const std::vector<RaceResult>& results) {
  std::string table =
      absl::StrFormat("%-8s %6s | %-24s | %-24s\n", "stratum", "shapes",
                      "rank 0: mean p10 worst", "fastest: mean p10 worst");
  for (const Stratum stratum : kStrata) {
    std::vector<double> chosen, best;
    for (const RaceResult& result : results) {
      if (!result.library.has_value()) continue;
      if (StratumOf(result.problem) != stratum) continue;
      const double theirs = result.library->best_times.burst_us;
      chosen.push_back(Ratio(result.ours[0].resident.burst_us, theirs));
      best.push_back(Ratio(Best(result).resident.burst_us, theirs));
    }
    if (chosen.empty()) continue;
    absl::StrAppendFormat(&table, "%-8s %6d | %-24s | %-24s\n", Name(stratum),
                          chosen.size(), SpreadText(chosen), SpreadText(best));
  }
  return table;
}

std::string Summary(const std::vector<RaceResult>& results) {
  GeometricMean ratio, first, sustained, joules;
  for (const RaceResult& result : results) {
    if (!result.library.has_value()) continue;
    const Times& times = Counted(result, Best(result));
    ratio.Add(Ratio(times.burst_us, result.library->best_times.burst_us));
    first.Add(Ratio(times.burst_us, result.library->first_times.burst_us));
    sustained.Add(
        Ratio(times.sustained_us, result.library->best_times.sustained_us));
    joules.Add(Ratio(times.sustained_joules,
                     result.library->best_times.sustained_joules));
  }
  return absl::StrCat("Geometric means, packing counted: ", ratio.Text(),
                      " to the best heuristic, ", first.Text(),
                      " to the first, ", sustained.Text(), " sustained, ",
                      joules.Text(), " in joules\n", StrataTable(results));
}

std::string Json(const std::vector<RaceResult>& results,
                 const std::vector<Failure>& failures,
                 const Environment& environment) {
  Object json;
  json.Add("device", Quoted(environment.device.product))
      .Add("driver", Quoted(environment.device.driver))
      .Add("cublaslt", Quoted(environment.library))
      .Add("date", Quoted(environment.date))
      .Add("clocks", Quoted(environment.clocks))
      .Add("template_digest", Quoted(environment.template_digest))
      .AddCount("multiprocessors",
                environment.device.properties.multiprocessors)
      .Add("elapsed_s", environment.elapsed_s);
  Object ceilings;
  for (const auto& [name, tflops] : environment.ceiling_tflops) {
    ceilings.Add(name, tflops);
  }
  json.Add("ceiling_tflops", ceilings.Text());
  Object bench;
  for (const RaceResult& result : results) {
    bench.Add(KeyOf(result.problem), ResultJson(result, environment));
  }
  json.Add("bench", bench.Text());
  Object failed;
  for (const Failure& failure : failures) {
    failed.Add(failure.problem, Quoted(failure.message));
  }
  json.Add("failures", failed.Text());
  // One shape on a line.
  return absl::StrReplaceAll(json.Text(), {{"}, \"", "},\n\""}}) + "\n";
}

}  // namespace gemmd::bench
