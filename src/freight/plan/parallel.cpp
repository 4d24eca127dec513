// See parallel.h. A ring of n sends 2 (n - 1) / n of the bytes over each link in 2 (n - 1) hops (Patarasuk and Yuan
// 2009).
#include "freight/plan/parallel.h"

#include <algorithm>

#include "freight/base/strings.h"

namespace freight::plan {

namespace {

// Gradients that are sent together, as usual software does (PyTorch's DistributedDataParallel: 25 MiB).
constexpr double kBucket = 25.0 * 1024 * 1024;

}  // namespace

Link link_of(const Device& d, const Fleet& fleet) {
  Link link;
  const int64_t here = std::min(fleet.devices, kDevicesPerMachine);
  if (d.link_gb > 0 && !(d.link_of_pairs && here > 2)) {
    link = {d.link_gb, cat("its own link of ", fixed(d.link_gb, 0), " GB/s")};
  } else if (d.pcie > 0) {
    link = {d.host_gb(), cat("PCIe ", d.pcie, " of ", fixed(d.host_gb(), 0), " GB/s")};
  }
  const double network = fleet.network_gbit / 8;
  if (fleet.devices > kDevicesPerMachine && link.gb > network) {
    link = {network, cat("a network of ", fixed(fleet.network_gbit, 0), " Gbit/s")};
  }
  return link;
}

Summing sum_gradients(const std::vector<Work>& work, const std::vector<double>& seconds, double bytes,
                      const Fleet& fleet, const Link& link, const LinkUse& use) {
  const auto n = static_cast<double>(fleet.devices);
  Summing s;
  double now = 0, free = 0, bucket = 0, seen = 0;
  const auto send = [&] {
    if (bucket <= 0) return;
    const double t = 2 * (n - 1) * use.latency + 2 * (n - 1) / n * bucket / (link.gb * 1e9 * use.fraction);
    free = std::max(free, now) + t;
    s.seconds += t;
    bucket = 0;
  };
  for (size_t i = 0; i < work.size(); ++i) {
    now += seconds[i];
    bucket += work[i].gradients;
    seen += work[i].gradients;
    if (bucket >= kBucket) send();
  }
  bucket += std::max(0.0, bytes - seen);
  send();
  s.exposed = std::max(0.0, free - now);
  return s;
}

}  // namespace freight::plan
