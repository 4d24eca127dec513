// See rank_shares.h.
#include "freight/train/rank_shares.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/job/parts.h"
#include "freight/job/rank_sum.h"
#include "freight/train/made_up.h"
#include "freight/train/net_training.h"

namespace freight::train {

using nlohmann::json;

namespace {

constexpr int64_t kWarm = 2, kLeastSteps = 3;
// Processors that are lent in slices, by a quota of a tenth of a second, show their mean over many of these.
constexpr double kSeconds = 1;

std::string ms(double seconds) { return cat(fixed(seconds * 1e3, 1), " ms"); }

// The shards of a rank's step on `units`: parts that are accumulated, or shards of the contract.
job::Sharding trial_of(const Config& c, int64_t units) {
  if (c.shards == 0) return {.shards = c.grad_accum, .batch_size = units};
  const int64_t each = (c.batch_size + c.shards - 1) / c.shards;
  return {.shards = units, .exact = true, .batch_size = units * each};
}

}  // namespace

Array made_up(const Type& type) {
  Array a(type.dtype, type.shape);
  std::fill_n(static_cast<char*>(a.raw()), a.bytes(), char{0});
  if (type.dtype != DType::f32) return a;
  PhiloxStream rng(1, 0, 0);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<float>()[i] = rng.normal();
  return a;
}

StepLine line_through(std::pair<double, double> a, std::pair<double, double> b) {
  const double most = b.second / b.first;  // nothing is fixed
  double slope = most;
  if (std::fabs(a.first - b.first) > 0.05 * b.first) {
    slope = std::clamp((a.second - b.second) / (a.first - b.first), 0.5 * most, most);
  }
  return {b.second - slope * b.first, slope};
}

std::vector<int64_t> shares_of(const std::vector<StepLine>& lines, int64_t total, int64_t least) {
  const auto units_by = [&](size_t i, double seconds) {
    const double n = std::floor((seconds - lines[i].fixed) / lines[i].per_unit);
    return static_cast<int64_t>(std::clamp(n, static_cast<double>(least), static_cast<double>(total)));
  };
  const auto ready = [&](double seconds) {
    int64_t sum = 0;
    for (size_t i = 0; i < lines.size(); ++i) sum += units_by(i, seconds);
    return sum;
  };
  double low = 0, high = 0;
  for (const StepLine& l : lines) high = std::max(high, l.of(static_cast<double>(total)));
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (ready(middle) <= total ? low : high) = middle;
  }
  std::vector<int64_t> units;
  int64_t left = total;
  for (size_t i = 0; i < lines.size(); ++i) {
    units.push_back(units_by(i, low));
    left -= units.back();
  }
  // Two that reach a whole number at the same time are both left out by `low`.
  for (; left > 0; --left) {
    size_t best = 0;
    const auto with_one_more = [&](size_t i) { return lines[i].of(static_cast<double>(units[i] + 1)); };
    for (size_t i = 1; i < lines.size(); ++i) best = with_one_more(i) < with_one_more(best) ? i : best;
    ++units[best];
  }
  return units;
}

double RankShares::together() const {
  double slowest = 0;
  for (size_t i = 0; i < lines.size(); ++i) slowest = std::max(slowest, lines[i].of(static_cast<double>(units[i])));
  return slowest + sums;
}

double RankShares::alone(size_t rank) const {
  int64_t all = 0;
  for (const int64_t n : units) all += n;
  return lines[rank].of(static_cast<double>(all));
}

size_t RankShares::fastest() const {
  size_t best = 0;
  for (size_t i = 1; i < lines.size(); ++i) best = alone(i) < alone(best) ? i : best;
  return best;
}

std::string RankShares::text() const {
  std::string all;
  for (size_t i = 0; i < units.size(); ++i) all += cat(i > 0 ? " + " : "", devices[i], " ", units[i]);
  return all;
}

std::string RankShares::note() const {
  std::string all = cat("a batch is shared as ", text(), of_shards ? " shards" : " samples");
  if (!measured()) return all;
  all += cat(": ", ms(together()), " a step predicted, of which ", ms(sums), " of all-reduce; alone");
  for (size_t i = 0; i < units.size(); ++i) all += cat(i > 0 ? ", " : " ", devices[i], " ", ms(alone(i)));
  return all;
}

std::string RankShares::warning() const {
  if (!measured() || together() <= alone(fastest())) return {};
  return cat("together the devices take ", ms(together()), " a step, rank ", fastest(), " (", devices[fastest()],
             ") alone would take ", ms(alone(fastest())), ": the others make it slower, remove them");
}

