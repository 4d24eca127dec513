// See catalog.h.
#include "freight/plan/catalog.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/plan/catalog_files_internal.h"

namespace freight::plan {

namespace {

using Json = nlohmann::json;

constexpr const char* kRates[] = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"};
constexpr double kLeastFigure = 1e-9, kMostFigure = 1e9;  // keeps the products and quotients of figures in range
constexpr const char* kKinds[] = {"cpu", "gpu", "tpu", "npu"};

// An entry of a list, whose messages name it.
class Entry {
 public:
  Entry(const Json& j, std::string source, std::string where)
      : j_(j), source_(std::move(source)), where_(std::move(where)) {
    if (!j_.is_object()) refuse("must be an object: got ", excerpt(j_.dump()));
  }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorKind::usage, source_, where_, ": ", parts...);
  }
  void name(const std::string& text) { where_ += cat(" (", text, ")"); }

  std::string text(const char* key, bool needed) const {
    const auto it = j_.find(key);
    if (it == j_.end()) {
      if (needed) refuse("\"", key, "\" is missing");
      return {};
    }
    if (!it->is_string() || (needed && it->get<std::string>().empty()))
      refuse("\"", key, "\": expected text, got ", excerpt(it->dump()));
    return it->get<std::string>();
  }
  // A number from kLeastFigure to kMostFigure; 0 if it is missing.
  double number(const char* key, bool needed) const {
    const auto it = j_.find(key);
    if (it == j_.end()) {
      if (needed) refuse("\"", key, "\" is missing");
      return 0;
    }
    return positive(key, *it);
  }
  double fraction(const char* key) const {
    const double f = number(key, false);
    if (f > 1) refuse("\"", key, "\": expected at most 1, got ", f);
    if (f > 0) text((std::string(key) + "_source").c_str(), true);
    return f;
  }
  double positive(const std::string& key, const Json& value) const {
    if (!value.is_number() || !(value.get<double>() >= kLeastFigure) || !(value.get<double>() <= kMostFigure)) {
      refuse("\"", key, "\": expected a number above 0, from ", kLeastFigure, " to ", kMostFigure, ", got ",
             excerpt(value.dump()));
    }
    return value.get<double>();
  }
  const Json& json() const { return j_; }

 private:
  const Json& j_;
  std::string source_, where_;
};

Json document(const std::string& text, const std::string& source, const char* format, const char* list) {
  Json j = io::parse_json<Json>(text, source);
  if (!j.is_object() || j.value("format", Json()) != format) {
    fail(ErrorKind::usage, source, "no catalog: expected \"format\": \"", format, "\"");
  }
  if (!j.contains(list) || !j[list].is_array()) fail(ErrorKind::usage, source, "the list \"", list, "\" is missing");
  return j;
}

Device device_of(const Json& j, const std::string& source, size_t number) {
  Entry e(j, source, cat("device ", number + 1));
  Device d;
  d.name = e.text("name", true);
  e.name(d.name);
  d.kind = e.text("kind", true);
  if (std::find(std::begin(kKinds), std::end(kKinds), d.kind) == std::end(kKinds)) {
    e.refuse("\"kind\": expected cpu, gpu, tpu or npu, got ", excerpt(d.kind));
  }
  d.vendor = e.text("vendor", false);
  d.arch = e.text("arch", false);
  d.year = static_cast<int>(e.number("year", true));
  d.memory_gib = e.number("memory_gib", d.kind != "cpu");
  d.bandwidth_gb = e.number("bandwidth_gb_per_s", true);
  const auto peaks = j.find("dense_tflops");
  if (peaks == j.end() || !peaks->is_object() || peaks->empty()) {
    e.refuse("\"dense_tflops\" is missing: an object like {\"fp32\": 8.9}");
  }
  for (const auto& [rate, value] : peaks->items()) {
    if (std::find(std::begin(kRates), std::end(kRates), rate) == std::end(kRates)) {
      e.refuse("unknown rate '", excerpt(rate), "' in \"dense_tflops\", expected one of ",
               join(std::vector<std::string>(std::begin(kRates), std::end(kRates)), ", "));
    }
    d.tflops.emplace_back(rate, e.positive("dense_tflops." + rate, value));
  }
  d.tdp_watts = e.number("tdp_watts", false);
  const std::string link = e.text("link", false);
  d.link_gb = e.number("link_gb_per_s", false) / (starts_with(link, "both directions") ? 2 : 1);
  d.link_of_pairs = link.find("bridge") != std::string::npos;
  d.pcie = static_cast<int>(e.number("pcie", false));
  d.matmul_fraction = e.fraction("matmul_fraction");
  d.bandwidth_fraction = e.fraction("bandwidth_fraction");
  d.source = e.text("source", true);
  d.date = e.text("date", true);
  d.note = e.text("note", false);
  return d;
}

