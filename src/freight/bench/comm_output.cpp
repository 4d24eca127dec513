// The table, the sentences and the JSON of the times of sums over processes. See comm.h.
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/bench/comm.h"
#include "freight/bench/comm_json_internal.h"
#include "freight/bench/format_internal.h"
#include "freight/io/file.h"

namespace freight::bench {

namespace {

std::string microseconds(double seconds) {
  const double us = seconds * 1e6;
  return fixed(us, us < 10 ? 2 : us < 1000 ? 1 : 0);
}

}  // namespace

Listing figures_of(const std::vector<CommTimes>& all) {
  Listing out;
  out.header = {"ranks", "bytes", "us, median", "us, min", "us, fitted", "bus GB/s"};
  for (const CommTimes& t : all) {
    for (const CommFigure& f : t.figures) {
      const double fitted = t.cost.start + t.cost.per_byte * static_cast<double>(f.bytes);
      out.rows.push_back({cat(t.world), with_commas(f.bytes), microseconds(f.median), microseconds(f.least),
                          microseconds(fitted), t.world > 1 ? fixed(bus_rate(t.world, f) * 1e-9, 2) : "-"});
    }
  }
  return out;
}

std::vector<std::string> findings(const std::vector<CommTimes>& all) {
  std::vector<std::string> out;
  for (const CommTimes& t : all) {
    if (t.world == 1) continue;
    const double rate = t.cost.per_byte > 0 ? 1 / t.cost.per_byte : 0;
    out.push_back(cat(t.world, " ranks: an all-reduce takes ", microseconds(t.cost.start), " us + bytes / ",
                      rate > 0 ? cat(fixed(rate * 1e-9, 2), " GB/s") : "(more than was measured)", ", within ",
                      fixed(t.cost.worst * 100, 0), " % of each median"));
    if (!t.beside) continue;
    const plan::BesideCompute& b = *t.beside;
    out.push_back(cat("while all ranks compute: matmuls take ", fixed(b.products, 2), " and other kernels ",
                      fixed(b.rest, 2), " times as long as on one rank alone, the slowest rank's step ",
                      fixed(b.slowest, 2), " of the mean; an all-reduce takes ", microseconds(b.sum.start),
                      " us + bytes / ",
                      b.sum.per_byte > 0 ? cat(fixed(1e-9 / b.sum.per_byte, 2), " GB/s") : "(more than was measured)",
                      ", and costs ", fixed(b.lost_per_byte * 1e9, 2), " ms of computing for each MB"));
  }
  return out;
}

std::string to_json(const std::string& machine, const std::string& transport, const std::vector<CommTimes>& all) {
  using Json = nlohmann::ordered_json;
  Json j = {{"machine", machine}, {"collective", "all_reduce"}, {"dtype", "f32"}, {"engine", transport}};
  j["worlds"] = Json::array();
  for (const CommTimes& t : all) {
    Json w = {{"world", t.world}, {"hosts", t.hosts}, {"figures", Json::array()}};
    for (const CommFigure& f : t.figures) {
      w["figures"].push_back({{"bytes", f.bytes},
                              {"seconds", f.median},
                              {"seconds_least", f.least},
                              {"bus_bytes_per_second", bus_rate(t.world, f)},
                              {"runs", f.runs}});
    }
    w["cost"] = {
        {"start_seconds", t.cost.start}, {"seconds_per_byte", t.cost.per_byte}, {"worst_deviation", t.cost.worst}};
    if (t.beside) w["beside_compute"] = json_of(*t.beside);
    j["worlds"].push_back(std::move(w));
  }
  return j.dump(2);
}

namespace {

// Reads the numbers of a file that may have been edited: impossible times and bytes are refused, since estimates would
// use them.
class TimesReader {
 public:
  explicit TimesReader(const std::string& source) : source_(source) {}

  double number(const nlohmann::json& of, const char* key, double most) const {
    const auto& value = of.at(key);
    if (!value.is_number() || !(value.get<double>() >= 0) || !(value.get<double>() <= most)) {
      fail(ErrorKind::data, source_, "\"", key, "\": expected a number from 0 to ", most, ", got ",
           excerpt(value.dump()));
    }
    return value.get<double>();
  }
  int64_t count(const nlohmann::json& of, const char* key, int64_t most, int64_t least = 1) const {
    const auto n = static_cast<int64_t>(number(of, key, static_cast<double>(most)));
    if (n >= least && static_cast<double>(n) == of.at(key).get<double>()) return n;
    fail(ErrorKind::data, source_, "\"", key, "\": expected a whole number from ", least, ", got ",
         excerpt(of.at(key).dump()));
  }

 private:
  const std::string& source_;
};

}  // namespace

nlohmann::ordered_json json_of(const plan::BesideCompute& b) {
  return {{"threads", b.threads},
          {"products_slower", b.products},
          {"rest_slower", b.rest},
          {"slowest_rank", b.slowest},
          {"sum_cost", {{"start_seconds", b.sum.start}, {"seconds_per_byte", b.sum.per_byte}}},
          {"lost_seconds_per_byte", b.lost_per_byte}};
}

plan::BesideCompute read_beside(const nlohmann::json& j, const std::string& source) {
  constexpr int64_t kMostThreads = 1 << 16;
  constexpr double kMostTimes = 1e4, kMostSeconds = 1e6;
  const TimesReader read(source);
  const nlohmann::json& sum = j.at("sum_cost");
  return {.threads = read.count(j, "threads", kMostThreads),
          .products = read.number(j, "products_slower", kMostTimes),
          .rest = read.number(j, "rest_slower", kMostTimes),
          .slowest = read.number(j, "slowest_rank", kMostTimes),
          .sum = {read.number(sum, "start_seconds", kMostSeconds), read.number(sum, "seconds_per_byte", 1)},
          .lost_per_byte = read.number(j, "lost_seconds_per_byte", 1)};
}

std::vector<CommTimes> read_comm_times(const std::string& text, const std::string& source) {
  using Json = nlohmann::json;
  constexpr int64_t kMostRanks = 1 << 20, kMostBytes = int64_t{1} << 50, kMostRuns = int64_t{1} << 40;
  constexpr double kMostSeconds = 1e6;
  const TimesReader read(source);
  std::vector<CommTimes> all;
  try {
    const Json j = io::parse_json<Json>(text, source, ErrorKind::data);
    for (const Json& w : j.at("worlds")) {
      CommTimes t = {.world = static_cast<int>(read.count(w, "world", kMostRanks)), .figures = {}};
      if (w.contains("hosts")) t.hosts = static_cast<int>(read.count(w, "hosts", kMostRanks));
      for (const Json& f : w.at("figures")) {
        t.figures.push_back({.bytes = read.count(f, "bytes", kMostBytes),
                             .median = read.number(f, "seconds", kMostSeconds),
                             .least = read.number(f, "seconds_least", kMostSeconds),
                             .runs = read.count(f, "runs", kMostRuns, 0)});
      }
      const Json& c = w.at("cost");
      t.cost = {.start = read.number(c, "start_seconds", kMostSeconds),
                .per_byte = read.number(c, "seconds_per_byte", 1),
                .worst = read.number(c, "worst_deviation", kMostSeconds)};
      if (w.contains("beside_compute")) t.beside = read_beside(w.at("beside_compute"), source);
      all.push_back(std::move(t));
    }
  } catch (const Json::exception& e) {
    fail(ErrorKind::data, source, "contains no times of `bench comm`: ", io::json_fault(e));
  }
  return all;
}

}  // namespace freight::bench
