// Times what computing and summing cost each other on the ranks of a job. See comm.h.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <numeric>
#include <thread>

#include "freight/base/clock.h"
#include "freight/base/median.h"
#include "freight/base/threads.h"
#include "freight/bench/comm.h"
#include "freight/plan/reference_step.h"

namespace freight::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = plan::ReferenceStep::Seconds;

// Of computing alone and together, alternating: a shared host is slow for seconds at a time.
constexpr int kRounds = 3;
constexpr size_t kLeastReferenceSteps = 3;

// The seconds of consecutive steps.
struct Steps {
  std::vector<double> products, rest;

  size_t size() const { return products.size(); }
  void add(const Seconds& s) {
    products.push_back(s.products);
    rest.push_back(s.rest);
  }
  std::vector<double> all() const {
    std::vector<double> sums(size());
    std::transform(products.begin(), products.end(), rest.begin(), sums.begin(), std::plus<>());
    return sums;
  }
};

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class BesideTimer {
 public:
  BesideTimer(comm::Comm& comm, double seconds) : comm_(comm), seconds_(seconds) {
    for (int i = 0; i < 2; ++i) step_.run();  // the first run touches fresh memory
  }

  plan::BesideCompute time(const CommCost& alone, const std::vector<int64_t>& sizes) {
    plan::BesideCompute b{.threads = thread_count()};
    compute_in_turns(b);
    std::vector<CommFigure> figures;
    Steps beside;
    for (const int64_t bytes : sizes) {
      beside = {};
      figures.push_back(sums_beside(bytes, alone, beside));
    }
    const CommCost cost = fit_cost(figures);
    b.sum = {cost.start, cost.per_byte};
    // The largest sum takes longest and shows how much computing time its bytes cost; the cost of starting is in its
    // own line.
    const double lost = 1 - together_ / std::max(mean_of(beside.all()), together_);
    b.lost_per_byte = lost * figures.back().median / static_cast<double>(figures.back().bytes);
    return agreed(b);
  }

 private:
  // Fills in how much slower kernels are while all ranks compute, and the slowest rank's step.
  void compute_in_turns(plan::BesideCompute& b) {
    Steps alone, together;
    for (int round = 0; round < kRounds; ++round) {
      comm_.barrier();
      if (comm_.rank() == 0) {
        const auto start = Clock::now();
        const size_t before = alone.size();
        do {
          alone.add(step_.run());
        } while (alone.size() < before + kLeastReferenceSteps || seconds_since(start) < seconds_ / kRounds);
      }
      int64_t count = static_cast<int64_t>(alone.size()) / (round + 1);
      comm_.broadcast(&count, 1, DType::i64, 0);
      for (int64_t i = 0; i < count; ++i) together.add(step_.run());
    }
    // Rates are medians of undisturbed kernels; the steps of a run take their mean.
    if (comm_.rank() == 0) {
      b.products = mean_of(together.products) / median(std::move(alone.products));
      b.rest = mean_of(together.rest) / median(std::move(alone.rest));
    }
    const std::vector<double> mine = together.all();
    together_ = mean_of(mine);
    std::vector<double> all(mine.size() * static_cast<size_t>(comm_.world()));
    comm_.all_gather(mine.data(), all.data(), static_cast<int64_t>(mine.size()), DType::f64);
    std::vector<double> slowest(mine.size());
    for (size_t i = 0; i < all.size(); ++i) slowest[i % mine.size()] = std::max(slowest[i % mine.size()], all[i]);
    b.slowest = mean_of(slowest) / mean_of(all);
  }

  // Sums in another thread while this one computes; `steps` gets the steps that were made meanwhile.
  CommFigure sums_beside(int64_t bytes, const CommCost& alone, Steps& steps) {
    const double once = std::max(alone.start + alone.per_byte * static_cast<double>(bytes), 1e-6);
    const double seconds = std::max(seconds_, static_cast<double>(kLeastReferenceSteps) * together_);
    int64_t count = std::max<int64_t>(2, static_cast<int64_t>(seconds / once));
    comm_.broadcast(&count, 1, DType::i64, 0);
    std::vector<float> data(static_cast<size_t>(bytes / 4));
    std::vector<double> times;
    std::exception_ptr error;
    std::atomic<bool> over = false;
    std::thread sums([&] {
      try {
        for (int64_t i = 0; i < count; ++i) {
          const auto start = Clock::now();
          comm_.all_reduce(data.data(), static_cast<int64_t>(data.size()), DType::f32);
          times.push_back(seconds_since(start));
        }
      } catch (...) {
        error = std::current_exception();
      }
      over = true;
    });
    do {
      steps.add(step_.run());
    } while (!over);
    sums.join();
    if (error) std::rethrow_exception(error);
    const double least = *std::min_element(times.begin(), times.end());
    return {.bytes = bytes, .median = median(std::move(times)), .least = least, .runs = count};
  }

  // Returns rank 0's figures on all ranks.
  plan::BesideCompute agreed(plan::BesideCompute b) {
    double numbers[] = {b.products, b.rest, b.slowest, b.sum.start, b.sum.per_byte, b.lost_per_byte};
    comm_.broadcast(numbers, std::size(numbers), DType::f64, 0);
    return {.threads = b.threads,
            .products = numbers[0],
            .rest = numbers[1],
            .slowest = numbers[2],
            .sum = {numbers[3], numbers[4]},
            .lost_per_byte = numbers[5]};
  }

  comm::Comm& comm_;
  const double seconds_;
  plan::ReferenceStep step_;
  double together_ = 0;  // seconds of this rank's step while all ranks compute
};

}  // namespace

plan::BesideCompute time_beside_compute(comm::Comm& comm, const CommCost& alone, const std::vector<int64_t>& sizes,
                                        double seconds) {
  return BesideTimer(comm, seconds).time(alone, sizes);
}

}  // namespace freight::bench