Price price_of(const Json& j, const std::string& source, size_t number) {
  Entry e(j, source, cat("price ", number + 1));
  Price p;
  p.provider = e.text("provider", true);
  p.instance = e.text("instance", true);
  e.name(cat(p.provider, " ", p.instance));
  p.device = e.text("device", false);
  const auto count = j.find("count");
  if (count == j.end() || !count->is_number() || !(count->get<double>() >= 0) || count->get<double>() > kMostFigure) {
    e.refuse("\"count\" of accelerators is missing, or no number from 0 to ", kMostFigure);
  }
  p.count = count->get<double>();
  p.usd = e.number("usd_per_hour", true);
  p.spot_usd = e.number("spot_usd_per_hour", false);
  p.vcpus = e.number("vcpus", false);
  const auto host = j.find("host_included");
  if (host != j.end() && !host->is_boolean())
    e.refuse("\"host_included\": expected true or false, got ", excerpt(host->dump()));
  p.host_included = host == j.end() || host->get<bool>();
  p.region = e.text("region", false);
  p.date = e.text("date", true);
  p.source = e.text("source", true);
  p.note = e.text("note", false);
  return p;
}

Link link_entry(const Json& j, const std::string& source, size_t number) {
  Entry e(j, source, cat("link ", number + 1));
  Link l;
  l.name = e.text("name", true);
  e.name(l.name);
  const std::string scope = e.text("scope", true);
  if (scope != "inside" && scope != "between") e.refuse("\"scope\": expected inside or between, got ", excerpt(scope));
  l.inside = scope == "inside";
  l.gb = e.number("gbit_per_s", !l.inside) / 8;
  const auto ends = [&](const char* best_key, double& best, const char* usual_key, double& usual) {
    best = e.number(best_key, true);
    usual = e.number(usual_key, true);
  };
  ends("best_share", l.best_share, "usual_share", l.usual_share);
  ends("best_hop_us", l.best_hop, "usual_hop_us", l.usual_hop);
  if (l.best_share > 1 || l.usual_share > l.best_share) {
    e.refuse("\"best_share\" and \"usual_share\": expected at most 1, and the best no less than the usual, got ",
             l.best_share, " and ", l.usual_share);
  }
  if (l.best_hop > l.usual_hop) {
    e.refuse("\"best_hop_us\": expected no more than the usual ", l.usual_hop, ", got ", l.best_hop);
  }
  l.best_hop *= 1e-6;
  l.usual_hop *= 1e-6;
  l.source = e.text("source", true);
  l.date = e.text("date", true);
  return l;
}

// 25 for "25gbit" and "25"; 0 for anything else.
double gbit_of(const std::string& name) {
  std::string_view unit = name;
  const double gbit = take_number<double>(unit).value_or(0);
  const bool sound = unit.empty() || lower(unit) == "gbit";
  return sound && gbit >= kLeastFigure && gbit <= kMostFigure ? gbit : 0;  // also false for NaN
}

// Adds a question about figures that look like sparse peaks: vendors often advertise twice the dense rate. No device
// built so far has more tensor FLOPs per byte of memory bandwidth than this, and dense rates rise from type to type by
// the usual factor.
void question(const Device& d, std::vector<std::string>& questions) {
  const double tensor = std::max(d.peak("fp16"), d.peak("bf16")), tf32 = d.peak("tf32"),
               eight = std::max(d.peak("fp8"), d.peak("int8"));
  const auto ask = [&](const auto&... why) {
    questions.push_back(cat(d.name, ": ", why..., ": is this the sparse figure, twice the dense one?"));
  };
  if (d.kind != "gpu" || tensor <= 0) return;
  const double most = d.year >= 2022 ? 450 : 225, per_byte = tensor * 1e3 / d.bandwidth_gb;
  if (per_byte > most) {
    ask(fixed(tensor, 0), " TFLOP/s at ", fixed(d.bandwidth_gb, 0), " GB/s are ", fixed(per_byte, 0),
        " FLOPs per byte, no GPU of ", d.year, " is known above ", fixed(most, 0));
  } else if (d.vendor == "NVIDIA" && tf32 > 0 && tensor > 2.5 * tf32) {
    ask(fixed(tensor, 0), " TFLOP/s in 16 bits are ", fixed(tensor / tf32, 1),
        " times the tf32 rate, dense ones are 2 times");
  }
  if (d.vendor == "NVIDIA" && eight > 4.5 * tensor) {
    ask(fixed(eight, 0), " in 8 bits are ", fixed(eight / tensor, 1), " times the 16-bit rate");
  }
}

}  // namespace

double Device::peak(const std::string& rate_name) const {
  for (const auto& [rate_is, value] : tflops) {
    if (rate_is == rate_name) return value;
  }
  return 0;
}

double Device::host_gb() const { return pcie == 3 ? 15.75 : pcie == 4 ? 31.5 : pcie == 5 ? 63 : pcie == 6 ? 121 : 0; }

