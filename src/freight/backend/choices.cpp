// See choices.h.
#include "freight/backend/choices.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <sstream>
#include <utility>

#include "freight/base/array.h"
#include "freight/base/cache.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight {

namespace {

// Each candidate runs at least kMinRuns times and kMinSeconds in all; on a busy machine, where the best runs do not
// agree, up to kMaxSeconds, which is the end for slow ones after kMinSlowRuns. Another candidate than the first must
// win by kMargin: in its best time, or, on a busy machine, against the other's run beside it in the middle of all
// rounds and at all in kMostRounds of them.
constexpr size_t kMinRuns = 5, kMinSlowRuns = 3, kMaxRuns = 400;
constexpr double kMinSeconds = 0.004, kMaxSeconds = 0.1, kMargin = 0.95, kMostRounds = 0.8, kAgreement = 1.1;
constexpr double kMostRepeats = 20;  // of a step, in a run
constexpr double kBeaten = 2;        // times the best: it runs no more than it must
// A candidate that takes so many times the best after so many rounds that agree has lost; once all others have, the
// best needs no more runs either.
constexpr double kLost = 1.25;
constexpr size_t kRoundsToLose = 20;

// A neighbor has no extent that differs by a larger factor: what is faster for 8 rows says little about 1,000.
constexpr double kFarthest = 8;

constexpr char kDisturbed = '?';              // behind a candidate's name in the file, before the number of attempts
constexpr size_t kMaxFile = size_t{8} << 20;  // of choices: some hundred thousand steps

constexpr size_t kBehind = 64;              // bytes that kernels may read behind an operand
constexpr size_t kCold = size_t{64} << 20;  // more than the caches hold

// One candidate and its times. Three runs that agree are believed.
class Runner {
 public:
  Runner(size_t index, std::function<void(int)> run) : candidate(index), run_(std::move(run)) {
    run_(1);  // the first run may compile
  }
  void run(int repeats) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    run_(repeats);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    total_ += seconds;
    double t = seconds / repeats;
    rounds_.push_back(t);
    for (double& b : best_) {
      if (t < b) std::swap(t, b);
    }
  }
  double best() const { return best_[0]; }
  bool settled() const {
    return rounds_.size() >= (slow() ? kMinSlowRuns : kMinRuns) && best_[2] <= best_[0] * kAgreement;
  }
  bool lost_to(double shortest) const {
    return rounds_.size() >= kRoundsToLose && settled() && best() > kLost * shortest;
  }
  bool done() const {
    return rounds_.size() >= kMaxRuns || (rounds_.size() >= kMinSlowRuns && slow()) ||
           (settled() && total_ >= kMinSeconds);
  }
  // Both ran in turn, until one was beaten.
  bool wins_rounds(const Runner& other) const {
    std::vector<double> ratios;
    const size_t both = std::min(rounds_.size(), other.rounds_.size());
    for (size_t i = 0; i < both; ++i) ratios.push_back(rounds_[i] / other.rounds_[i]);
    std::sort(ratios.begin(), ratios.end());
    return ratios[ratios.size() / 2] < kMargin &&
           ratios[static_cast<size_t>(static_cast<double>(ratios.size() - 1) * kMostRounds)] < 1;
  }
  const size_t candidate;

 private:
  bool slow() const { return total_ >= kMaxSeconds; }

  std::function<void(int)> run_;
  double best_[3] = {1e9, 1e9, 1e9}, total_ = 0;
  std::vector<double> rounds_;
};

// The words of a step with # for each extent and stride of 2 or more. Those of 0 and 1 remain words: a vector, or what
// is broadcast, is computed by other loops.
struct StepKind {
  std::string words;
  std::vector<int64_t> extents;
};

StepKind kind_of(const std::string& step) {
  StepKind kind;
  bool in_list = false;
  for (std::string_view rest = step; !rest.empty();) {
    std::string_view behind = rest;
    const std::optional<int64_t> number = in_list ? take_number<int64_t>(behind) : std::nullopt;
    if (number.value_or(0) >= 2) {
      kind.words += '#';
      kind.extents.push_back(*number);
      rest = behind;
      continue;
    }
    if (rest[0] == '[') in_list = true;
    if (rest[0] == ']') in_list = false;
    kind.words += rest[0];
    rest.remove_prefix(1);
  }
  return kind;
}

// The sum of all factors' logarithms, which a change of one axis enters as often as it occurs; infinite where one is
// beyond kFarthest.
double distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double factor = std::abs(std::log(static_cast<double>(a[i]) / static_cast<double>(b[i])));
    if (factor > std::log(kFarthest)) return INFINITY;
    sum += factor;
  }
  return sum;
}

