// Advice: the least hardware that meets a wish, and by how much nothing does.
#include "freight/plan/advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "tests/support/simple_rates.h"

namespace freight::plan {
namespace {

// A processor, a modest card and a large one at rising speeds and prices; eight large ones in a machine.
Catalog catalog() {
  const auto device = [](const char* name, const char* kind, double gib, double bandwidth, double tflops) {
    return cat(R"({"name": ")", name, R"(", "kind": ")", kind, R"(", "year": 2022, "memory_gib": )", gib,
               R"(, "bandwidth_gb_per_s": )", bandwidth, R"(, "dense_tflops": {"fp32": )", tflops,
               R"(}, "pcie": 4, "source": "s", "date": "2026"})");
  };
  const auto price = [](const char* name, int count, double usd) {
    return cat(R"({"provider": "P", "instance": ")", name, count, R"(", "device": ")", name, R"(", "count": )", count,
               R"(, "usd_per_hour": )", usd, R"(, "date": "2026", "source": "s"})");
  };
  return parse_catalog(cat(R"({"format": "freight-devices-1", "devices": [)", device("Slow", "cpu", 64, 50, 0.5), ",",
                           device("Card", "gpu", 16, 400, 10), ",", device("Big", "gpu", 80, 3000, 60), "]}"),
                       "devices",
                       cat(R"({"format": "freight-prices-1", "prices": [)", price("Slow", 1, 0.1), ",",
                           price("Card", 1, 0.5), ",", price("Big", 1, 5), ",", price("Big", 8, 40), "]}"),
                       "prices");
}

class Advising : public ::testing::Test {
 protected:
  Advising() {
    train::Config c;
    c.data.clear();
    c.model = "resnet20";
    c.batch_size = 256;
    c.epochs = 100;
    setup_ = make_setup(c);
    shares_ = shares(setup_, options_of(setup_));
    length_ = RunLength::of(setup_, 1'000'000);
    length_.load_seconds = {};  // so that the devices decide
  }
  Advice with(double deadline, double budget) const {
    return advise(shares_, catalog_, nullptr, length_, {.deadline_hours = deadline, .budget_usd = budget});
  }
  double hours(const char* name) const {
    return estimate(shares_[0].step_plans, catalog_.device(name), catalog_, length_).run_hours.high;
  }
  TrainingSetup setup_;
  std::vector<Share> shares_;
  RunLength length_;
  Catalog catalog_ = catalog();
};

TEST_F(Advising, TheLeastHardwareThatIsInTime) {
  ASSERT_GT(hours("Slow"), hours("Card"));
  ASSERT_GT(hours("Card"), hours("Big"));
  const Advice slow = with(1.01 * hours("Slow"), 0);
  ASSERT_TRUE(slow.answer);
  EXPECT_EQ(slow.answer->hardware, Hardware::processor);
  const Advice modest = with(0.99 * hours("Slow"), 0);
  EXPECT_EQ(modest.answer->hardware, Hardware::modest_gpu);
  EXPECT_EQ(modest.answer->estimate.device, "Card");
  EXPECT_FALSE(modest.changes.empty());  // a longer deadline
  EXPECT_NE(modest.changes[0].find("Slow would do"), std::string::npos) << modest.changes[0];
  const Advice large = with(0.99 * hours("Card"), 0);
  EXPECT_EQ(large.answer->estimate.device, "Big");
  const Advice several = with(0.99 * hours("Big"), 0);
  ASSERT_TRUE(several.answer);
  EXPECT_EQ(several.answer->hardware, Hardware::several);
  for (const Advice* a : {&slow, &modest, &large, &several}) {
    EXPECT_FALSE(a->reasons.empty());
    EXPECT_LE(a->cheapest->usd(), a->answer->usd());
    EXPECT_LE(a->fastest->hours(), a->answer->hours());
  }
}

TEST_F(Advising, ABudgetRulesOutWhatCostsMore) {
  const Advice a = with(1.01 * hours("Slow"), 0.05);  // cheaper than any hour
  ASSERT_FALSE(a.answer);
  const Advice b = with(0.99 * hours("Card"), 1.01 * 5 * hours("Big"));
  ASSERT_TRUE(b.answer);
  EXPECT_EQ(b.answer->estimate.device, "Big");
  EXPECT_LE(b.answer->usd(), 1.01 * 5 * hours("Big"));
}

TEST_F(Advising, SaysByHowMuchNothingMeetsTheWish) {
  const Advice late = with(1e-6, 0);
  ASSERT_FALSE(late.answer);
  ASSERT_TRUE(late.fastest);
  EXPECT_NEAR(late.late_hours, late.fastest->hours() - 1e-6, 1e-9);
  EXPECT_NE(late.miss.find("more than the deadline"), std::string::npos) << late.miss;
  const Advice poor = with(1.01 * hours("Slow"), 1e-3);
  ASSERT_FALSE(poor.answer);
  EXPECT_NEAR(poor.over_usd, poor.cheapest->usd() - 1e-3, 1e-9);
  EXPECT_NE(poor.miss.find("more than the budget"), std::string::npos) << poor.miss;
  // Each alone could be met: both trades are told.
  const Advice both = with(0.99 * hours("Card"), 1.01 * 0.5 * hours("Card"));
  ASSERT_FALSE(both.answer);
  EXPECT_GT(both.late_hours, 0);
  EXPECT_GT(both.over_usd, 0);
}

// Trees: this machine is free, the card costs 0.50 an hour and the large one 5.
TEST_F(Advising, OfTreesTheLeastThatIsInTimeAndThisMachineWhereItIs) {
  const auto takes = [&](const char* device, double hours, bool fits) {
    Estimate e;
    e.device = device;
    e.fits = fits;
    e.timed = true;
    e.run_hours = {hours, hours};
    e.offer = catalog_.cheapest(device);
    if (e.offer) e.dollars = e.run_hours * e.offer->usd();
    return e;
  };
  const std::vector<Estimate> all = {takes("this machine", 4, true), takes("Big", 0.1, true), takes("Card", 1, true)};
  const auto within = [&](double hours) { return advise_trees(all, catalog_, {.deadline_hours = hours}); };
  const Advice slow = within(5), card = within(2), fast = within(0.5), never = within(0.05);
  EXPECT_TRUE(slow.answer->here);
  EXPECT_EQ(slow.answer->usd(), 0);
  EXPECT_EQ(slow.fastest->estimate.device, "Big");
  EXPECT_EQ(card.answer->estimate.device, "Card");
  EXPECT_EQ(card.answer->hardware, Hardware::modest_gpu);
  EXPECT_NEAR(card.answer->usd(), 0.5, 1e-12);
  ASSERT_EQ(card.reasons.size(), 1u);
  EXPECT_NE(card.reasons[0].find("4.0 times as long"), std::string::npos) << card.reasons[0];
  EXPECT_EQ(fast.answer->hardware, Hardware::large_gpu);
  EXPECT_FALSE(never.answer);
  EXPECT_NEAR(never.late_hours, 0.05, 1e-12);
  // A table that this machine's memory does not hold.
  std::vector<Estimate> larger = all;
  larger[0].fits = false;
  const Advice elsewhere = advise_trees(larger, catalog_, {.deadline_hours = 5});
  EXPECT_FALSE(elsewhere.here);
  EXPECT_EQ(elsewhere.answer->estimate.device, "Card");
  EXPECT_NE(elsewhere.changes[0].find("--external-memory on"), std::string::npos) << elsewhere.changes[0];
  for (Estimate& e : larger) e.fits = false;
  EXPECT_THROW(advise_trees(larger, catalog_, {}), Error);
}

TEST_F(Advising, WhatFitsNowhereIsRefused) {
  Catalog tiny = catalog_;
  for (Device& d : tiny.devices) d.memory_gib = 1e-3;
  tiny.devices.erase(tiny.devices.begin());
  try {
    advise(shares_, tiny, nullptr, length_, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("no device of the catalog fits"), std::string::npos) << e.what();
  }
}

// Eight large ones in a machine share PCIe, eight machines of one a network: what is cheapest is told.
TEST_F(Advising, SeveralMachinesAreJoinedByTheNetwork) {
  const auto at_most = [&](const char* link) {
    Fleet fleet{.per_machine = kAsOffered, .between = catalog_.link(link)};
    return advise(shares_, catalog_, nullptr, length_, {.deadline_hours = 1e-6}, fleet);  // nothing is in time
  };
  for (const char* link : {"1gbit", "100gbit"}) {
    const Advice a = at_most(link);
    ASSERT_EQ(a.by_devices.size(), 7u);
    for (size_t i = 0; i < a.by_devices.size(); ++i) {
      const Choice& c = a.by_devices[i];
      const Estimate& e = c.estimate;
      EXPECT_EQ(e.device, "Big");
      EXPECT_EQ(e.devices, int64_t{1} << i);
      EXPECT_EQ(e.offer->machines, std::ceil(static_cast<double>(e.devices) / e.offer->price->count));
      double least = c.usd();
      for (const int64_t size : {1, 8}) {
        const Estimate other = estimate(shares_[i].step_plans, catalog_.device("Big"), catalog_, length_,
                                        {.devices = e.devices, .per_machine = size, .between = catalog_.link(link)});
        const double hourly =
            std::ceil(static_cast<double>(e.devices) / static_cast<double>(size)) * (size == 1 ? 5 : 40);
        if (size == static_cast<int64_t>(e.offer->price->count)) {
          EXPECT_EQ(e.run_hours.high, other.run_hours.high);
        }
        least = std::min(least, other.run_hours.high * hourly);
      }
      if (c.hours() != a.fastest->hours()) {
        EXPECT_NEAR(c.usd(), least, 1e-9 * least);
      }
      EXPECT_NEAR(efficiency(a, c),
                  e.samples_per_second.middle() /
                      (static_cast<double>(e.devices) * a.by_devices[0].estimate.samples_per_second.middle()),
                  1e-12);
    }
  }
  // A slow network keeps sixteen in two machines, at the same price by the hour as in sixteen.
  EXPECT_EQ(at_most("1gbit").by_devices[4].estimate.offer->machines, 2);
  Catalog singles = catalog_;
  singles.prices.pop_back();  // the machine of eight
  const Advice apart = advise(shares_, singles, nullptr, length_, {.deadline_hours = 1e-6});
  const Estimate& eight = apart.by_devices[3].estimate;
  EXPECT_EQ(eight.offer->machines, 8);
  EXPECT_NE(eight.link.find("a network of 100 Gbit/s"), std::string::npos) << eight.link;
}

TEST_F(Advising, AFasterNetworkMakesMoreMachinesWorthIt) {
  const auto by = [&](const char* link) {
    const Fleet fleet{.per_machine = 1, .between = catalog_.link(link)};
    return advise(shares_, catalog_, nullptr, length_, {.deadline_hours = 0.9 * hours("Big")}, fleet);
  };
  const Advice slow = by("1gbit"), fast = by("400gbit-rdma");
  ASSERT_TRUE(fast.answer);
  EXPECT_EQ(fast.answer->hardware, Hardware::several);
  ASSERT_TRUE(fast.fastest && slow.fastest);
  EXPECT_LT(fast.fastest->hours(), slow.fastest->hours());
  const auto says = [&](const Advice& a, const std::string& part) {
    return std::any_of(a.reasons.begin(), a.reasons.end(),
                       [&](const std::string& r) { return r.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(says(fast, cat(fast.answer->estimate.devices, " of them"))) << fast.reasons.back();
  EXPECT_TRUE(says(fast, " % of linear; a step is limited by "));
}

TEST_F(Advising, SeveralMachinesLikeThisOneAreChoicesWhereItIsKnownWhatJoinsThem) {
  const Rates rates = simple_rates();
  Catalog none = catalog_;
  none.devices.resize(1);
  none.devices[0].bandwidth_gb = 1e-3;  // so slow that this machine is the choice
  const auto by = [&](const Fleet& fleet) {
    return advise(shares_, none, &rates, length_, {.deadline_hours = 1e-6}, fleet);
  };
  EXPECT_EQ(by({.per_machine = kAsOffered}).by_devices.size(), 1u);
  const Advice joined = by({.per_machine = kAsOffered, .between = catalog_.link("10gbit")});
  ASSERT_EQ(joined.by_devices.size(), 7u);
  EXPECT_LT(joined.by_devices[1].hours(), joined.by_devices[0].hours());
  EXPECT_EQ(joined.by_devices[1].usd(), -1);  // nobody says what they cost
  // Ranks of this machine are this machine.
  Fleet measured{.per_machine = kAsOffered};
  measured.measured = MeasuredSums{.source = "sums.json", .one_host = true, .sums = {{2, 1e-5, 1e-9, 0.1}}};
  EXPECT_EQ(by(measured).by_devices.size(), 1u);
  measured.measured->one_host = false;
  EXPECT_EQ(by(measured).by_devices.size(), 7u);
}

TEST_F(Advising, AShareIsAPartOfTheBatch) {
  ASSERT_EQ(shares_.size(), 7u);
  EXPECT_EQ(shares_.back().devices, 64);
  for (const Share& s : shares_) EXPECT_EQ(s.step_plans[0].options.batch, 256 / s.devices);
  StepPlanOptions one = options_of(setup_);
  one.batch = 1;
  EXPECT_EQ(shares(setup_, one).size(), 1u);
}

TEST(Hours, AreReadWithTheirUnits) {
  EXPECT_EQ(parse_hours("--deadline", "8h"), 8);
  EXPECT_EQ(parse_hours("--deadline", "90m"), 1.5);
  EXPECT_EQ(parse_hours("--deadline", "1h30m"), 1.5);
  EXPECT_EQ(parse_hours("--deadline", "2d"), 48);
  for (const char* bad : {"", "8", "h", "-8h", "0h", "8x", "nanh", "infh", "8h7", "1e999h"}) {
    EXPECT_THROW(parse_hours("--deadline", bad), Error) << bad;
  }
  EXPECT_EQ(hours_text(0.5), "30 min");
  EXPECT_EQ(hours_text(36), "36 h");
  EXPECT_EQ(hours_text(96), "4.0 days");
}

}  // namespace
}  // namespace freight::plan
