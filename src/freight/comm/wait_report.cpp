// See wait_report.h.
#include "freight/comm/wait_report.h"

#include <algorithm>

#include "freight/base/clock.h"
#include "freight/base/strings.h"

namespace freight::comm {

std::string longest_wait(const std::vector<double>& shares, int world, double step_seconds,
                         const std::vector<double>& work) {
  // A waiting rank polls the others one by one, so that its wait for a single rank depends on the order. Its total wait
  // does not: the rank that waited least is the one that came last.
  std::vector<double> waited(static_cast<size_t>(world));
  for (size_t i = 0; i < shares.size(); ++i) waited[i / static_cast<size_t>(world)] += shares[i];
  const auto expected = [&](size_t waiting, size_t slow) {
    if (work.empty()) return 0.0;
    return std::max(work[slow] - work[waiting], 0.0) / *std::max_element(work.begin(), work.end());
  };
  size_t waits = 0, slow = 0;
  double most = 0;
  for (size_t w = 0; w < waited.size(); ++w) {
    for (size_t r = 0; r < waited.size(); ++r) {
      const double net = waited[w] - waited[r] - expected(w, r);
      if (net <= most) continue;
      most = net;
      waits = w;
      slow = r;
    }
  }
  constexpr double kNoticed = 0.2;
  if (most < kNoticed) return "";
  const auto milliseconds = [](double seconds) { return fixed(seconds * 1e3, 1); };
  return cat("rank ", waits, " waits ", milliseconds(waited[waits] * step_seconds), " ms of each ",
             milliseconds(step_seconds), " ms step for rank ", slow);
}

WaitReport::WaitReport(const Comm& comm) : waited_(comm.waited()), began_(std::chrono::steady_clock::now()) {}

std::string WaitReport::since_last(Comm& comm, int64_t steps, const std::vector<double>& work) {
  const auto world = static_cast<size_t>(comm.world());
  const std::vector<double> now = comm.waited();
  const double seconds = std::max(seconds_since(began_), 1e-9);
  std::vector<double> mine(world), all(world * world);  // fractions of this rank's time; (waiting rank, slow rank)
  for (size_t r = 0; r < world; ++r) mine[r] = (now[r] - waited_[r]) / seconds;
  comm.all_gather(mine.data(), all.data(), static_cast<int64_t>(world), DType::f64);
  double whole = seconds;  // rank 0's step time counts for all, since their steps take equally long
  comm.broadcast(&whole, 1, DType::f64, 0);
  waited_ = comm.waited();
  began_ = std::chrono::steady_clock::now();
  return longest_wait(all, comm.world(), whole / static_cast<double>(std::max<int64_t>(steps, 1)), work);
}

}  // namespace freight::comm
