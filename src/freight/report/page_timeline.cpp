// The timeline of a step over several ranks, as one of them saw it. See page_internal.h.
#include <algorithm>

#include "freight/base/strings.h"
#include "freight/report/markup.h"
#include "freight/report/page_internal.h"
#include "freight/report/timeline.h"

namespace freight::report {

namespace {

void add(std::vector<Bar>& bars, const std::string& label, double seconds, Filling filling) {
  if (seconds > 0) bars.push_back({label, seconds, filling});
}

// The bars of rank 0: it computes, waits for sums that are not complete, and updates the weights.
Lane of_rank(const StepTimes& t) {
  const double summed = t.sums.empty() ? t.computed : std::max(t.computed, t.sums.back().end);
  Lane lane{.label = "rank 0"};
  add(lane.bars, "forward and backward", t.computed, Filling::dense);
  add(lane.bars, "waits for all-reduce", summed - t.computed, Filling::empty);
  add(lane.bars, "counts, update", t.step - summed, Filling::hatched);
  return lane;
}

Lane of_sums(const StepTimes& t) {
  Lane lane{.label = "gradient all-reduce", .color = 1};
  double at = 0;
  for (const StepTimes::Sum& s : t.sums) {
    add(lane.bars, "nothing to reduce", s.begin - at, Filling::empty);
    add(lane.bars, human_bytes(s.bytes), s.end - s.begin, Filling::dense);
    at = s.end;
  }
  add(lane.bars, "nothing to reduce", t.step - at, Filling::empty);
  return lane;
}

double beside_computing(const StepTimes& t) {
  double hidden = 0;
  for (const StepTimes::Sum& s : t.sums) hidden += std::max(0.0, std::min(s.end, t.computed) - s.begin);
  return hidden;
}

}  // namespace

std::string timeline_section(const StepTimes& t, const std::string& of) {
  if (t.ranks < 2 || !(t.step > 0)) return {};
  double sums = 0;
  for (const StepTimes::Sum& s : t.sums) sums += s.end - s.begin;
  const auto ms = [](double seconds) { return cat(fixed(seconds * 1e3, 2), " ms"); };
  return cat("<section><h2>A step over ", t.ranks, " devices", of,
             "</h2><p class=\"muted\">The fastest step: ", ms(t.step), ", of which the gradient all-reduce takes ",
             ms(sums), ", ", ms(beside_computing(t)),
             " of them overlapped with compute.</p><div class=\"scroll\" tabindex=\"0\">",
             to_svg({of_rank(t), of_sums(t)}, cat("A step over ", t.ranks, " devices")), "</div></section>\n");
}

}  // namespace freight::report
