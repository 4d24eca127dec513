// The table, the sentences and the JSON of measured scaling. See scaling.h.
#include <algorithm>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/bench/comm_json_internal.h"
#include "freight/bench/format_internal.h"
#include "freight/bench/scaling.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::bench {

namespace {

using Json = nlohmann::ordered_json;

// Below this fraction of a step nothing is reported as a limit.
constexpr double kLittle = 0.03;

std::string range_ms(const plan::Range& r) {
  return r.high > 0 ? cat(milliseconds(r.low), " - ", milliseconds(r.high)) : "-";
}

std::string limit_of(const Scaling& s, const ScalingPoint& p) {
  if (&p == s.points.data()) return "";
  const LostTime most = lost_times(s, p)[0];
  return most.seconds < kLittle * p.step_seconds ? "nothing" : most.cause;
}

Json json_of(const RankTimes& r) {
  return {{"compute_seconds", r.compute},
          {"sums_seconds", r.sums},
          {"waiting_seconds", r.waiting},
          {"data_seconds", r.data},
          {"sums_beside_seconds", r.beside}};
}

Json json_of(const ScalingPoint& p) {
  Json j = {
      {"devices", p.devices},
      {"batch_per_device", p.batch},
      {"threads_per_device", p.threads},
      {"steps", p.steps},
      {"step_seconds", p.step_seconds},
      {"ranks", Json::array()},
      {"sum_cost",
       {{"start_seconds", p.cost.start}, {"seconds_per_byte", p.cost.per_byte}, {"worst_deviation", p.cost.worst}}}};
  if (p.beside) j["beside_compute"] = bench::json_of(*p.beside);
  for (const RankTimes& r : p.ranks) j["ranks"].push_back(json_of(r));
  return j;
}

}  // namespace

Listing figures_of(const Scaling& s) {
  Listing out;
  out.header = {"devices", "batch of each", "threads", "ms/step", "samples/s", "efficiency",
                "compute", "all-reduce",    "waiting", "data",    "predicted", "limited by"};
  out.words = {11};
  for (const ScalingPoint& p : s.points) {
    const RankTimes mean = p.mean();
    out.rows.push_back({cat(p.devices), cat(p.batch), cat(p.threads), milliseconds(p.step_seconds),
                        number(static_cast<double>(s.batch) / p.step_seconds),
                        cat(fixed(100 * efficiency(s, p), 0), " %"), milliseconds(mean.compute),
                        milliseconds(mean.sums), milliseconds(mean.waiting), milliseconds(mean.data),
                        range_ms(p.predicted), limit_of(s, p)});
  }
  return out;
}

std::vector<std::string> findings(const Scaling& s) {
  std::vector<std::string> out;
  const ScalingPoint& first = s.points[0];
  for (const ScalingPoint& p : s.points) {
    if (&p == &first) continue;
    std::string text = cat(p.devices, " devices are ", fixed(first.step_seconds / p.step_seconds, 2),
                           " times as fast as ", first.devices, ", ", fixed(100 * efficiency(s, p), 0), " % of linear");
    std::vector<std::string> why;
    for (const LostTime& loss : lost_times(s, p)) {
      if (std::abs(loss.seconds) < kLittle * p.step_seconds) continue;
      why.push_back(loss.seconds > 0 ? cat(loss.cause, " ", milliseconds(loss.seconds), " ms")
                                     : cat("less for ", loss.cause, ", ", milliseconds(-loss.seconds), " ms"));
    }
    text += why.empty() ? ": no time is lost"
                        : cat(". Of each step of ", milliseconds(p.step_seconds), " ms: ", join(why, "; "));
    const double beside = p.mean().beside;
    if (beside > 0) text += cat("; ", milliseconds(beside), " ms of all-reduce overlap with compute");
    out.push_back(text + ".");
  }
  if (!s.why_not_predicted.empty()) out.push_back(s.why_not_predicted);
  return out;
}

std::vector<std::string> warnings(const Scaling& s) {
  std::vector<std::string> out;
  for (const ScalingPoint& p : s.points) {
    if (p.devices <= s.processors) continue;
    out.push_back(cat(p.devices, " ranks share ", s.processors, s.processors == 1 ? " core" : " cores",
                      ": they take turns, so their times are not those of separate devices"));
  }
  return out;
}

std::string to_json(const Scaling& s) {
  Json j = {{"machine", s.machine},   {"processors", s.processors}, {"engine", s.transport}, {"model", s.model},
            {"data", s.data},         {"batch_size", s.batch},      {"shards", s.shards},    {"warnings", warnings(s)},
            {"worlds", Json::array()}};
  for (const ScalingPoint& p : s.points) {
    Json one = json_of(p);
    one["samples_per_second"] = static_cast<double>(s.batch) / p.step_seconds;
    one["efficiency"] = efficiency(s, p);
    one["predicted_step_seconds"] = nullptr;
    if (p.predicted.high > 0) one["predicted_step_seconds"] = {{"low", p.predicted.low}, {"high", p.predicted.high}};
    one["losses"] = Json::array();
    for (const LostTime& loss : lost_times(s, p))
      one["losses"].push_back({{"cause", loss.cause}, {"seconds", loss.seconds}});
    j["worlds"].push_back(std::move(one));
  }
  return j.dump(2);
}

std::string to_json(const ScalingPoint& p) { return json_of(p).dump(); }

ScalingPoint read_point(const std::string& text, const std::string& source) {
  try {
    const Json j = io::parse_json<Json>(text, source);
    ScalingPoint p{.devices = j.at("devices"),
                   .batch = j.at("batch_per_device"),
                   .threads = j.at("threads_per_device"),
                   .steps = j.at("steps"),
                   .step_seconds = j.at("step_seconds"),
                   .ranks = {}};
    for (const Json& r : j.at("ranks")) {
      p.ranks.push_back({.compute = r.at("compute_seconds"),
                         .sums = r.at("sums_seconds"),
                         .waiting = r.at("waiting_seconds"),
                         .data = r.at("data_seconds"),
                         .beside = r.at("sums_beside_seconds")});
    }
    const Json& c = j.at("sum_cost");
    if (j.contains("beside_compute")) p.beside = read_beside(j.at("beside_compute"), source);
    p.cost = {.start = c.at("start_seconds"), .per_byte = c.at("seconds_per_byte"), .worst = c.at("worst_deviation")};
    return p;
  } catch (const Json::exception& e) {
    fail(ErrorKind::data, source, "contains no times of training steps: ", e.what());
  }
}

}  // namespace freight::bench
