// See rank_work.h.
#include "freight/tables/rank_work.h"

#include <chrono>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/tables/row_learner.h"

namespace freight::tables {

namespace {

constexpr auto kBetweenSigns = std::chrono::milliseconds(250);
// The words of rank 0.
constexpr const char *kAlive = "alive", *kOver = "over", *kStopped = "stopped";
constexpr std::string_view kFit = "fit ";  // and the name of a learner

}  // namespace

RankWork::RankWork(job::Ranks& ranks) : ranks_(ranks) { rest(); }
RankWork::~RankWork() { end_signs(); }

void RankWork::rest() {
  if (fault_) return;
  resting_ = true;
  signs_ = std::thread([this] { tell_life(); });
}

void RankWork::tell_life() {
  std::unique_lock lock(guard_);
  while (resting_) {
    lock.unlock();
    try {
      ranks_.from_first(kAlive);
    } catch (...) {
      fault_ = std::current_exception();
      return;
    }
    lock.lock();
    changed_.wait_for(lock, kBetweenSigns, [this] { return !resting_; });
  }
}

void RankWork::end_signs() {
  {
    const std::lock_guard lock(guard_);
    resting_ = false;
  }
  changed_.notify_all();
  if (signs_.joinable()) signs_.join();
}

void RankWork::begin(const std::string& learner) {
  end_signs();
  if (fault_) std::rethrow_exception(fault_);
  ranks_.from_first(cat(kFit, learner));
}

void RankWork::finish(bool stopped) {
  end_signs();
  if (fault_) std::rethrow_exception(fault_);
  ranks_.from_first(stopped ? kStopped : kOver);
}

bool follow(const train::Config& config, job::Ranks& ranks) {
  for (;;) {
    const std::string said = ranks.from_first({});
    if (said == kAlive) continue;
    if (said == kOver || said == kStopped) return said == kStopped;
    FREIGHT_CHECK(starts_with(said, kFit), "rank 0 says ", said);
    const std::string name = said.substr(kFit.size());
    const auto* const learner = dynamic_cast<const RowLearner*>(train::find_learner(name));
    FREIGHT_CHECK(learner, "rank 0 fits ", name, ", which this rank does not know");
    learner->fit_with_rank_zero(config, ranks);
  }
}

}  // namespace freight::tables
