// See overlapped_sums.h.
#include "freight/train/overlapped_sums.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "freight/base/clock.h"
#include "freight/base/error.h"

namespace freight::train {

using Clock = std::chrono::steady_clock;

namespace {

// A nap, which costs a processor some 5 us by itself, and the seconds of a wait that outlasts all naps.
constexpr auto kNap = std::chrono::microseconds(50);
constexpr double kBeyondNaps = 5e-4;

}  // namespace

OverlappedSums::~OverlappedSums() {
  if (!thread_.joinable()) return;
  // Either the thread is seen in a sum here, or it sees that all is over before it begins one.
  over_.store(true);
  if (busy_.load()) comm_.abort("it ended within a step");  // else it would wait for ranks that wait for this one
  published_.fetch_add(1);
  published_.notify_one();
  thread_.join();
}

void OverlappedSums::lay(float* block, const std::vector<int64_t>& sizes) {
  const std::lock_guard turn(turn_);
  parts_.clear();
  for (const int64_t size : sizes) {
    parts_.push_back({block, size});
    block += size;
  }
  ends_ = {parts_.size()};
}

void OverlappedSums::cut(const std::vector<size_t>& ends) {
  const std::lock_guard turn(turn_);
  ends_ = ends;
}

void OverlappedSums::begin(Mode mode, Prepare prepare) {
  const std::lock_guard turn(turn_);
  mode_ = mode;
  prepare_ = std::move(prepare);
  missing_.assign(ends_.size(), 0);
  size_t piece = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (i == ends_[piece]) ++piece;
    parts_[i].piece = piece;
    parts_[i].ready = false;
    ++missing_[piece];
  }
  complete_ = 0;
  first_ = summed_ = published_.load();
  sum_times_.clear();
  if (mode == Mode::beside && !thread_.joinable()) thread_ = std::thread([this] { work(); });
  begun_ = Clock::now();
}

void OverlappedSums::ready(void* data) {
  const auto part = std::lower_bound(parts_.begin(), parts_.end(), data, [](const PendingGradient& p, const void* at) {
    return static_cast<const void*>(p.at) < at;
  });
  // The plan may make a state elsewhere and copy it at the end: computed() sees to that.
  if (part == parts_.end() || part->at != data || part->ready) return;
  mark(*part, seconds_since(begun_));
}

void OverlappedSums::mark(PendingGradient& part, double seconds) {
  part.ready = true;
  part.seconds = seconds;
  if (--missing_[part.piece] > 0 || mode_ == Mode::watched || part.piece != complete_) return;
  while (complete_ < missing_.size() && missing_[complete_] == 0) ++complete_;
  published_.store(first_ + static_cast<uint32_t>(complete_));
  // The last piece is left to finish(), which comes at once: waking the thread would take longer. Nobody is woken who
  // does not sleep, but naps or sums.
  if (complete_ < missing_.size()) published_.notify_one();
}

void OverlappedSums::computed() {
  compute_ = seconds_since(begun_);
  for (PendingGradient& p : parts_) {
    if (!p.ready) mark(p, compute_);
  }
}

void OverlappedSums::finish() {
  const auto start = Clock::now();
  const std::lock_guard turn(turn_);
  sum_published();
  if (error_) std::rethrow_exception(error_);
  ++times_.steps;
  times_.waited += seconds_since(start);
  for (const SumTime& t : sum_times_) times_.sums += t.end - t.begin;
}

void OverlappedSums::work() {
  uint32_t seen = 0;
  for (bool within_step = false; !over_.load();) {  // over_ comes before its piece, which wakes
    wait_for_more(seen, within_step);
    seen = published_.load();
    const std::unique_lock turn(turn_, std::try_to_lock);
    within_step = turn.owns_lock();  // else finish() has it, and sums the rest
    if (!within_step) continue;
    seen = sum_published();
    within_step = summed_ - first_ < ends_.size();
  }
}

// Returns when more pieces than `than` are published, or all is over. Within a step the next piece may come soon, and
// then it is cheaper for the thread that computes if this one looks for it now and then than if it has to be woken.
// Spinning would take a processor from the other threads that compute. Long waits halve the naps of the next one.
void OverlappedSums::wait_for_more(uint32_t than, bool within_step) {
  const auto start = Clock::now();
  for (int nap = 0; within_step && nap < naps_ && published_.load() == than; ++nap) std::this_thread::sleep_for(kNap);
  published_.wait(than);
  if (within_step) naps_ = seconds_since(start) < kBeyondNaps ? kMostNaps : naps_ / 2;
}

// Sums what is published and not summed yet, as whoever has the turn. Returns the number of pieces that it knew of.
uint32_t OverlappedSums::sum_published() {
  for (;;) {
    const uint32_t all = published_.load();
    if (error_ || summed_ == all) return all;
    busy_.store(true);
    if (over_.load()) return all;
    SumTime time{.begin = seconds_since(begun_)};
    try {
      time.bytes = sum(summed_ - first_);
    } catch (...) {
      error_ = std::current_exception();
    }
    busy_.store(false);
    time.end = seconds_since(begun_);
    sum_times_.push_back(time);
    if (!error_) ++summed_;
  }
}

double OverlappedSums::sum(size_t piece) {
  const size_t first = piece == 0 ? 0 : ends_[piece - 1];
  float* const from = parts_[first].at;
  const int64_t count = parts_[ends_[piece] - 1].at + parts_[ends_[piece] - 1].size - from;
  if (prepare_) prepare_(from - parts_[0].at, count);
  comm_.all_reduce(from, count, DType::f32);
  return static_cast<double>(count) * sizeof(float);
}

std::vector<Summand> OverlappedSums::summands() const {
  std::vector<Summand> all;
  double last = 0;
  for (const PendingGradient& p : parts_) {
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

}  // namespace freight::train
