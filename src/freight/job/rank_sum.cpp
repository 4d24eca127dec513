// See rank_sum.h.
#include "freight/job/rank_sum.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "freight/base/clock.h"
#include "freight/base/error.h"

namespace freight::job {

using Clock = std::chrono::steady_clock;

namespace {

// A nap, which costs a processor some 5 us by itself, and the seconds of a wait that outlasts all naps.
constexpr auto kNap = std::chrono::microseconds(50);
constexpr double kBeyondNaps = 5e-4;

}  // namespace

RankSum::~RankSum() {
  if (!thread_.joinable()) return;
  // Either the thread is seen in a sum here, or it sees that all is over before it begins one.
  over_.store(true);
  if (busy_.load()) comm_.abort("it ended within a step");  // else it would wait for ranks that wait for this one
  published_.fetch_add(1);
  published_.notify_one();
  thread_.join();
}

void RankSum::lay(float* block, const std::vector<int64_t>& sizes) {
  const std::lock_guard turn(turn_);
  summands_.clear();
  for (const int64_t size : sizes) {
    summands_.push_back({block, size});
    block += size;
  }
  pieces_.cut({summands_.size()});
}

void RankSum::cut(const std::vector<size_t>& ends) {
  const std::lock_guard turn(turn_);
  pieces_.cut(ends);
}

void RankSum::begin(Mode mode, Prepare prepare) {
  const std::lock_guard turn(turn_);
  mode_ = mode;
  prepare_ = std::move(prepare);
  pieces_.start();
  first_ = summed_ = published_.load();
  sum_times_.clear();
  if (mode == Mode::beside && !thread_.joinable()) thread_ = std::thread([this] { work(); });
  begun_ = Clock::now();
}

void RankSum::ready(void* data) {
  const auto part =
      std::lower_bound(summands_.begin(), summands_.end(), data,
                       [](const PendingGradient& p, const void* at) { return static_cast<const void*>(p.at) < at; });
  // The plan may make a state elsewhere and copy it at the end: computed() sees to that.
  if (part == summands_.end() || part->at != data) return;
  const auto number = static_cast<size_t>(part - summands_.begin());
  if (!pieces_.is_ready(number)) mark(number, seconds_since(begun_));
}

void RankSum::mark(size_t summand, double seconds) {
  summands_[summand].seconds = seconds;
  if (!pieces_.mark(summand) || mode_ == Mode::behind) return;
  published_.store(first_ + static_cast<uint32_t>(pieces_.complete()));
  // The last piece is left to finish(), which is called at once: waking the thread would take longer. notify_one costs
  // nothing while the thread naps or sums.
  if (pieces_.complete() < pieces_.count()) published_.notify_one();
}

void RankSum::computed() {
  compute_ = seconds_since(begun_);
  for (size_t i = 0; i < summands_.size(); ++i) {
    if (!pieces_.is_ready(i)) mark(i, compute_);
  }
}

void RankSum::finish() {
  const auto start = Clock::now();
  const std::lock_guard turn(turn_);
  if (mode_ == Mode::behind && !summands_.empty()) sum(0, summands_.size());
  if (mode_ == Mode::behind) return;
  sum_published();
  if (error_) std::rethrow_exception(error_);
  ++times_.steps;
  times_.waited += seconds_since(start);
  for (const SumTime& t : sum_times_) times_.sums += t.end - t.begin;
}

void RankSum::work() {
  uint32_t seen = 0;
  for (bool within_step = false; !over_.load();) {  // over_ comes before its piece, which wakes
    wait_for_more(seen, within_step);
    seen = published_.load();
    const std::unique_lock turn(turn_, std::try_to_lock);
    within_step = turn.owns_lock();  // else finish() has it, and sums the rest
    if (!within_step) continue;
    seen = sum_published();
    within_step = summed_ - first_ < pieces_.count();
  }
}

// Returns when more pieces than `than` are published, or all is over. Within a step the next piece may come soon, and
// then it is cheaper for the thread that computes if this one looks for it now and then than if it has to be woken.
// Spinning would take a processor from the other threads that compute. Long waits halve the naps of the next one.
void RankSum::wait_for_more(uint32_t than, bool within_step) {
  const auto start = Clock::now();
  for (int nap = 0; within_step && nap < naps_ && published_.load() == than; ++nap) std::this_thread::sleep_for(kNap);
  published_.wait(than);
  if (within_step) naps_ = seconds_since(start) < kBeyondNaps ? kMostNaps : naps_ / 2;
}

// Sums what is published and not summed yet, as whoever has the turn. Returns the number of pieces that it knew of.
uint32_t RankSum::sum_published() {
  for (;;) {
    const uint32_t all = published_.load();
    if (error_ || summed_ == all) return all;
    busy_.store(true);
    if (over_.load()) return all;
    try {
      const size_t piece = summed_ - first_;
      sum(pieces_.begin_of(piece), pieces_.end_of(piece));
    } catch (...) {
      error_ = std::current_exception();
    }
    busy_.store(false);
    if (!error_) ++summed_;
  }
}

void RankSum::sum(size_t first, size_t end) {
  SumTime time{.begin = seconds_since(begun_)};
  float* const from = summands_[first].at;
  const int64_t count = summands_[end - 1].at + summands_[end - 1].size - from;
  if (prepare_) prepare_(from - summands_[0].at, count);
  comm_.all_reduce(from, count, DType::f32);
  time.end = seconds_since(begun_);
  time.bytes = static_cast<double>(count) * sizeof(float);
  sum_times_.push_back(time);
}

std::vector<Summand> RankSum::summands() const {
  std::vector<Summand> all;
  double last = 0;
  for (const PendingGradient& p : summands_) {
    last = std::max(last, p.seconds);  // in the order of the block, which another shape's plan may not keep to
    all.push_back({last, static_cast<double>(p.size) * sizeof(float)});
  }
  return all;
}

SumCost measure_sums(comm::Comm& comm) {
  constexpr int64_t kSmall = 1 << 10, kLarge = 1 << 19;  // floats: 4 KiB and 2 MiB, more than a line's burst
  std::vector<float> data(kLarge);
  const auto least = [&](int64_t count, int times) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < times; ++i) {
      comm.barrier();
      const auto start = Clock::now();
      comm.all_reduce(data.data(), count, DType::f32);
      best = std::min(best, seconds_since(start));
    }
    return best;
  };
  constexpr double kHandOver = 2e-5;  // until the thread that sums has seen a piece
  const double small = least(kSmall, 8), large = std::max(least(kLarge, 3), small);
  const double per_byte = (large - small) / (sizeof(float) * static_cast<double>(kLarge - kSmall));
  std::array<double, 2> line{std::max(small - per_byte * kSmall * sizeof(float), kHandOver), per_byte};
  comm.broadcast(line.data(), 2, DType::f64, 0);
  return {.start = line[0], .per_byte = line[1]};
}

}  // namespace freight::job