std::optional<size_t> candidate_named(const std::string& name, const std::vector<Choices::Candidate>& candidates) {
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].name == name) return i;
  }
  return std::nullopt;
}

constexpr int64_t kNotForced = -1;
std::atomic<int64_t> g_forced_choice{kNotForced};

}  // namespace

std::string signature(const StepSpec& spec) {
  std::string s = name(spec.node->op);
  if (const auto* m = std::get_if<MatmulAttrs>(&spec.node->attrs)) {
    s += cat(m->trans_a ? " ta" : "", m->trans_b ? " tb" : "", m->epilogue.bias ? " bias" : "",
             m->epilogue.residual ? " residual" : "", m->epilogue.relu ? " relu" : "");
  }
  for (const auto* list : {&spec.in, &spec.out}) {
    for (const Operand& o : *list) s += cat(" ", o.type, o.layout);
  }
  return s;
}

bool measures(const StepSpec& spec) { return !spec.deterministic && env::get("FREIGHT_TUNE") != "0"; }

ForcedChoice::ForcedChoice(size_t number) { g_forced_choice = static_cast<int64_t>(number); }
ForcedChoice::~ForcedChoice() { g_forced_choice = kNotForced; }
std::optional<size_t> ForcedChoice::among(size_t candidates) {
  const int64_t forced = g_forced_choice;
  if (forced == kNotForced) return std::nullopt;
  return std::min(static_cast<size_t>(forced), candidates - 1);
}

ZeroOperands::ZeroOperands(const StepSpec& spec, size_t scratch, std::shared_ptr<DeviceMemory> memory, int cold)
    : memory_(std::move(memory)), cold_(cold) {
  std::vector<size_t> sizes;
  for (const auto* list : {&spec.in, &spec.out}) {
    for (const Operand& o : *list) sizes.push_back(layout_bytes(o.type, o.layout) + kBehind);
  }
  sizes.push_back(scratch + kBehind);
  if (cold_ >= 0) {
    size_t& bytes = sizes[static_cast<size_t>(cold_)];
    stride_ = (bytes + 63) / 64 * 64;
    bytes = std::max(kCold, stride_);
  }
  blocks_.resize(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) addresses_.push_back(allocate(i, sizes[i]));
}

void* ZeroOperands::allocate(size_t number, size_t bytes) {
  std::shared_ptr<Storage>& block = blocks_[number];
  block.reset();  // before there is a larger one
  block = Storage::allocate(bytes);
  void* host = block->data();
  if (!memory_) std::memset(host, 0, bytes);  // until it is written, all of a large block is one page of zeros
  return memory_ ? block->on_device(memory_, DeviceAccess::read) : host;
}

void ZeroOperands::reserve_scratch(size_t bytes) {
  const size_t last = blocks_.size() - 1;
  if (blocks_[last]->size() < bytes + kBehind) addresses_[last] = allocate(last, bytes + kBehind);
}

void* const* ZeroOperands::addresses() {
  if (cold_ >= 0) {  // behind where it lay in the last run
    const Storage& block = *blocks_[static_cast<size_t>(cold_)];
    at_ = at_ + 2 * stride_ <= block.size() ? at_ + stride_ : 0;
    addresses_[static_cast<size_t>(cold_)] = static_cast<char*>(block.data()) + at_;
  }
  return addresses_.data();
}

// Lines are "NAME STEP", or "NAME?ATTEMPTS STEP" where all measurements were disturbed.
Choices::Choices(const std::string& file, double least_run, bool (*alone)())
    : path_(cache_path(file)), least_run_(least_run), alone_(alone) {
  std::istringstream kept(read_cache(path_, kMaxFile));
  for (std::string name, step; kept >> name && std::getline(kept >> std::ws, step);) {
    const size_t mark = std::min(name.find(kDisturbed), name.size());
    std::string_view attempts = std::string_view(name).substr(std::min(mark + 1, name.size()));
    found_[step] = {name.substr(0, mark), take_number<int>(attempts).value_or(0)};
  }
}

void Choices::index(const std::string& step, const std::string& name) {
  StepKind kind = kind_of(step);
  kinds_[kind.words].push_back({std::move(kind.extents), name});
}

// The first candidate where no known step is near.
size_t Choices::nearest(const std::string& step, const std::vector<Candidate>& candidates) {
  const auto at_once = std::find_if(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.guess; });
  if (at_once != candidates.end()) return static_cast<size_t>(at_once - candidates.begin());
  if (kinds_.empty()) {
    for (const auto& [known, found] : found_) index(known, found.name);
  }
  const StepKind kind = kind_of(step);
  const auto alike = kinds_.find(kind.words);
  size_t chosen = 0;
  double least = INFINITY;
  if (alike == kinds_.end()) return chosen;
  for (const Known& known : alike->second) {
    const double away = distance(kind.extents, known.extents);
    if (away >= least) continue;
    if (const auto i = candidate_named(known.name, candidates)) {
      chosen = *i;
      least = away;
    }
  }
  return chosen;
}