std::pair<double, std::string> Device::rate(DType compute) const {
  if (compute == DType::f64 && peak("fp64") <= 0) {
    const bool half = kind == "cpu";  // a vector has half as many elements
    const auto [f32, name_is] = rate(DType::f32);
    return {f32 * (half ? 1.0 / 2 : 1.0 / 32),
            cat("fp64 (not known, assumed as 1/", half ? 2 : 32, " of ", name_is, ")")};
  }
  const char* wanted = compute == DType::f64    ? "fp64"
                       : compute == DType::bf16 ? "bf16"
                       : compute == DType::f16  ? "fp16"
                                                : "fp32";
  if (peak(wanted) > 0) return {peak(wanted), wanted};
  if (peak("fp32") > 0) return {peak("fp32"), "fp32"};
  // For devices without plain f32 units: the rate of their widest tensor type.
  for (const char* other : {"tf32", "bf16", "fp16"}) {
    if (peak(other) > 0) return {peak(other), other};
  }
  return {0, ""};
}

const Device& Catalog::device(const std::string& name) const {
  std::vector<std::string> names, with_it;
  const Device* part = nullptr;
  for (const Device& d : devices) {
    if (lower(d.name) == lower(name)) return d;
    names.push_back(d.name);
    if (lower(d.name).find(lower(name)) == std::string::npos) continue;
    part = &d;
    with_it.push_back(d.name);
  }
  if (with_it.size() == 1) return *part;
  if (!with_it.empty()) {
    fail(ErrorKind::usage, name, with_it.size(), " devices of the catalog have that in their names: expected one of ",
         join(with_it, ", "));
  }
  refuse_unknown(name, {.kind = "device of the catalog",
                        .got = name,
                        .known = names,
                        .all = cat("; one that it lacks is described by --device-memory, --device-bandwidth and ",
                                   "--device-tflops. It has ", join(names, ", "))});
}

Link Catalog::link(const std::string& name) const {
  std::vector<std::string> names;
  for (const Link& l : links) {
    if (lower(l.name) == lower(name)) return l;
    names.push_back(l.name);
  }
  const double gb = gbit_of(name) / 8;
  const Link* like = nullptr;
  for (const Link& l : links) {
    const bool network = !l.inside && gbit_of(l.name) > 0;
    if (network && gb > 0 && (!like || std::abs(std::log(l.gb / gb)) < std::abs(std::log(like->gb / gb)))) like = &l;
  }
  if (!like) {
    refuse_unknown("--link", {.kind = "link",
                              .got = name,
                              .known = names,
                              .all = cat(" (expected one of ", join(names, ", "),
                                         ", Gbit/s of a machine as 40 or 40gbit, or a FILE)")});
  }
  Link l = *like;
  l.name = cat(gbit_of(name), "gbit");
  if (l.name == like->name) return l;
  l.gb = gb;
  l.source = cat("as ", like->name, ": ", like->source);
  return l;
}

std::optional<Offer> Catalog::cheapest(const std::string& device, int64_t count) const {
  const auto wanted = static_cast<double>(count);
  std::optional<Offer> best;
  const auto rank = [&](const Offer& o) { return o.machines > 1 ? 2 : o.price->count > wanted ? 1 : 0; };
  for (const Price& p : prices) {
    if (p.device != device || p.count < 1) continue;
    const Offer offer{&p, std::ceil(wanted / p.count)};
    if (!best || rank(offer) < rank(*best) || (rank(offer) == rank(*best) && offer.usd() < best->usd())) best = offer;
  }
  return best;
}

std::vector<Link> parse_links(const std::string& text, const std::string& source) {
  std::vector<Link> all;
  std::set<std::string> names;
  const Json j = document(text, source, "freight-links-1", "links");
  for (const Json& l : j["links"]) {
    all.push_back(link_entry(l, source, all.size()));
    if (!names.insert(lower(all.back().name)).second) refuse_twice(source, "links", all.back().name);
  }
  return all;
}

Catalog parse_catalog(const std::string& devices, const std::string& devices_source, const std::string& prices,
                      const std::string& prices_source) {
  Catalog c;
  const Json d = document(devices, devices_source, "freight-devices-1", "devices");
  std::set<std::string> names;
  for (size_t i = 0; i < d["devices"].size(); ++i) {
    c.devices.push_back(device_of(d["devices"][i], devices_source, i));
    if (!names.insert(c.devices.back().name).second) refuse_twice(devices_source, "devices", c.devices.back().name);
    question(c.devices.back(), c.questions);
  }
  const Json p = document(prices, prices_source, "freight-prices-1", "prices");
  for (size_t i = 0; i < p["prices"].size(); ++i) c.prices.push_back(price_of(p["prices"][i], prices_source, i));
  c.links = parse_links(link_file(), "catalog/links.json");
  return c;
}

Catalog load_catalog(const std::string& devices, const std::string& prices) {
  const auto text = [](const std::string& path, const char* shipped) {
    return path.empty() ? std::string(shipped) : io::read_text(path);
  };
  return parse_catalog(text(devices, device_file()), devices.empty() ? "catalog/devices.json" : devices,
                       text(prices, price_file()), prices.empty() ? "catalog/prices.json" : prices);
}

}  // namespace freight::plan
