// See comm.h.
#include "freight/bench/comm.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/median.h"
#include "freight/base/strings.h"

namespace freight::bench {

namespace {

using Clock = std::chrono::steady_clock;

// Runs are timed in blocks, since a barrier before each run would be a large part of short ones.
constexpr double kBlockSeconds = 2e-3;
constexpr int kLeastBlocks = 5;

// Small whole numbers, whose sums are exact in any order.
float value_of(int rank, int64_t i) { return static_cast<float>((i * 7 + rank * 13) % 251 - 125); }

void check_sum(comm::Comm& comm, int64_t count) {
  std::vector<float> data(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) data[static_cast<size_t>(i)] = value_of(comm.rank(), i);
  comm.all_reduce(data.data(), count, DType::f32);
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int r = 0; r < comm.world(); ++r) sum += value_of(r, i);
    if (data[static_cast<size_t>(i)] == sum) continue;
    fail(ErrorKind::verification, "all_reduce", "element ", i, " of f32[", count, "] is ", data[static_cast<size_t>(i)],
         " on rank ", comm.rank(), ", expected ", sum);
  }
}

double block(comm::Comm& comm, std::vector<float>& data, int64_t runs) {
  comm.barrier();
  const auto start = Clock::now();
  for (int64_t i = 0; i < runs; ++i) comm.all_reduce(data.data(), static_cast<int64_t>(data.size()), DType::f32);
  return seconds_since(start) / static_cast<double>(runs);
}

// Returns rank 0's value on all ranks, so that all do the same.
int64_t agreed(comm::Comm& comm, int64_t v) {
  comm.broadcast(&v, 1, DType::i64, 0);
  return v;
}

CommFigure time_size(comm::Comm& comm, int64_t bytes, double seconds) {
  const int64_t count = bytes / 4;
  check_sum(comm, count);
  std::vector<float> data(static_cast<size_t>(count));  // zeros stay zeros, however often they are summed
  block(comm, data, 2);
  const double once = std::max(block(comm, data, 3), 1e-8);
  const int64_t runs = agreed(comm, std::max<int64_t>(1, static_cast<int64_t>(kBlockSeconds / once)));
  std::vector<double> mine;
  const auto start = Clock::now();
  do {
    mine.push_back(block(comm, data, runs));
  } while (agreed(comm, static_cast<int>(mine.size()) < kLeastBlocks || seconds_since(start) < seconds));
  std::vector<double> all(mine.size() * static_cast<size_t>(comm.world()));
  comm.all_gather(mine.data(), all.data(), static_cast<int64_t>(mine.size()), DType::f64);
  for (size_t i = 0; i < all.size(); ++i) mine[i % mine.size()] = std::max(mine[i % mine.size()], all[i]);
  return {.bytes = bytes,
          .median = median(mine),
          .least = *std::min_element(mine.begin(), mine.end()),
          .runs = runs * static_cast<int64_t>(mine.size())};
}

}  // namespace

double bus_rate(int world, const CommFigure& figure) {
  const double share = 2.0 * (world - 1) / world;
  return figure.median > 0 ? share * static_cast<double>(figure.bytes) / figure.median : 0;
}

CommTimes time_all_reduce(comm::Comm& comm, const std::vector<int64_t>& sizes, double seconds) {
  CommTimes times = {.world = comm.world(), .figures = {}};
  for (const int64_t bytes : sizes) {
    FREIGHT_CHECK(bytes > 0 && bytes % 4 == 0);
    times.figures.push_back(time_size(comm, bytes, seconds));
  }
  times.cost = fit_cost(times.figures);
  return times;
}

CommCost fit_cost(const std::vector<CommFigure>& figures) {
  // With weights 1 / t^2, x = bytes / t and u = 1 / t: minimizes the sum of (a u + b x - 1)^2.
  double uu = 0, ux = 0, xx = 0, u1 = 0, x1 = 0;
  for (const CommFigure& f : figures) {
    if (f.median <= 0) continue;
    const double u = 1 / f.median, x = static_cast<double>(f.bytes) / f.median;
    uu += u * u, ux += u * x, xx += x * x, u1 += u, x1 += x;
  }
  CommCost c;
  const double determinant = uu * xx - ux * ux;
  if (determinant > 1e-9 * uu * xx) {
    c.start = (u1 * xx - x1 * ux) / determinant;
    c.per_byte = (uu * x1 - ux * u1) / determinant;
  }
  if (determinant <= 1e-9 * uu * xx || c.start < 0) c = {.start = 0, .per_byte = xx > 0 ? x1 / xx : 0};
  if (c.per_byte < 0) c = {.start = u1 / uu, .per_byte = 0};
  for (const CommFigure& f : figures) {
    if (f.median <= 0) continue;
    const double fitted = c.start + c.per_byte * static_cast<double>(f.bytes);
    c.worst = std::max(c.worst, std::abs(fitted / f.median - 1));
  }
  return c;
}

}  // namespace freight::bench
