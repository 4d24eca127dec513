// The catalog: devices with dense peaks, prices of machines, and links between devices, each figure with its source and
// date. It is compiled in from catalog/devices.json, prices.json and links.json; `--catalog FILE`, `--prices FILE` and
// `--link FILE` replace them by files of the same form (docs/plan.md). No figure is guessed: what a file does not
// contain is 0 or "".
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/dtype.h"

namespace freight::plan {

struct Device {
  std::string name, kind;  // `kind` is cpu, gpu, tpu or npu
  std::string vendor, arch;
  int year = 0;
  double memory_gib = 0;                               // per device; 0: as installed
  double bandwidth_gb = 0;                             // per second, decimal
  std::vector<std::pair<std::string, double>> tflops;  // dense: "fp32", "tf32", "fp16", "bf16", "fp8", "int8"
  double tdp_watts = 0;
  double link_gb = 0;             // per second and direction, between devices; 0: none but PCIe
  bool link_of_pairs = false;     // a bridge, which connects two devices only
  int pcie = 0;                   // the generation; 0: not known
  double matmul_fraction = 0;     // of the dense peak, from published measurements; 0: none
  double bandwidth_fraction = 0;  // of the bandwidth, from published measurements; 0: none
  std::string source, date, note;

  // The dense peak in TFLOP/s of a named rate; 0 if the device does not have it.
  double peak(const std::string& rate) const;
  // The rate at which contractions in `compute` run, and its name. f64 without a published figure is taken as for other
  // processors, or as for consumer GPUs since 2012, most of which have 1/32 (Kepler's best and AMD's have more,
  // Ampere's 1/64). bf16 and f16 use tensor units if the device has them, else the fp32 rate.
  std::pair<double, std::string> rate(DType compute) const;
  // The GB per second and direction between the device and its host over sixteen lanes of its PCIe generation; 0: not
  // known.
  double host_gb() const;
};

struct Price {
  std::string provider, instance;
  std::string device;            // its name in the catalog; "" if it is not listed there
  double count = 0;              // accelerators per instance
  double usd = 0, spot_usd = 0;  // per hour of the whole instance; 0 for spot: not known
  double vcpus = 0;              // of the whole instance; 0: not known
  bool host_included = true;
  std::string region, date, source, note;
};

// A link connects devices, inside a machine or between machines. Well-tuned collectives over all of them reach the best
// figures, common software the usual ones.
struct Link {
  std::string name;
  bool inside = false;
  double gb = 0;  // per second, direction and machine; 0: the device's own figure
  double best_share = 0, usual_share = 0;
  double best_hop = 0, usual_hop = 0;  // seconds from neighbor to neighbor
  std::string source, date;
};

// The machines to rent for a number of devices.
struct Offer {
  const Price* price = nullptr;
  double machines = 1;
  double usd() const { return price->usd * machines; }  // per hour
};

struct Catalog {
  std::vector<Device> devices;
  std::vector<Price> prices;
  std::vector<Link> links;
  std::vector<std::string> questions;  // devices whose figures look like sparse peaks

  // Throws Error(usage) that names the nearest ones.
  const Device& device(const std::string& name) const;
  // A link by its name ("NVLINK"), or by its rate: "50gbit" or "50" is a network of that many Gbit/s. A rate that is
  // not listed takes the other figures of the listed network with the nearest rate. Throws Error(usage) that names the
  // nearest links.
  Link link(const std::string& name) const;
  // The cheapest offer for `count` of these devices: a machine with exactly that many, else one with more, else several
  // machines.
  std::optional<Offer> cheapest(const std::string& device, int64_t count = 1) const;
};

// Loads the compiled-in files, or those at the given paths. Throws Error(usage) that names the file and the entry if a
// figure is missing, not a number, negative, zero, or given twice.
Catalog load_catalog(const std::string& devices = {}, const std::string& prices = {});
// Parses the links of a file like catalog/links.json. Throws Error(usage) as above.
std::vector<Link> parse_links(const std::string& text, const std::string& source);
// Parses texts, with the compiled-in links; `source` names them in messages.
Catalog parse_catalog(const std::string& devices, const std::string& devices_source, const std::string& prices,
                      const std::string& prices_source);

}  // namespace freight::plan
