// What is said of a run that is over, against its plan.
#include "freight/plan/preflight.h"

#include <gtest/gtest.h>

namespace freight::plan {
namespace {

constexpr double kMib = 1024 * 1024;

TEST(Comparison, LargePlansInPercentSmallOnesInBytes) {
  EXPECT_EQ(comparison({.planned_bytes = 1000 * kMib, .measured_bytes = 1030 * kMib}),
            (std::vector<std::string>{"memory  planned 1000.0 MiB, measured 1.0 GiB (+3 %)"}));
  EXPECT_EQ(comparison({.planned_bytes = 3 * kMib, .measured_bytes = 20 * kMib}),
            (std::vector<std::string>{"memory  planned 3.0 MiB, measured 20.0 MiB (+17.0 MiB)"}));
  EXPECT_EQ(comparison({.planned_bytes = 30 * kMib, .measured_bytes = 20 * kMib})[0],
            "memory  planned 30.0 MiB, measured 20.0 MiB (-10.0 MiB)");
}

TEST(Comparison, TheStepIsToldWhereItWasPlanned) {
  const Outcome both{.planned_bytes = kMib, .measured_bytes = kMib, .planned_seconds = 0.2, .measured_seconds = 0.214};
  EXPECT_EQ(comparison(both)[1], "step    planned 200 ms, measured 214 ms (+7 %)");
  EXPECT_EQ(comparison({.planned_bytes = kMib, .measured_bytes = kMib, .measured_seconds = 0.2}).size(), 1u);
}

TEST(Comparison, MoreMemoryThanPlannedIsADefectWhereThePlanIsLarge) {
  EXPECT_TRUE(exceeds_plan({.planned_bytes = 1000 * kMib, .measured_bytes = 1090 * kMib}));
  EXPECT_FALSE(exceeds_plan({.planned_bytes = 1000 * kMib, .measured_bytes = 1070 * kMib}));
  EXPECT_FALSE(exceeds_plan({.planned_bytes = 10 * kMib, .measured_bytes = 40 * kMib}));
}

}  // namespace
}  // namespace freight::plan
