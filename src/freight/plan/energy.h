// The energy that a run takes, by the counters of the machine's CPUs (RAPL, Linux' powercap). Reading them needs
// permission, and virtual machines and other CPUs have none: nothing is known then.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace freight::plan {

class EnergyMeter {
 public:
  // `counters`: the folder of the powercap zones.
  explicit EnergyMeter(const std::string& counters = "/sys/class/powercap");
  // Adds what was used since the last call. A counter wraps around after half an hour of full power or more: call it
  // more often than that. It reads the files at most once per second.
  void poll();
  // Used by all CPU packages of the machine, other programs included, up to now.
  std::optional<double> watt_hours();
  // The power that the packages may take for long; 0 where it is not known.
  double rated_watts() const { return rated_watts_; }

 private:
  struct Zone {
    std::string file;
    double last = 0, wraps_at = 0;  // microjoules
  };
  void read();
  std::vector<Zone> zones_;
  double microjoules_ = 0, rated_watts_ = 0;
  std::chrono::steady_clock::time_point read_at_;
};

}  // namespace freight::plan
