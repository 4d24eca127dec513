// `freight advise`: the least hardware that completes a run within a deadline and a budget, and why.
#include <cstdio>
#include <optional>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/json_library.h"
#include "freight/plan/advice.h"
#include "plan_options.h"
#include "plan_table.h"
#include "plan_text.h"
#include "plan_world.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;
using plan::Choice;

struct AdviseFlags : PlanFlags {
  std::string deadline;
  std::optional<double> budget;
  FleetFlags fleet = {.link = {}, .per_machine = plan::kAsOffered};
};

std::string name_of(const Choice& c) {
  return cat(c.estimate.devices > 1 ? cat(c.estimate.devices, " x ") : "", c.estimate.device);
}

std::string money(const plan::Range& r) {
  const int digits = r.high < 10 ? 2 : 0;
  return cat("$", fixed(r.low, digits), " to $", fixed(r.high, digits));
}

// "GeForce RTX 4090: 31 min to 2.1 h, $0.20 to $0.80 (RunPod ..., 2026-01-01)".
std::string line_of(const Choice& c) {
  const plan::Estimate& e = c.estimate;
  std::string text =
      cat(name_of(c), ": ", plan::hours_text(e.run_hours.low), " to ", plan::hours_text(e.run_hours.high));
  if (c.here) return text + ", measured rates";
  if (e.dollars && e.offer) {
    text += cat(", ", money(*e.dollars), " (", e.offer->machines > 1 ? cat(e.offer->machines, " x ") : "",
                e.offer->price->provider, " ", e.offer->price->instance, ", ", e.offer->price->date, ")");
  } else {
    text += ", no price is known";
  }
  return text;
}

Json json_of(const std::optional<Choice>& c, const plan::Catalog& catalog) {
  if (!c) return nullptr;
  Json j = {{"hardware", plan::to_string(c->hardware)}, {"here", c->here}};
  j.update(freight::app::json_of(c->estimate, catalog));
  return j;
}

void say(const std::string& text) { std::printf("%s\n", text.c_str()); }

// Prints the answer's device by number of devices, in the cheapest machines.
void print_devices(const plan::Advice& a) {
  if (a.by_devices.size() < 2) return;
  std::vector<const plan::Estimate*> rows;
  EstimateColumn of_linear{.heading = "efficiency"};
  for (const Choice& c : a.by_devices) {
    rows.push_back(&c.estimate);
    const double share = plan::efficiency(a, c);
    of_linear.cells.push_back(share > 0 ? cat(fixed(100 * share, 0), " %") : "-");
  }
  std::printf("\n%s\n%s\n", rows[0]->device.c_str(),
              estimate_table(rows, {{Figure::devices},
                                    {Figure::total},
                                    {Figure::step},
                                    of_linear,
                                    {Figure::limit},
                                    {Figure::run_hours},
                                    {Figure::dollars}})
                  .c_str());
}

void print(const plan::Advice& a, const plan::Goal& w) {
  if (a.answer) {
    say(cat("result    ", plan::to_string(a.answer->hardware), ": ", line_of(*a.answer)));
  } else {
    say(cat("result    no device meets the deadline and budget: ", a.miss));
  }
  if (a.cheapest) say(cat("cheapest  ", line_of(*a.cheapest)));
  if (a.fastest) say(cat("fastest   ", line_of(*a.fastest)));
  for (const std::string& text : a.reasons) say(cat("reason    ", text));
  for (const std::string& text : a.changes) say(cat("else      ", text));
  print_devices(a);
  if (w.deadline_hours <= 0)
    say(cat("assumed   a deadline of ", fixed(plan::kNight, 0), " h, since --deadline is not given"));
  say(cat("assumed   choices are compared by the slow end of their predicted times; GPUs of up to ",
          fixed(plan::kModestGib, 0), " GiB count as small; hourly prices as of the dates shown"));
}

// `run`: the planned run.
Json json_of(const plan::Advice& a, const plan::Goal& w, Json run, const plan::Catalog& catalog) {
  Json j = std::move(run);
  j.update({{"deadline_hours", w.deadline_hours > 0 ? w.deadline_hours : plan::kNight},
            {"budget_usd", w.budget_usd > 0 ? Json(w.budget_usd) : Json(nullptr)},
            {"answer", json_of(a.answer, catalog)},
            {"cheapest", json_of(a.cheapest, catalog)},
            {"fastest", json_of(a.fastest, catalog)},
            {"this_machine", json_of(a.here, catalog)},
            {"reasons", a.reasons},
            {"changes", a.changes},
            {"by_devices", Json::array()},
            {"miss", nullptr}});
  for (const Choice& c : a.by_devices) {
    Json one = json_of(std::optional<Choice>(c), catalog);
    one["efficiency"] = plan::efficiency(a, c);
    j["by_devices"].push_back(std::move(one));
  }
  if (!a.answer) j["miss"] = {{"text", a.miss}, {"late_hours", a.late_hours}, {"over_usd", a.over_usd}};
  return j;
}

