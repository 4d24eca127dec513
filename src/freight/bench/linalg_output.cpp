// The table, the sentences and the JSON of the times of linear algebra. See linalg.h.
#include <algorithm>

#include "freight/base/strings.h"
#include "freight/bench/format_internal.h"
#include "freight/bench/linalg.h"
#include "freight/io/json_library.h"

namespace freight::bench {

namespace {

// Null if it was not measured.
const LinalgFigure* figure_at(const LinalgTimes& times, const std::string& device, const LinalgFigure& like) {
  for (const LinalgFigure& f : times.figures) {
    if (f.device == device && f.op == like.op && f.dtype == like.dtype && f.n == like.n && f.seconds > 0) return &f;
  }
  return nullptr;
}

nlohmann::ordered_json known_or_null(double v) {
  return v > 0 ? nlohmann::ordered_json(v) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::optional<int64_t> wins_from(const LinalgTimes& times, const std::string& base, const std::string& device,
                                 const std::string& op, DType dtype) {
  std::optional<int64_t> first;
  for (const LinalgFigure& f : times.figures) {  // sizes ascend
    if (f.device != device || f.op != op || f.dtype != dtype || f.seconds <= 0) continue;
    const LinalgFigure* other = figure_at(times, base, f);
    if (!other) continue;
    if (f.seconds >= other->seconds) {
      first.reset();
    } else if (!first) {
      first = f.n;
    }
  }
  return first;
}

Listing figures_of(const LinalgTimes& times) {
  Listing out;
  out.header = {"op", "type", "device", "n", "ms", "GFLOP/s", "of product"};
  out.words = {0, 1, 2};
  for (const LinalgFigure& f : times.figures) {
    if (f.seconds <= 0) {
      out.rows.push_back({cat(f.op, " ", to_string(f.dtype), "  ", f.device, ", n ", f.n, ": skipped, ", f.skipped)});
      continue;
    }
    out.rows.push_back({f.op, to_string(f.dtype), f.device, cat(f.n), milliseconds(f.seconds), number(f.rate() * 1e-9),
                        percent_of(f.product_rate > 0 ? f.rate() / f.product_rate : 0)});
  }
  return out;
}

std::vector<std::string> findings(const LinalgTimes& times) {
  std::vector<std::string> out;
  if (times.figures.empty()) return out;
  const std::string& base = times.figures.front().device;
  std::vector<std::string> named;
  for (const LinalgFigure& f : times.figures) {
    const std::string key = cat(f.device, " ", f.op, " ", to_string(f.dtype));
    const bool known = figure_at(times, base, f) && f.seconds > 0;
    if (f.device == base || !known || std::find(named.begin(), named.end(), key) != named.end()) continue;
    named.push_back(key);
    const auto first = wins_from(times, base, f.device, f.op, f.dtype);
    out.push_back(cat(f.op, " ", to_string(f.dtype), ": ", f.device, " is ",
                      first ? cat("faster than ", base, " from n = ", *first, " on")
                            : cat("not faster than ", base, " at the largest n that both did")));
  }
  return out;
}

std::string to_json(const LinalgTimes& times) {
  using Json = nlohmann::ordered_json;
  Json j = {{"machine", times.machine}, {"threads", times.threads}};
  j["figures"] = Json::array();
  for (const LinalgFigure& f : times.figures) {
    Json row = {{"op", f.op}, {"dtype", to_string(f.dtype)}, {"device", f.device}, {"n", f.n}, {"batch_size", f.batch}};
    if (f.seconds > 0) {
      row["flops"] = f.flops;
      row["seconds"] = f.seconds;
      row["gflops_per_second"] = f.rate() * 1e-9;
      row["share_of_product"] = known_or_null(f.product_rate > 0 ? f.rate() / f.product_rate : 0);
    } else {
      row["skipped"] = f.skipped;
    }
    j["figures"].push_back(std::move(row));
  }
  Json wins = Json::array();
  if (!times.figures.empty()) {
    const std::string& base = times.figures.front().device;
    for (const LinalgFigure& f : times.figures) {
      const bool first_of_kind = std::none_of(wins.begin(), wins.end(), [&](const Json& w) {
        return w["device"] == f.device && w["op"] == f.op && w["dtype"] == to_string(f.dtype);
      });
      if (f.device == base || !first_of_kind) continue;
      const auto first = wins_from(times, base, f.device, f.op, f.dtype);
      wins.push_back({{"device", f.device},
                      {"op", f.op},
                      {"dtype", to_string(f.dtype)},
                      {"faster_from_n", first ? Json(*first) : Json(nullptr)}});
    }
  }
  j["wins"] = std::move(wins);
  return j.dump(2);
}

}  // namespace freight::bench
