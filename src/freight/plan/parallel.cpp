// See parallel.h. A ring of n sends 2 (n - 1) / n of the bytes over each link in 2 (n - 1) hops (Patarasuk and Yuan
// 2009). Hops of rings and trees over several machines are counted as NCCL's own predictions do (src/graph/tuning.cc).
#include "freight/plan/parallel.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "freight/base/strings.h"
#include "freight/passes/pieces.h"

namespace freight::plan {

namespace {

// Seconds until a collective of GPUs begins (NCCL's tuning.cc: 8.4 us for a ring).
constexpr double kBegin = 8.4e-6;

// A connection between neighbors: bytes per second and seconds per hop, at both ends of the range.
struct Hop {
  double best = 0, usual = 0;  // bytes per second; 0: unknown
  double best_hop = 0, usual_hop = 0;
  std::string name;
};
Hop hop_of(const Link& link, double gb, std::string name) {
  return {gb * 1e9 * link.best_share, gb * 1e9 * link.usual_share, link.best_hop, link.usual_hop, std::move(name)};
}

Hop inside_of(const Device& d, int64_t here, const Fleet& fleet, const Catalog& catalog) {
  if (fleet.inside && fleet.inside->gb > 0) {
    return hop_of(*fleet.inside, fleet.inside->gb,
                  cat(fleet.inside->name, " of ", fixed(fleet.inside->gb, 0), " GB/s"));
  }
  const bool only_pcie = fleet.inside && lower(fleet.inside->name) == "pcie";
  if (!only_pcie && d.link_gb > 0 && !(d.link_of_pairs && here > 2)) {
    return hop_of(catalog.link("nvlink"), d.link_gb, cat("its own link of ", fixed(d.link_gb, 0), " GB/s"));
  }
  if (d.pcie <= 0) return {};
  return hop_of(catalog.link("pcie"), d.host_gb(), cat("PCIe ", d.pcie, " of ", fixed(d.host_gb(), 0), " GB/s"));
}

std::string text_of(const Link& network) {
  return cat("a network of ", fixed(network.gb * 8, network.gb < 0.125 ? 3 : 0), " Gbit/s (", network.name, ")");
}

// Interpolates between measured numbers of ranks, in the logarithm of the number.
MeasuredSum between(const std::vector<MeasuredSum>& sums, int64_t n) {
  size_t i = 0;
  while (i + 1 < sums.size() && sums[i].world < n) ++i;
  if (i == 0 || sums[i].world <= n) return sums[i];
  const MeasuredSum &a = sums[i - 1], &b = sums[i];
  const auto log_of = [](int64_t w) { return std::log(static_cast<double>(w)); };
  const double t = (log_of(n) - log_of(a.world)) / (log_of(b.world) - log_of(a.world));
  const auto mix = [&](double x, double y) { return x + t * (y - x); };
  MeasuredSum m{n, mix(a.start, b.start), mix(a.per_byte, b.per_byte), std::max(a.deviation, b.deviation)};
  if (a.beside && b.beside) {
    const BesideCompute &x = *a.beside, &y = *b.beside;
    m.beside = {.threads = std::min(x.threads, y.threads),
                .products = mix(x.products, y.products),
                .rest = mix(x.rest, y.rest),
                .slowest = mix(x.slowest, y.slowest),
                .sum = {mix(x.sum.start, y.sum.start), mix(x.sum.per_byte, y.sum.per_byte)},
                .lost_per_byte = mix(x.lost_per_byte, y.lost_per_byte)};
  }
  return m;
}

// Extrapolates beyond the largest measured number of ranks: from a tree over separate hosts to a ring, whose ranks
// share one memory if they are on one host.
Sums measured_sums(const MeasuredSums& measured, int64_t devices) {
  constexpr double kLeastDeviation = 0.05;
  const MeasuredSum m = between(measured.sums, devices);
  const double deviation = std::clamp(m.deviation, kLeastDeviation, 0.9);
  Sums s{{m.start * (1 - deviation), m.per_byte * (1 - deviation)},
         {m.start * (1 + deviation), m.per_byte * (1 + deviation)},
         m.beside,
         cat("what ", measured.source, " measured"),
         ""};
  if (devices <= m.world) return s;
  const auto n = static_cast<double>(devices), w = static_cast<double>(m.world);
  const double share = ((n - 1) / n) / ((w - 1) / w);
  s.best.start *= std::log2(n) / std::log2(w);
  s.best.per_byte *= share;
  s.usual.start *= (n - 1) / (w - 1);
  s.usual.per_byte *= measured.one_host ? n / w : share;
  s.beyond = cat("beyond the ", m.world, " ranks that ", measured.source, " measured");
  return s;
}

// The costs with one device per host.
Sums network_sums(const Link& network, int64_t devices) {
  const auto n = static_cast<double>(devices);
  const double hops = 2 * (n - 1), share = 2 * (n - 1) / n, rate = network.gb * 1e9;
  return {{2 * std::log2(n) * network.best_hop, share / (rate * network.best_share)},
          {hops * network.usual_hop, share / (rate * network.usual_share)},
          {},
          text_of(network),
          ""};
}

}  // namespace

Sums sums_of(const Device& d, const Fleet& fleet, const Catalog& catalog) {
  if (fleet.devices <= 1) return {};
  if (fleet.measured) return measured_sums(*fleet.measured, fleet.devices);
  const int64_t here = std::min(fleet.devices, fleet.per_machine);
  const auto n = static_cast<double>(fleet.devices), m = static_cast<double>(here);
  const double machines = std::ceil(n / m);
  const Hop in = here > 1 ? inside_of(d, here, fleet, catalog) : Hop{};
  if (here > 1 && in.usual <= 0) return {};
  Sums s;
  if (here > 1) {
    const double share = 2 * (m - 1) / m;
    s.best = {kBegin + 2 * (m - 1) * in.best_hop, share / in.best};
    s.usual = {kBegin + 2 * (m - 1) * in.usual_hop, share / in.usual};
    s.link = in.name;
  }
  if (machines == 1) return s;
  const Link network = fleet.between.value_or(catalog.link("100gbit"));
  const Hop net = hop_of(network, network.gb, text_of(network));
  // Best: within machines and between them at once, by a tree over machines. Usual: one ring over all devices.
  s.best.start = kBegin + 2 * ((m - 1) * in.best_hop + std::log2(machines) * net.best_hop);
  s.best.per_byte = std::max(s.best.per_byte, 2 * (machines - 1) / machines / net.best);
  const double slowest = here > 1 ? std::min(in.usual, net.usual) : net.usual;
  s.usual.start = kBegin + 2 * (n - machines) * in.usual_hop + 2 * machines * net.usual_hop;
  s.usual.per_byte = 2 * (n - 1) / n / slowest;
  if (here == 1 || net.usual < in.usual) s.link = net.name;
  return s;
}

Sums sums_of_processors(const Fleet& fleet) {
  if (fleet.devices <= 1) return {};
  if (fleet.measured) return measured_sums(*fleet.measured, fleet.devices);
  return fleet.between ? network_sums(*fleet.between, fleet.devices) : Sums{};
}

namespace {

// The ends of pieces, each of which is sent as soon as it has enough bytes.
std::vector<size_t> ends_of(const std::vector<Summand>& summands, double piece) {
  std::vector<size_t> ends;
  double bytes = 0;
  for (size_t i = 0; i < summands.size(); ++i) {
    bytes += summands[i].bytes;
    if (bytes < piece && i + 1 < summands.size()) continue;
    ends.push_back(i + 1);
    bytes = 0;
  }
  return ends;
}

}  // namespace

Summing sum_gradients(const std::vector<Work>& work, const std::vector<double>& seconds, double bytes,
                      const SumCosts& costs, double piece_of_others) {
  std::vector<Summand> all;
  double now = 0, seen = 0;
  for (size_t i = 0; i < work.size(); ++i) {
    now += seconds[i];
    seen += work[i].gradients;
    if (work[i].gradients > 0) all.push_back({now, work[i].gradients});
  }
  if (bytes > seen) all.push_back({now, bytes - seen});
  Summing s;
  const SumCost& travels = costs.beside ? *costs.beside : costs.cost;
  double done = 0;
  size_t i = 0;
  for (const size_t end : piece_of_others > 0 ? ends_of(all, piece_of_others) : cut_pieces(all, costs.cost).ends) {
    double piece = 0;
    for (; i < end; ++i) piece += all[i].bytes;
    const double begins = std::max(done, all[end - 1].ready);
    if (begins < now) s.beside += piece;
    const double takes = begins < now ? travels.of(piece) : costs.cost.of(piece);
    done = begins + takes;
    s.seconds += takes;
  }
  s.exposed = std::max(0.0, done - now);
  return s;
}

double slowest_of(int64_t n) {
  // The mean of a distribution P is the integral of 1 - P above 0 minus that of P below; P is the normal distribution
  // to the power n.
  constexpr double kEnd = 8, kStep = 0.01;
  double mean = 0;
  for (double x = -kEnd + kStep / 2; x < kEnd; x += kStep) {
    const double p = std::pow(0.5 * std::erfc(-x / std::numbers::sqrt2), static_cast<double>(n));
    mean += kStep * (x > 0 ? 1 - p : -p);
  }
  return n > 1 ? mean : 0;
}

}  // namespace freight::plan
