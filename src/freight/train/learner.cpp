// See learner.h.
#include "freight/train/learner.h"

#include <algorithm>
#include <mutex>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/models/models.h"
#include "freight/train/prepared_internal.h"
#include "freight/train/task.h"

namespace freight::train {

namespace {

struct Learners {
  std::mutex guard;
  std::vector<std::shared_ptr<const Learner>> all = {net_learner()};
};
Learners& known_learners() {
  static Learners known;
  return known;
}

// Throws Error(usage) for a name of no net: one that is mistyped may be meant for either list.
void need_net(const std::string& model) {
  if (model.empty() || is_spec_file(model)) return;  // the data's own, or a file that is checked when it is read
  std::vector<std::string> nets, others, all;
  for (const models::Entry& e : models::registry()) nets.emplace_back(e.name);
  if (std::find(nets.begin(), nets.end(), model) != nets.end()) return;
  for (const Learner* learner : learners()) others.push_back(learner->name());
  others.erase(others.begin());  // that of nets is named by the nets
  all = nets;
  all.insert(all.end(), others.begin(), others.end());
  refuse_unknown("--model", {.kind = "model",
                             .got = model,
                             .known = all,
                             .all = cat(" (networks: ", join(nets, ", "), "; for tables: ", join(others, ", "),
                                        "; or a path of a spec file)")});
}

}  // namespace

data::BadSamples bad_samples(const MeasureRequest& request, const TrainedOn& on) {
  const bool same = request.data.empty() || base_name(request.data) == base_name(on.data);
  return {.on_bad = request.on_bad.value_or(same ? on.on_bad : data::OnBad::error), .report = request.left_out};
}

void register_learner(std::shared_ptr<const Learner> learner) {
  const std::string name = learner->name();
  const std::vector<models::Entry>& nets = models::registry();
  const bool net = std::any_of(nets.begin(), nets.end(), [&](const models::Entry& e) { return e.name == name; });
  Learners& known = known_learners();
  const std::lock_guard lock(known.guard);
  const bool taken =
      std::any_of(known.all.begin(), known.all.end(), [&](const auto& other) { return other->name() == name; });
  if (name.empty() || (net && !learner->beside_net()) || taken) {
    fail(ErrorKind::usage, "register_learner", "the name '", name,
         "' belongs to another model for tables or to a network, or does not exist");
  }
  known.all.push_back(std::move(learner));
}

std::vector<const Learner*> learners() {
  Learners& known = known_learners();
  const std::lock_guard lock(known.guard);
  std::vector<const Learner*> all;
  for (const auto& learner : known.all) all.push_back(learner.get());
  return all;
}

const Learner* find_learner(const std::string& name) {
  for (const Learner* learner : learners()) {
    if (learner->name() == name) return learner;
  }
  return nullptr;
}

namespace {
// True where the flags, the name of a known table, or a table in memory say so before anything is read.
bool is_said_table(const Config& config, const data::Source& source) {
  if (!config.target.empty() || config.task == "ranking") return true;
  return source &&
         (source.in_memory() ? source.content() == data::Content::table : source.entry() && source.entry()->table);
}
}  // namespace

std::string asked_model(const Config& config, const data::Source& source) {
  return config.model.empty() && is_said_table(config, source) ? kLearnerOfTables : config.model;
}

bool is_table(const Config& config, const data::Source& source) {
  if (is_said_table(config, source)) return true;
  return config.text_column.empty() && source && source.could_be_table();
}

const Learner* named_learner(const Config& config, const data::Source& source) {
  const Learner* const named = find_learner(asked_model(config, source));
  return named && named->beside_net() && !is_table(config, source) ? nullptr : named;
}

const Learner& learner_of(const Config& config, const data::Source& source) {
  if (const Learner* named = named_learner(config, source)) return *named;
  need_net(asked_model(config, source));
  return *learners().front();
}

bool is_network(const Config& config, const data::Source& source) {
  return &learner_of(config, source) == learners().front();
}

void need_several(const Config& config, const data::Source& source) {
  const Learner& learner = learner_of(config, source);
  if (learner.fits_by_several()) return;
  std::vector<std::string> others;
  for (const Learner* l : learners()) {
    if (l->fits_by_several() && l != learners().front()) others.push_back(l->name());
  }
  fail(ErrorKind::usage, "--devices", "--model ", learner.name(), " is fitted by one device: expected a network, or ",
       join(others, ", "), ", which several fit together");
}

const Learner& learner_of(const store::Bundle& bundle) {
  if (const Learner* learner = find_learner(bundle.learner)) return *learner;
  std::vector<std::string> names;
  for (const Learner* learner : learners()) names.push_back(learner->name());
  fail(ErrorKind::usage, bundle.learner, "is not a model for tables of this program: expected ", join(names, ", "));
}

void need_net_model(const std::string& model, const std::string& what) {
  const Learner* learner = find_learner(model);
  if (!learner || learner == learners().front() || learner->beside_net()) return;
  fail(ErrorKind::usage, what, "--model ", model, " is not a network, and only networks have layers and plans; ",
       "freight train DATA --model ", model, " --dry-run shows what its run would need");
}

}  // namespace freight::train