plan::Advice advise_net(const PlanInput& in, const AdviseFlags& flags, const plan::Goal& goal) {
  const plan::RunLength length = plan::RunLength::of(in.setup, flags.samples);
  if (length.steps_per_epoch <= 0 || length.epochs <= 0) {
    fail(ErrorKind::usage, "advise", "how long the run is depends on the data: add DATA, or --samples N with --epochs");
  }
  const plan::Fleet fleet = flags.fleet.fleet(in.catalog);
  const std::vector<plan::Share> shares = plan::shares(in.setup, plan::options_of_run(in.setup));
  plan::Advice advice = plan::advise(shares, in.catalog, in.rates ? &*in.rates : nullptr, length, goal, fleet);
  if (flags.json) {
    const Json run = json_of_run(in.setup, shares[0].step_plans[0]);
    std::printf("%s\n", json_of(advice, goal, run, in.catalog).dump(2).c_str());
    return advice;
  }
  say(cat("run       ", in.setup.config.model, in.setup.data.empty() ? "" : cat(" on ", in.setup.data), ", batch ",
          in.setup.config.batch_size, ", ", in.setup.config.precision, ": ", fixed(length.epochs, 0), " epochs of ",
          with_commas(static_cast<int64_t>(length.steps_per_epoch)), " steps"));
  for (const std::string& line : in.setup.frozen) say(cat("frozen    ", line));
  std::fputs(texts_line(in.setup).c_str(), stdout);
  print(advice, goal);
  say(cat("assumed   up to 64 devices, ",
          fleet.per_machine > 0 ? cat(fleet.per_machine, " in a machine") : "machine sizes as offered",
          "; machines are joined by ",
          fleet.measured  ? fleet.measured->source
          : fleet.between ? fleet.between->name
                          : "100gbit (--link)",
          ", which offers of single machines do not guarantee"));
  if (!advice.here) {
    say("assumed   this machine is not calibrated: run freight calibrate once to include it");
  }
  return advice;
}

plan::Advice advise_table(const PlanInput& in, const AdviseFlags& flags, const plan::Goal& goal) {
  if (!flags.input_shape.empty()) refuse_flag_of("--input-shape", "networks", "a table defines its rows");
  const TablePlan p = make_table_plan(flags.config, in, flags.samples);
  plan::Advice advice = plan::advise_trees(p.estimates, in.catalog, goal);
  advice.reasons.insert(advice.reasons.begin(), cat("A GPU ", p.outcome(), "."));
  if (flags.json) {
    std::printf("%s\n", json_of(advice, goal, json_of_run(p), in.catalog).dump(2).c_str());
    return advice;
  }
  say(cat("run       ", p.model, " on ", p.data, ": ", p.rows_text(), "; ", p.trees_text()));
  print(advice, goal);
  say(cat("assumed   this machine: ", p.estimates[0].assumed, "; GPUs by published runs of XGBoost (freight plan)"));
  return advice;
}

}  // namespace

int advise_command(const Args& args) {
  AdviseFlags flags;
  const auto make = [&] {
    auto o = std::make_unique<Options>(
        "advise", "Recommends hardware to train on, within a deadline and a budget.", "[DATA] [options]",
        "Accepts the flags of freight plan; runs nothing except, for trees, one second of "
        "fitting, which is measured. Exit code 5\n"
        "if no device meets the deadline and budget.\n"
        "  freight advise cifar10 --model resnet20 --epochs 30\n"
        "  freight advise housing.csv --target price --deadline 1h\n"
        "  freight advise cifar10 --model resnet20 --epochs 200 --deadline 10m --link 10gbit\n"
        "  freight advise --model resnet50 --samples 1281167 --epochs 90 -b 256 \\\n"
        "      --precision bf16 --deadline 8h --budget 50");
    flags.declare(*o);
    declare_links(*o, flags.fleet);
    o->add("--deadline", &flags.deadline, "deadline of the whole run: 8h, 90m, 1h30m, 2d", {.value = "TIME"});
    o->add("--budget", &flags.budget, "budget of the whole run, in dollars", {.value = "USD"});
    o->essentials({"data", "--model", "--target", "--batch-size", "--epochs", "--samples", "--precision", "--deadline",
                   "--budget", "--link", "--devices-per-machine", "--catalog", "--prices", "--rates", "--json",
                   "--help"});
    return o;
  };
  const std::optional<PlanInput> in = read_plan_input(args, flags, make, Trees::planned);
  if (!in) return 0;
  plan::Goal goal;
  if (!flags.deadline.empty()) goal.deadline_hours = plan::parse_hours("--deadline", flags.deadline);
  if (flags.budget) need_positive("--budget", "dollars", *flags.budget);
  goal.budget_usd = flags.budget.value_or(0);
  const plan::Advice advice = in->trees ? advise_table(*in, flags, goal) : advise_net(*in, flags, goal);
  return advice.answer ? 0 : static_cast<int>(ErrorKind::capacity);
}

}  // namespace freight::app