double seconds_of_step(const TriedNet& net, int64_t units, const std::function<void()>& ready) {
  NetTraining trial(net.config, net.make_model());
  trial.model.net->train();
  std::unique_ptr<optim::EMA> averages;
  if (net.config.model_ema > 0) averages = std::make_unique<optim::EMA>(*trial.model.net);
  const job::Sharding sharding = trial_of(net.config, units);
  TrainStep step(
      trial.model, *trial.optimizer, averages.get(),
      {.loss = {.label_smoothing = net.config.label_smoothing}, .sharding = sharding, .unused = &trial.unused},
      net.compile);
  Type x = net.inputs, y = net.targets;
  x.shape[0] = y.shape[0] = sharding.batch_size;
  const Array inputs = made_up(x), targets = made_up(y);
  const data::Share pieces = sharding.deal().pieces();
  const auto once = [&] {
    for (int64_t i = 0; i < pieces.end; ++i) {
      const auto [first, count] = pieces.rows(i, sharding.batch_size);
      step.add_shard({batch_rows(inputs, first, count), batch_rows(targets, first, count), count});
    }
    int64_t counted = 0;
    step.finish_shards(counted);
  };
  for (int64_t i = 0; i < kWarm; ++i) once();
  ready();
  const auto start = std::chrono::steady_clock::now();
  int64_t steps = 0;
  while (steps < kLeastSteps || seconds_since(start) < kSeconds) {
    once();
    ++steps;
  }
  trial.optimizer->parameters().back().array();  // a device has then done the last update
  return seconds_since(start) / static_cast<double>(steps);
}

RankShares measure_ranks(const TriedNet& net, const std::string& device, job::Ranks& ranks) {
  const Config& c = net.config;
  RankShares shares{
      .devices = ranks.from_all(device), .units = {}, .of_shards = c.shards > 0, .batch_size = c.batch_size};
  const int64_t total = shares.of_shards ? c.shards : c.batch_size, least = shares.of_shards ? 1 : c.grad_accum;
  const auto world = static_cast<size_t>(ranks.world()), me = static_cast<size_t>(ranks.rank());
  // Evenly first, then as that says: the line goes through shares that are close to the final ones.
  shares.units = job::dealt(total, std::vector<double>(world, 1), least);
  std::vector<std::pair<double, double>> before;
  for (int round = 0; round < 2; ++round) {
    const double mine = seconds_of_step(net, shares.units[me], [&] { ranks.comm().barrier(); });
    const std::vector<double> seconds = ranks.gather(mine);
    std::vector<StepLine> lines;
    std::vector<std::pair<double, double>> now;
    for (size_t i = 0; i < world; ++i) {
      now.emplace_back(static_cast<double>(shares.units[i]), seconds[i]);
      lines.push_back(line_through(before.empty() ? now[i] : before[i], now[i]));
    }
    shares.units = shares_of(lines, total, least);
    shares.lines = std::move(lines);
    before = std::move(now);
  }
  double bytes = 0;
  for (const Variable& v : net.make_model().net->parameters()) bytes += static_cast<double>(v.type().bytes());
  shares.sums = job::measure_sums(ranks.comm()).of(bytes);
  return shares;
}

std::string to_json(const RankShares& s) {
  json j = {{"devices", s.devices},
            {"units", s.units},
            {"of", s.of_shards ? "shards" : "samples"},
            {"batch_size", s.batch_size}};
  if (s.measured()) {
    j["predicted_step_seconds"] = s.together();
    for (size_t i = 0; i < s.units.size(); ++i) j["predicted_alone_seconds"].push_back(s.alone(i));
  }
  return j.dump();
}

std::optional<RankShares> shares_in(const std::string& run_json, const RankShares& like) {
  const std::optional<json> run = io::try_parse_json<json>(run_json);
  if (!run || !run->is_object() || !run->contains("ranks")) return std::nullopt;
  const json& j = (*run)["ranks"];
  RankShares found = like;
  try {
    found.units = j.at("units").get<std::vector<int64_t>>();
    const bool same = j.at("devices").get<std::vector<std::string>>() == like.devices &&
                      j.at("of").get<std::string>() == (like.of_shards ? "shards" : "samples") &&
                      j.at("batch_size").get<int64_t>() == like.batch_size;
    const bool sound =
        found.units.size() == like.devices.size() &&
        std::all_of(found.units.begin(), found.units.end(), [](int64_t n) { return n > 0 && n < (1 << 30); });
    if (!same || !sound) return std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return found;
}

}  // namespace freight::train
