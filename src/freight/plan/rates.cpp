// See rates.h.
#include "freight/plan/rates.h"

#include <algorithm>
#include <cmath>

#include "freight/base/cache.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::plan {

namespace {

constexpr const char* kFormat = "freight-rates-6";
// The number of neighbors that count, and the distance (in doublings, squared) below which they count alike.
constexpr size_t kNeighbors = 6;
constexpr double kNear = 0.05;
// The number of bytes moved since memory was last used matters between these limits: below, everything is found in the
// cores' caches; above, nothing.
constexpr double kCached = 1 << 20, kUncached = 1 << 27;

// The distance, in doublings of size, between convolutions whose channels fill vectors and others.
constexpr double kNotWhole = 3;

double log2_of(double x) { return std::log2(std::max(x, 1.0)); }

std::array<double, 5> place(const Work& w) {
  const double distance = log2_of(std::clamp(w.distance, kCached, kUncached));
  if (w.product()) return {log2_of(w.m), log2_of(w.n), log2_of(w.k), distance, w.whole ? 0 : kNotWhole};
  return {log2_of(w.bytes), log2_of(8 * w.flops / std::max(w.bytes, 1.0)), log2_of(w.n), distance, 0};
}

double unit(const Work& w) { return std::max(w.product() ? w.flops : w.bytes, 1.0); }

// The kinds to use for a kind that was not measured, most similar first. Transfers on a CPU are plain passes over
// memory, as maps are; most copies change the layout.
std::vector<std::string> likest(const std::string& kind) {
  std::vector<std::string> kinds{kind};
  const size_t dot = kind.find('.');
  const std::string way = dot == std::string::npos ? "" : kind.substr(dot);
  if (starts_with(kind, "conv")) {
    for (const char* base : {"conv", "conv3x3", "conv1x1"}) kinds.push_back(base + way);
  }
  kinds.emplace_back("matmul");  // of other products only, which known() checks
  kinds.emplace_back("map");
  return kinds;
}

}  // namespace

void Rates::add(const Point& p) {
  if (!(p.seconds > 0)) return;
  known_[{p.work.kind, p.work.dtype}].push_back({place(p.work), std::log(p.seconds / unit(p.work)), p});
}

size_t Rates::size() const {
  size_t n = 0;
  for (const auto& [key, points] : known_) n += points.size();
  return n;
}

Rates::Likest Rates::known(const Work& work) const {
  for (const std::string& kind : likest(work.kind)) {
    for (const DType dtype : {work.dtype, DType::f32}) {
      const auto it = known_.find({kind, dtype});
      if (it != known_.end() && !it->second.empty() && it->second[0].point.work.product() == work.product()) {
        // A vector has half as many f64: the cost per byte is that of f32, and the cost per FLOP twice that.
        const double wider = work.product() && work.dtype == DType::f64 && dtype != DType::f64 ? 2 : 1;
        return {&it->second, kind == work.kind ? wider : wider / work.share};
      }
    }
  }
  return {};
}

double Rates::seconds(const Work& work) const {
  const auto [points, factor] = known(work);
  if (!points) fail(ErrorKind::usage, "rates", "no step like ", work.kind, " was measured; run freight calibrate");
  const std::array<double, 5> at = place(work);
  std::vector<std::pair<double, double>> near;  // (squared distance, cost)
  near.reserve(points->size());
  for (const Known& k : *points) {
    double d = 0;
    for (size_t i = 0; i < at.size(); ++i) d += (at[i] - k.at[i]) * (at[i] - k.at[i]);
    near.emplace_back(d, k.cost);
  }
  const size_t count = std::min(kNeighbors, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<ptrdiff_t>(count), near.end());
  double sum = 0, weights = 0;
  for (size_t i = 0; i < count; ++i) {
    const double w = 1 / ((near[i].first + kNear) * (near[i].first + kNear));
    sum += w * near[i].second;
    weights += w;
  }
  return factor * unit(work) * std::exp(sum / weights);
}

double Rates::seconds(const std::vector<Work>& work) const {
  double sum = 0;
  for (const Work& w : work) sum += seconds(w);
  return sum;
}

std::string Rates::to_json() const {
  nlohmann::ordered_json j = {{"format", kFormat},     {"device", device}, {"threads", threads},
                              {"version", version},    {"date", date},     {"median_error", median_error},
                              {"p90_error", p90_error}};
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const auto& [key, list] : known_) {
    for (const Known& k : list) {
      const Work& w = k.point.work;
      points.push_back(
          {w.kind, to_string(w.dtype), w.m, w.n, w.k, w.flops, w.bytes, w.distance, w.whole, k.point.seconds});
    }
  }
  j["columns"] = {"kind", "type", "m", "n", "k", "flops", "bytes", "distance", "whole", "seconds"};
  j["points"] = std::move(points);
  return j.dump();
}

Rates Rates::parse(const std::string& text, const std::string& source) {
  Rates r;
  try {
    const auto j = io::parse_json<nlohmann::ordered_json>(text, source, ErrorKind::data);
    if (j.at("format") != kFormat) fail(ErrorKind::data, source, "expected \"format\": \"", kFormat, "\"");
    r.device = j.at("device");
    r.threads = j.at("threads");
    r.version = j.at("version");
    r.date = j.at("date");
    r.median_error = j.at("median_error");
    r.p90_error = j.at("p90_error");
    for (const nlohmann::ordered_json& p : j.at("points")) {
      Point point;
      point.work.kind = p.at(0);
      if (!parse_dtype(p.at(1).get<std::string>(), point.work.dtype)) {
        fail(ErrorKind::data, source, "unknown type ", p.at(1).dump());
      }
      point.work.m = p.at(2);
      point.work.n = p.at(3);
      point.work.k = p.at(4);
      point.work.flops = p.at(5);
      point.work.bytes = p.at(6);
      point.work.distance = p.at(7);
      point.work.whole = p.at(8);
      point.seconds = p.at(9);
      if (!(point.seconds > 0)) fail(ErrorKind::data, source, "seconds: expected more than 0, got ", point.seconds);
      r.add(point);
    }
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorKind::data, source, "no rates as freight calibrate writes them: ", io::json_fault(e));
  }
  return r;
}

std::string rates_path() {
  std::string name = cat(cpu_info().model, "-", thread_count());
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  }
  return cache_path(cat("rates-", lower(name), ".json"));
}

bool own_rates(Rates& out) {
  const std::string path = rates_path();
  const std::string text = read_cache(path);
  if (text.empty()) return false;
  try {
    out = Rates::parse(text, path);
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace freight::plan
