// Measures what sums beside the backward half cost a step beyond computing and communicating: one that does neither
// hands over 64 gradients, which travel in 1 or 8 pieces to a Comm that does nothing. The bar is 20 microseconds a
// step.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "freight/base/clock.h"
#include "freight/job/rank_sum.h"

namespace {

using namespace freight;

// Two ranks, of which the other one needs no time.
class NoWork final : public comm::Comm {
 public:
  int rank() const override { return 0; }
  int world() const override { return 2; }
  bool over_network() const override { return true; }
  void all_reduce(void*, int64_t, DType) override {}
  void all_gather(const void*, void*, int64_t, DType) override {}
  void broadcast(void*, int64_t, DType, int) override {}
  void barrier() override {}
  void abort(const std::string&) noexcept override {}
  void at_step(int64_t) override {}
  std::vector<double> waited() const override { return {0, 0}; }
};

// `apart`: seconds of computing between two gradients, in which the other thread does its part.
void measure(size_t pieces, double apart) {
  constexpr size_t kGradients = 64;
  constexpr int64_t kFloats = 1024;
  constexpr int kSteps = 2000;
  std::vector<float> block(kGradients * kFloats);
  NoWork comm;
  job::RankSum sums(comm);
  sums.lay(block.data(), std::vector<int64_t>(kGradients, kFloats));
  std::vector<size_t> ends;
  for (size_t i = 1; i <= pieces; ++i) ends.push_back(i * kGradients / pieces);
  sums.cut(ends);
  std::vector<double> seconds;
  for (int step = 0; step < kSteps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    double computing = 0;
    sums.begin(job::RankSum::Mode::beside);
    for (size_t i = 0; i < kGradients; ++i) {
      const auto compute = std::chrono::steady_clock::now();
      while (seconds_since(compute) < apart) {
      }
      computing += seconds_since(compute);
      sums.ready(block.data() + i * kFloats);
    }
    sums.computed();
    sums.finish();
    seconds.push_back(seconds_since(start) - computing);
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%zu gradients, %zu pieces, %4.0f us of computing between two: median %6.2f us, least %6.2f us a step\n",
              kGradients, pieces, apart * 1e6, 1e6 * seconds[kSteps / 2], 1e6 * seconds[0]);
}

}  // namespace

int main() {
  for (const size_t pieces : {1, 8}) {
    for (const double apart : {0.0, 2e-5}) measure(pieces, apart);
  }
  return 0;
}
