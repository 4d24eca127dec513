// The catalogue: devices with dense peaks, prices of machines and links between devices, each figure with its source
// and date. Shipped as catalog/devices.json, prices.json and links.json, compiled in; `--catalog FILE`, `--prices FILE`
// and `--link FILE` take others of the same form (docs/plan.md). No figure is guessed: what a file does not say is 0 or
// "".
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/dtype.h"

namespace freight::plan {

struct Device {
  std::string name, kind;  // kind: cpu, gpu, tpu, npu
  std::string vendor, arch;
  int year = 0;
  double memory_gib = 0;                               // per device; 0: as installed
  double bandwidth_gb = 0;                             // per second, decimal
  std::vector<std::pair<std::string, double>> tflops;  // dense: "fp32", "tf32", "fp16", "bf16", "fp8", "int8"
  double tdp_watts = 0;
  double link_gb = 0;             // per second and direction, between devices; 0: none but PCIe
  bool link_of_pairs = false;     // a bridge: between two of them
  int pcie = 0;                   // generation; 0: not known
  double matmul_fraction = 0;     // of the dense peak, published as measured; 0: none
  double bandwidth_fraction = 0;  // of the bandwidth, published as measured; 0: none
  std::string source, date, note;

  // The dense peak in TFLOP/s of a named rate, 0 where it has none.
  double peak(const std::string& rate) const;
  // The rate that contractions in `compute` run at, and its name; f64 where nobody says it as a processor's, or as that
  // of GPUs for consumers since 2012, of which most have 1/32 (Kepler's best and AMD's more, Ampere's 1/64). bf16 and
  // f16 by tensor units where the device has them, else fp32.
  std::pair<double, std::string> rate(DType compute) const;
  // GB per second and direction between it and its host, by sixteen lanes of its PCIe generation; 0: not known.
  double host_gb() const;
};

struct Price {
  std::string provider, instance;
  std::string device;            // of the catalogue; "" where it lists none
  double count = 0;              // of accelerators
  double usd = 0, spot_usd = 0;  // per hour of the whole instance; spot 0: unknown
  double vcpus = 0;              // of the whole instance; 0: not known
  bool host_included = true;
  std::string region, date, source, note;
};

// A link connects devices, inside a machine or between machines. Well-tuned sums over all of them reach the best ends
// of these, common software the usual ones.
struct Link {
  std::string name;
  bool inside = false;
  double gb = 0;  // per second and direction, of a machine; 0: the device's own figure
  double best_share = 0, usual_share = 0;
  double best_hop = 0, usual_hop = 0;  // seconds from neighbour to neighbour
  std::string source, date;
};

// Machines to rent for a number of devices.
struct Offer {
  const Price* price = nullptr;
  double machines = 1;
  double usd() const { return price->usd * machines; }  // per hour
};

struct Catalog {
  std::vector<Device> devices;
  std::vector<Price> prices;
  std::vector<Link> links;
  std::vector<std::string> questions;  // figures that look like sparse peaks

  // Throws Error(usage) naming the nearest ones.
  const Device& device(const std::string& name) const;
  // By its name, as "NVLINK"; or "50gbit", or "50" alone, as a network of so many Gbit/s: one that is not listed is
  // like the listed network with the nearest rate. Throws Error(usage) naming the nearest ones.
  Link link(const std::string& name) const;
  // The cheapest offer for `count` of these devices: a machine with that many, else one with more, else several.
  std::optional<Offer> cheapest(const std::string& device, int64_t count = 1) const;
};

// The shipped files, or those at the paths that are not "". Throws Error(usage) naming the file and the entry: what is
// missing, not a number, negative or zero, or said twice.
Catalog load_catalog(const std::string& devices = {}, const std::string& prices = {});
// The links of a file like catalog/links.json. Throws Error(usage) as above.
std::vector<Link> parse_links(const std::string& text, const std::string& source);
// The same from texts, with the shipped links; `source` names them in messages.
Catalog parse_catalog(const std::string& devices, const std::string& devices_source, const std::string& prices,
                      const std::string& prices_source);

}  // namespace freight::plan
