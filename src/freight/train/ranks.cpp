// See ranks.h.
#include "freight/train/ranks.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/train/signals.h"

namespace freight::train {

int64_t Deal::first_of(int r) const {
  const int64_t each = shards / world, more = shards % world;
  return r * each + std::min<int64_t>(r, more);
}

bool Deal::aligned() const {
  const int64_t each = shards / world;
  return shards % world == 0 && (each & (each - 1)) == 0;
}

Deal Sharding::deal() const { return ranks ? ranks->deal(shards) : Deal{.shards = shards}; }

Overlap parse_overlap(const std::string& word) {
  if (word == "auto") return Overlap::automatic;
  if (word != "yes" && word != "no") fail(ErrorKind::usage, "--overlap", "got ", word, ", need auto, yes or no");
  return word == "yes" ? Overlap::yes : Overlap::no;
}

Ranks::Ranks(std::unique_ptr<comm::Comm> comm, Overlap overlap, RankMeeting meeting)
    : comm_(std::move(comm)), overlap_(overlap), meeting_(std::move(meeting)) {}

std::string Ranks::from_first(const std::string& text) {
  auto size = static_cast<int64_t>(text.size());
  broadcast(&size, sizeof size);
  std::string out = text;
  out.resize(static_cast<size_t>(size));
  if (size > 0) broadcast(out.data(), out.size());
  return out;
}

void Ranks::need_equal(const std::string& what, const std::string& mine) {
  const std::string theirs = from_first(mine);
  const std::vector<double> differs = gather({mine == theirs ? 0.0 : 1.0});
  const auto odd = std::find(differs.begin(), differs.end(), 1.0);
  if (odd == differs.end()) return;
  const auto who = static_cast<int>(odd - differs.begin());
  // Its text is known to it alone.
  auto size = static_cast<int64_t>(mine.size());
  comm_->broadcast(&size, 1, DType::i64, who);
  std::string text = mine;
  text.resize(static_cast<size_t>(size));
  if (size > 0) comm_->broadcast(text.data(), size, DType::u8, who);
  fail(ErrorKind::usage, "ranks", "rank ", who, " has ", what, " ", excerpt(text), ", rank 0 has ", excerpt(theirs),
       ": all ranks of a job must be started alike");
}

void Ranks::broadcast(const std::vector<nn::NamedVariable>& variables) {
  for (const nn::NamedVariable& v : variables) {
    const Array a = v.variable.array();
    if (first()) {
      broadcast(a.raw(), a.bytes());
      continue;
    }
    const Array fresh(a.dtype(), a.shape());
    broadcast(fresh.raw(), fresh.bytes());
    v.variable.set(fresh);
  }
}

void Ranks::broadcast(void* data, size_t bytes) {
  if (bytes > 0) comm_->broadcast(data, static_cast<int64_t>(bytes), DType::u8, 0);
}

void Ranks::sum(std::vector<double>& numbers) {
  comm_->all_reduce(numbers.data(), static_cast<int64_t>(numbers.size()), DType::f64);
}

std::vector<double> Ranks::gather(const std::vector<double>& mine) {
  std::vector<double> all(mine.size() * static_cast<size_t>(world()));
  comm_->all_gather(mine.data(), all.data(), static_cast<int64_t>(mine.size()), DType::f64);
  return all;
}

Wish Ranks::take_wish() {
  Wish w = mine_;
  mine_ = {};
  if (signals::own_signal() == SIGINT) ++w.interrupts;
  if (signals::own_signal() == SIGTERM) ++w.terminations;
  return w;
}

void Ranks::wish(const Wish& also) {
  mine_.stop += also.stop;
  if (also.lr) mine_.lr = also.lr;
}

void Ranks::agree(const Wish& all) {
  agreed_.interrupts += all.interrupts;
  agreed_.terminations += all.terminations;
  agreed_.stop += all.stop;
  if (all.lr) agreed_.lr = all.lr;
  if (all.terminations > 0) signals::agree(SIGTERM);
  if (all.interrupts > 0) signals::agree(SIGINT);
}

std::optional<double> Ranks::take_rate() {
  const std::optional<double> lr = agreed_.lr;
  agreed_.lr.reset();
  return lr;
}

void put(const Wish& w, double* numbers) {
  numbers[0] = static_cast<double>(w.interrupts);
  numbers[1] = static_cast<double>(w.terminations);
  numbers[2] = static_cast<double>(w.stop);
  numbers[3] = w.lr ? 1 : 0;
  numbers[4] = w.lr.value_or(0);
}

Wish wish_of(const double* numbers) {
  Wish w{.interrupts = static_cast<int64_t>(numbers[0]),
         .terminations = static_cast<int64_t>(numbers[1]),
         .stop = static_cast<int64_t>(numbers[2])};
  if (numbers[3] > 0) w.lr = numbers[4] / numbers[3];
  return w;
}

}  // namespace freight::train
