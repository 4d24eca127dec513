// See energy.h.
#include "freight/plan/energy.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "freight/base/parse_number.h"
#include "freight/base/strings.h"

namespace freight::plan {

namespace {

// The number in a file of one line; nothing where it cannot be read.
std::optional<double> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!std::getline(file, text)) return {};
  return parse_number<double>(text);
}

// "intel-rapl:0", a package. "intel-rapl:0:1" is a part of it, "intel-rapl-mmio:0" the same counter by another way.
bool is_package(const std::string& name) {
  const bool rapl = starts_with(name, "intel-rapl:") || starts_with(name, "amd-rapl:");
  return rapl && std::count(name.begin(), name.end(), ':') == 1;
}

}  // namespace

EnergyMeter::EnergyMeter(const std::string& counters) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator it(counters, error), end; !error && it != end; it.increment(error)) {
    const std::string folder = it->path().string();
    if (!is_package(it->path().filename().string())) continue;
    const std::optional<double> now = number_in(folder + "/energy_uj");
    const std::optional<double> most = number_in(folder + "/max_energy_range_uj");
    if (!now || !most) continue;
    zones_.push_back({.file = folder + "/energy_uj", .last = *now, .wraps_at = *most});
    constexpr double kMicro = 1e6;
    rated_watts_ += number_in(folder + "/constraint_0_power_limit_uw").value_or(0) / kMicro;
  }
  read_at_ = std::chrono::steady_clock::now();
}

void EnergyMeter::read() {
  read_at_ = std::chrono::steady_clock::now();
  for (Zone& zone : zones_) {
    const std::optional<double> now = number_in(zone.file);
    if (!now) continue;
    microjoules_ += *now - zone.last + (*now < zone.last ? zone.wraps_at : 0);
    zone.last = *now;
  }
}

void EnergyMeter::poll() {
  if (!zones_.empty() && std::chrono::steady_clock::now() - read_at_ > std::chrono::seconds(1)) read();
}

std::optional<double> EnergyMeter::watt_hours() {
  if (zones_.empty()) return {};
  read();
  constexpr double kMicrojoulesPerWattHour = 3.6e9;
  return microjoules_ / kMicrojoulesPerWattHour;
}

}  // namespace freight::plan
