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

OverlappedSums::~OverlappedSums() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    if (busy_) comm_.abort("it ended within a step");  // else the thread would wait for ranks that wait for this one
  }
  wake_.notify_one();
  thread_.join();
}

void OverlappedSums::lay(float* block, const std::vector<int64_t>& sizes) {
  parts_.clear();
  for (const int64_t size : sizes) {
    parts_.push_back({block, size});
    block += size;
  }
  ends_ = {parts_.size()};
}

void OverlappedSums::begin(Mode mode, Prepare prepare) {
  const std::lock_guard lock(mutex_);
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
  done_ = 0;
  sum_times_.clear();
  if (mode == Mode::beside && !thread_.joinable()) thread_ = std::thread([this] { work(); });
  begun_ = Clock::now();
}

void OverlappedSums::ready(void* data) {
  const auto part = std::lower_bound(parts_.begin(), parts_.end(), data,
                                     [](const Part& p, const void* at) { return static_cast<const void*>(p.at) < at; });
  // The plan may make a state elsewhere and copy it at the end: computed() sees to that.
  if (part == parts_.end() || part->at != data || part->ready) return;
  mark(*part, seconds_since(begun_));
}

void OverlappedSums::mark(Part& part, double seconds) {
  part.ready = true;
  part.seconds = seconds;
  if (mode_ == Mode::watched) return;
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    complete = --missing_[part.piece] == 0 && part.piece == done_;
  }
  if (complete) wake_.notify_one();
}

void OverlappedSums::computed() {
  compute_ = seconds_since(begun_);
  for (Part& p : parts_) {
    if (!p.ready) mark(p, compute_);
  }
}

void OverlappedSums::finish() {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  summed_.wait(lock, [&] { return done_ == ends_.size() || error_; });
  if (error_) std::rethrow_exception(error_);
  ++times_.steps;
  times_.waited += seconds_since(start);
  for (const SumTime& t : sum_times_) times_.sums += t.end - t.begin;
}

void OverlappedSums::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return over_ || (!error_ && done_ < missing_.size() && missing_[done_] == 0); });
    if (over_) return;
    const size_t piece = done_;
    busy_ = true;
    lock.unlock();
    SumTime time{.begin = seconds_since(begun_)};
    std::exception_ptr error;
    try {
      time.bytes = sum(piece);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    time.end = seconds_since(begun_);
    sum_times_.push_back(time);
    error_ = error;
    if (!error) ++done_;
    if (error || done_ == missing_.size()) summed_.notify_one();
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
  for (const Part& p : parts_) {
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
  constexpr double kHandOver = 2e-5;  // a piece wakes a thread
  const double small = least(kSmall, 8), large = std::max(least(kLarge, 3), small);
  const double per_byte = (large - small) / (sizeof(float) * static_cast<double>(kLarge - kSmall));
  std::array<double, 2> line{std::max(small - per_byte * kSmall * sizeof(float), kHandOver), per_byte};
  comm.broadcast(line.data(), 2, DType::f64, 0);
  return {.start = line[0], .per_byte = line[1]};
}

}  // namespace freight::train
