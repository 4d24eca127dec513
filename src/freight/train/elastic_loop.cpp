// The loop of a run whose processes may be lost and come while it goes on (comm/membership.h). After a loss each
// process stands at the step that failed, or one further: a process does an update when it has the sums of all, which
// others may have missed. The bits of a step are those of its number (sharded_step.h, exact), whoever computes it: so
// whoever is furthest hands its state on, and nobody goes back. A process that comes is one that is furthest behind.
#include <algorithm>
#include <type_traits>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/train/loop_internal.h"

namespace freight::train {

void Loop::run_elastic() {
  Ranks& ranks = *run_.ranks;
  ranks.members()->ask_before_leading([this] { return record_.claim(); });
  for (bool broken = false;;) {
    leave_meeting();
    try {
      ranks.meet(broken);
    } catch (const Error&) {  // too few are left
      keep_what_is_left();
      throw;
    }
    broken = true;
    try {
      take_in();
      while (unfinished() && !meeting_due()) run_epoch();
      if (unfinished()) {
        broken = false;
        continue;
      }
      store();
      record_.end(result_, observer_.figures(result_));
      ranks.comm().barrier();  // where the first is lost before it has stored all, the next one does
      return;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::peer_lost) throw;
    }
  }
}

// The state is that between two steps again.
void Loop::leave_meeting() {
  run_.net->step->give_up_shards();
  if (!closing_) return;
  closing_ = false;
  place_ = before_close_;
  trained_ = trained_before_;
}

void Loop::keep_what_is_left() {
  if (!record_.writes() || place_.step == 0) return;
  try {
    checkpoint();
    record_.settle();
  } catch (const Error& e) {  // that the others are lost is what is told
    record_.note(cat("not saved: ", e.what()));
  }
}

// Runs after each meeting: all get the state of the one that is furthest, and their shares of the batches.
void Loop::take_in() {
  Ranks& ranks = *run_.ranks;
  ranks.join_devices();
  constexpr size_t kSaid = 2;
  const std::vector<double> said =
      ranks.gather({known_ ? static_cast<double>(place_.step) : -1.0, record_.writes() ? 1.0 : 0.0});
  std::vector<double> known;
  for (size_t i = 0; i < said.size(); i += kSaid) known.push_back(said[i]);
  share_state(known);
  // A new first rank does not know what the one before has written of an epoch's end: it is done again.
  const bool succession = said[1] == 0;
  if (succession && place_.step > 0 && place_.step == before_close_.step) place_ = before_close_;
  result_.ended = trained_.steps == 0 && complete() ? Ended::nothing_left : Ended::complete;
  result_.steps = place_.step;
  take_last_rate();  // a row of an epoch has it
  finite_at_ = -1;
  known_ = true;
  run_.net->step->deal_shards_anew();
  epoch_.waited_before -= run_.feed->wait_seconds();
  run_.feed = run_.task->train_feed(run_.sharding.deal().pieces());
  if (succession && ranks.first()) lead();
  tell_who_left();
  ranks.members()->settle();
}

// `known`: the steps that each rank has done, -1 of one that has no state yet.
void Loop::share_state(const std::vector<double>& known) {
  Ranks& ranks = *run_.ranks;
  const auto furthest = std::max_element(known.begin(), known.end());
  const auto root = static_cast<int>(furthest - known.begin());
  struct Places {
    RunPosition now, before_close;
    int64_t begun_at;
  } places{place_, before_close_, begun_at_};
  static_assert(std::is_trivially_copyable_v<Places>);
  ranks.broadcast(&places, sizeof places, root);
  ranks.share_agreement(root);
  place_ = places.now;
  before_close_ = places.before_close;
  begun_at_ = places.begun_at;
  const bool alike = std::all_of(known.begin(), known.end(), [&](double k) { return k == *furthest && k >= 0; });
  if (!alike) ranks.broadcast(run_.common_values(), root);
}

// This process is the first from here on.
void Loop::lead() {
  comm::Membership& members = *run_.ranks->members();
  const RunSummary summary = run_.summary();
  epoch_.told = closed_.told = false;
  if (place_.step > begun_at_) {
    record_.take_over(place_);
    observer_.on_succession(summary);
    return;
  }
  const bool again = members.began();
  members.begin();
  record_.make_directory(again);
  record_.left_out(0);
  record_.begin(summary);
  observer_.on_start(summary);
}

void Loop::tell_who_left() {
  const std::string& who = run_.ranks->members()->events();
  if (who.empty() || !run_.ranks->first()) return;
  const Regrouping r{
      .who = who, .devices = run_.ranks->world(), .step = place_.step + 1, .lost_seconds = seconds_since(counted_at_)};
  record_.note(r);
  observer_.on_regrouping(r);
}

}  // namespace freight::train
