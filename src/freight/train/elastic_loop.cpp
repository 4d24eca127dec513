// The loop of a run whose processes may be lost and come while it goes on (comm/membership.h). After a loss each
// process stands at the step that failed, or one further: a process does an update when it has the sums of all, which
// others may have missed. The bits of a step are those of its number (sharded_step.h, exact), whoever computes it: so
// whoever is furthest hands its state on, and nobody goes back. A process that comes is one that is furthest behind.
// States that are dealt out (state_shares.h) are on two ranks each. Those that lack their new ones follow by
// themselves: they have the sums, or nobody is further (ShardedStep::Stage).
#include <algorithm>
#include <type_traits>
#include <utility>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/train/loop_internal.h"
#include "freight/train/state_shares.h"

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
      if (e.kind() != ErrorKind::peer_lost || over_) throw;
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
  const StateShares* const shares = run_.net->shares.get();
  if (shares && !shares->everywhere()) {
    return record_.note("not saved: a part of the optimizer's states is with other ranks (--shard-optimizer)");
  }
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
  ranks.gather_weights();
  const std::vector<Standing> all = gather_standings();
  const auto furthest = std::max_element(all.begin(), all.end(), [](const Standing& a, const Standing& b) {
    return std::pair(a.step + a.updated, a.step) < std::pair(b.step + b.updated, b.step);
  });
  const auto root = static_cast<int>(furthest - all.begin());
  if (furthest->step < 0 && std::any_of(all.begin(), all.end(), [](const Standing& s) { return s.mixed > 0; })) {
    give_up("those that had the run's state were lost while others took it over");
  }
  mixed_ = mixed_ || (!known_ && furthest->step > static_cast<double>(begun_at_));
  if (run_.net->shares) settle_states(all, root);
  share_state(all, root);
  // A new first rank does not know what the one before has written of an epoch's end: it is done again.
  const bool succession = all[0].writes == 0;
  if (succession && place_.step > 0 && place_.step == before_close_.step) place_ = before_close_;
  result_.ended = trained_.steps == 0 && complete() ? Ended::nothing_left : Ended::complete;
  result_.steps = place_.step;
  take_last_rate();  // a row of an epoch has it
  finite_at_ = -1;
  gathered_ = 0;  // whoever came knows of none
  known_ = true;
  mixed_ = false;
  run_.net->step->deal_shards_anew();
  epoch_.waited_before -= run_.feed->wait_seconds();
  run_.feed = run_.task->train_feed(run_.sharding.deal().pieces());
  if (succession && ranks.first()) lead();
  tell_who_left();
  ranks.members()->settle();
}

std::vector<Loop::Standing> Loop::gather_standings() {
  const Standing mine{.step = known_ ? static_cast<double>(place_.step) : -1.0,
                      .updated = run_.net->step->has_updated() ? 1.0 : 0.0,
                      .writes = record_.writes() ? 1.0 : 0.0,
                      .mixed = mixed_ ? 1.0 : 0.0};
  const std::vector<double> numbers = run_.ranks->gather({mine.step, mine.updated, mine.writes, mine.mixed});
  std::vector<Standing> all;
  for (size_t i = 0; i < numbers.size(); i += 4) {
    all.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
  }
  return all;
}

// Brings all weights and states to the step of rank `furthest`, and deals the states by the ranks that there are now.
void Loop::settle_states(const std::vector<Standing>& all, int furthest) {
  StateShares& shares = *run_.net->shares;
  const Standing& first = all[static_cast<size_t>(furthest)];
  const std::string lost = shares.find_holders(known_ || first.step < 0);
  if (!lost.empty()) {
    give_up(cat("both ranks that kept the optimizer's states of ", lost, " were lost (--shard-optimizer)"));
  }
  const double newest = first.step + first.updated;
  const auto lags = [&](const Standing& s) { return s.step >= 0 && s.step < newest; };
  if (std::any_of(all.begin(), all.end(), lags)) follow(furthest, known_ && static_cast<double>(place_.step) < newest);
  shares.deal_anew();
}

// Finishes the step that the others were lost in by what rank `root` knows of it.
void Loop::follow(int root, bool behind) {
  int64_t counted = 0;
  const TrainStep::Outcome outcome = run_.net->step->follow_shards(root, behind, counted);
  if (behind) take_in({{outcome, counted}});
}

void Loop::share_state(const std::vector<Standing>& all, int furthest) {
  Ranks& ranks = *run_.ranks;
  struct Places {
    RunPosition now, before_close;
    int64_t begun_at;
  } places{place_, before_close_, begun_at_};
  static_assert(std::is_trivially_copyable_v<Places>);
  ranks.broadcast(&places, sizeof places, furthest);
  ranks.share_agreement(furthest);
  place_ = places.now;
  before_close_ = places.before_close;
  begun_at_ = places.begun_at;
  // Ranks that keep a part of the states have followed by now.
  const double step = run_.net->shares ? 0 : all[static_cast<size_t>(furthest)].step;
  const bool alike =
      std::all_of(all.begin(), all.end(), [&](const Standing& s) { return s.step >= std::max(step, 0.0); });
  if (!alike) ranks.broadcast(run_.common_values(), furthest);
}

// The launcher would begin anew with the ranks that it starts again.
void Loop::give_up(const std::string& why) {
  comm::Membership& members = *run_.ranks->members();
  over_ = true;
  try {
    run_.ranks->wait_for_all();  // each has found it out by then, and says so
  } catch (const Error&) {
  }
  members.end_job(why);
  if (run_.ranks->first()) comm::Membership::take_terminal();  // where the one before was lost
  const std::string& who = members.events();
  throw Error(ErrorKind::peer_lost, "elastic",
              cat(who, who.empty() ? "" : "; ", why, "; the run goes on from its last checkpoint by --resume"),
              cat("rank ", members.number()));
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
