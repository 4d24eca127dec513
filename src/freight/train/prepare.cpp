// See prepare.h.
#include "freight/train/prepare.h"

#include "freight/base/error.h"
#include "freight/train/class_weights.h"
#include "freight/train/learner.h"
#include "freight/train/record_internal.h"

namespace freight::train {

void begin(Prepared& run, const Config& config, PrepareOptions options) {
  validate(config);
  run.config = config;
  settle_class_weight(run.config);
  run.ranks = options.ranks;
  run.recorded = options.recorded;
  run.keeps_predictions = options.keeps_predictions;
  if (run.records()) run.start = start_point(run.config, std::move(options.found));
  run.notes = run.start.notes;
  run.left_out.heard = std::move(options.on_bad_sample);
}

RunSummary common_summary(const Prepared& run) {
  RunSummary s;
  s.output_dir = run.config.output_dir;
  s.data = run.config.data;
  s.pass = run.pass();
  s.seed = static_cast<uint64_t>(run.config.seed);
  s.warnings = run.start.warnings;
  s.notes = run.notes;
  return s;
}

PreparedRun prepare(const Config& config, PrepareOptions options) {
  const Learner& nets = *learners().front();
  if (options.own.model && !options.own.model->net) {
    fail(ErrorKind::usage, "own.model", "has no network: expected the module to train, got a null pointer");
  }
  if (options.own.feeds && options.source) {
    fail(ErrorKind::usage, "train", "expected one of them, got a dataset and custom feeds");
  }
  if (!options.own.feeds && !options.source) options.source = source_of(config);
  const data::Source& source = options.source;
  const Learner& learner = options.own.model ? nets : learner_of(config, source);
  const bool samples = source && source.in_memory() && source.content() != data::Content::table;
  if ((options.own.any() || samples) && &learner != &nets) {
    fail(ErrorKind::usage, "train", "--model ", config.model, " is not a network: custom data are for networks");
  }
  if (options.ranks && !options.own.model) need_several(config, source);
  Config named = config;
  if (source && source.in_memory()) named.data = source.name().empty() ? "own" : base_name(source.name());
  return PreparedRun(learner.prepare(named, std::move(options)));
}

PreparedRun::PreparedRun(std::unique_ptr<Prepared> prepared) : prepared_(std::move(prepared)) {}
PreparedRun::~PreparedRun() = default;
PreparedRun::PreparedRun(PreparedRun&&) noexcept = default;
PreparedRun& PreparedRun::operator=(PreparedRun&&) noexcept = default;

const Config& PreparedRun::config() const { return prepared_->config; }
RunSummary PreparedRun::summary() const { return prepared_->summary(); }
void PreparedRun::set_planned_bytes(size_t bytes) { prepared_->planned_bytes = bytes; }
Cost PreparedRun::cost() const { return prepared_->cost(); }
bool PreparedRun::has_plans() const { return prepared_->net_run() != nullptr; }
void PreparedRun::restore() { prepared_->restore(); }

namespace {

NetRun& net_of(Prepared& run, const char* what) {
  if (NetRun* net = run.net_run()) return *net;
  fail(ErrorKind::usage, what, "--model ", run.config.model, " is not a network: only networks have plans");
}

}  // namespace

Planned PreparedRun::planned() const { return net_of(*prepared_, "PreparedRun::planned").planned(); }

store::Preprocessing PreparedRun::preprocessing() const {
  return net_of(*prepared_, "PreparedRun::preprocessing").task->preprocessing();
}

const std::vector<std::string>& PreparedRun::class_names() const { return prepared_->class_names; }

void PreparedRun::plan_within(const ArenaLimit& limit) {
  net_of(*prepared_, "PreparedRun::plan_within").plan_within(limit);
}

}  // namespace freight::train
