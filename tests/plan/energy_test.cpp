// Energy, from counters that the test writes.
#include "freight/plan/energy.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace freight::plan {
namespace {
using namespace freight::testing;

void put_counter(const TemporaryDir& dir, const std::string& zone, const std::string& microjoules) {
  put(dir / zone + "/energy_uj", microjoules + "\n");
  put(dir / zone + "/max_energy_range_uj", "7200000000\n");
  put(dir / zone + "/constraint_0_power_limit_uw", "65000000\n");
}

TEST(EnergyMeter, AddsThePackagesAndNotTheirParts) {
  const TemporaryDir dir;
  put_counter(dir, "intel-rapl:0", "1000");
  put_counter(dir, "intel-rapl:1", "0");
  put_counter(dir, "intel-rapl:0:0", "0");
  put_counter(dir, "intel-rapl-mmio:0", "0");
  EnergyMeter meter(dir.path());
  EXPECT_EQ(meter.rated_watts(), 130);
  EXPECT_EQ(meter.watt_hours(), 0);
  put_counter(dir, "intel-rapl:0", "3600001000");
  put_counter(dir, "intel-rapl:1", "1800000000");
  put_counter(dir, "intel-rapl:0:0", "7000000000");
  put_counter(dir, "intel-rapl-mmio:0", "7000000000");
  EXPECT_DOUBLE_EQ(meter.watt_hours().value_or(-1), 1.5);
}

TEST(EnergyMeter, ACounterThatWrappedAroundGoesOn) {
  const TemporaryDir dir;
  put_counter(dir, "intel-rapl:0", "7000000000");
  EnergyMeter meter(dir.path());
  put_counter(dir, "intel-rapl:0", "3400000000");  // 200 to the end of the range, and 3,400
  EXPECT_DOUBLE_EQ(meter.watt_hours().value_or(-1), 1);
}

TEST(EnergyMeter, KnowsNothingWithoutCounters) {
  const TemporaryDir dir;
  EnergyMeter none(dir / "nowhere");
  none.poll();
  EXPECT_FALSE(none.watt_hours());
  EXPECT_EQ(none.rated_watts(), 0);
}

}  // namespace
}  // namespace freight::plan