size_t Choices::fastest(const std::string& step, const std::vector<Candidate>& candidates, ChoiceRule* rule) {
  std::lock_guard lock(mutex_);
  if (!rule || rule->lasting_ != ChoiceRule::Lasting::process) return by_rule(step, candidates, rule);
  if (const auto it = given_.find(step); it != given_.end()) {
    if (const auto i = candidate_named(it->second, candidates)) return *i;
  }
  const size_t chosen = by_rule(step, candidates, rule);
  given_[step] = candidates[chosen].name;
  return chosen;
}

bool Choices::worth_another_attempt(const Found& found, const ChoiceRule* rule) const {
  const bool may_measure = !rule || rule->unknown_ == ChoiceRule::Unknown::measured;
  if (!may_measure || found.attempts == 0 || found.attempts >= kMostAttempts) return false;
  const BackgroundPause pause;  // or its thread would pass for another program's
  return alone_();
}

size_t Choices::by_rule(const std::string& step, const std::vector<Candidate>& candidates, ChoiceRule* rule) {
  if (const auto it = found_.find(step); it != found_.end() && !worth_another_attempt(it->second, rule)) {
    if (const auto i = candidate_named(it->second.name, candidates)) return *i;
  }
  const auto at_once = [](const Candidate& c) { return c.guess; };
  const bool waits = rule && (rule->unknown_ == ChoiceRule::Unknown::guessed ||
                              (rule->unknown_ == ChoiceRule::Unknown::measured_or_at_once &&
                               std::any_of(candidates.begin(), candidates.end(), at_once)));
  if (!waits) return measured(step, candidates);
  if (rule->lasting_ == ChoiceRule::Lasting::until_measured) ++rule->guesses_;
  return nearest(step, candidates);
}

size_t Choices::measured(const std::string& step, const std::vector<Candidate>& candidates) {
  const BackgroundPause pause;
  std::vector<Runner> runners;
  for (size_t i = 0; i < candidates.size(); ++i) {
    auto run = candidates[i].prepare();
    try {
      runners.emplace_back(i, std::move(run));
    } catch (const Error& e) {  // a library may refuse this device
      logging::info(cat("tune: not used for ", step, ": ", candidates[i].name, ": ", e.what()));
    }
  }
  if (runners.empty()) return 0;  // which says why when the step runs
  double shortest = 1;
  const auto beaten = [&](const Runner& r) { return r.best() > kBeaten * shortest; };
  const auto decided = [&] {
    const auto lost = [&](const Runner& r) { return r.lost_to(shortest); };
    const auto best = std::find_if_not(runners.begin(), runners.end(), lost);
    const bool alone = runners.size() > 1 && std::find_if_not(best + 1, runners.end(), lost) == runners.end();
    return (alone && best->settled()) ||
           std::all_of(runners.begin(), runners.end(), [&](const Runner& r) { return r.done() || lost(r); });
  };
  while (!decided()) {
    const auto repeats = static_cast<int>(std::clamp(least_run_ / shortest, 1.0, kMostRepeats));
    for (Runner& r : runners) {
      if ((r.done() && beaten(r)) || r.lost_to(shortest)) continue;
      r.run(repeats);
      shortest = std::clamp(r.best(), 1e-9, shortest);
    }
  }
  const bool settled =
      std::all_of(runners.begin(), runners.end(), [&](const Runner& r) { return r.settled() || beaten(r); });
  const Runner* winner = &runners[0];
  for (const Runner& r : runners) {
    const double margin = winner == &runners[0] ? kMargin : 1.0;
    if (settled ? r.best() < winner->best() * margin : r.wins_rounds(*winner)) winner = &r;
  }
  std::string times;
  for (const Runner& r : runners) times += cat(" ", candidates[r.candidate].name, " ", fixed(r.best() * 1e6, 1), " us");
  logging::debug(cat("tune ", step, ":", times));
  const std::string name = candidates[winner->candidate].name;
  const int attempts = settled ? 0 : found_[step].attempts + 1;
  found_[step] = {name, 0};  // this process measures it no more
  if (!kinds_.empty()) index(step, name);
  const std::string mark = settled ? "" : cat(kDisturbed, attempts);
  append_cache(path_, cat(name, mark, " ", step, "\n"), kMaxFile);
  return winner->candidate;
}

}  // namespace freight
