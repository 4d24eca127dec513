// The catalog of devices and prices: what is shipped, and what files of a user's own may not say.
#include "freight/plan/catalog.h"

#include <gtest/gtest.h>

#include "freight/base/error.h"

namespace freight::plan {
namespace {

constexpr const char* kNoPrices = R"({"format": "freight-prices-1", "prices": []})";
constexpr const char* kNoDevices = R"({"format": "freight-devices-1", "devices": []})";

std::string device(const std::string& change) {
  return R"({"format": "freight-devices-1", "devices": [{"name": "Card", "kind": "gpu", "vendor": "NVIDIA", "year": 2022,
            "memory_gib": 80, "bandwidth_gb_per_s": 3350, "source": "sheet", "date": "2026-01-01")" +
         change + "}]}";
}
std::string price(const std::string& change) {
  return R"({"format": "freight-prices-1", "prices": [{"provider": "P", "instance": "i", "count": 1)" + change + "}]}";
}

TEST(Catalog, TheShippedOneIsWholeAndRaisesNoQuestion) {
  const Catalog c = load_catalog();
  EXPECT_GE(c.devices.size(), 83u);
  EXPECT_GE(c.prices.size(), 113u);
  EXPECT_TRUE(c.questions.empty()) << c.questions[0];
  for (const Device& d : c.devices) {
    EXPECT_FALSE(d.source.empty()) << d.name;
    EXPECT_FALSE(d.date.empty()) << d.name;
    EXPECT_GT(d.rate(DType::f32).first, 0) << d.name;
  }
  for (const Price& p : c.prices) {
    EXPECT_FALSE(p.source.empty()) << p.instance;
    if (!p.device.empty()) c.device(p.device);  // throws for an unknown one
  }
}

TEST(Catalog, PeaksAreDense) {
  const Catalog c = load_catalog();
  EXPECT_EQ(c.device("H100 SXM5 80GB").rate(DType::bf16), (std::pair<double, std::string>{989, "bf16"}));
  EXPECT_EQ(c.device("GeForce GTX 1080").rate(DType::f16).second, "fp32");  // no tensor units
}

std::string link_file_of(const std::string& gbit) {
  return R"({"format": "freight-links-1", "links": [{"name": "wire", "scope": "between", "best_share": 1, "usual_share": 1,
            "best_hop_us": 1, "usual_hop_us": 1, "source": "s", "date": "d", "gbit_per_s": )" +
         gbit + "}]}";
}
std::string refusal_of_link(const std::string& gbit) {
  try {
    parse_links(link_file_of(gbit), "links.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// A rate of 1e-300 gave numbers of steps that no integer holds, and `plan --world` ended by a signal.
TEST(Catalog, FiguresAreOfWhatCanBeBuilt) {
  for (const char* gbit : {"1.1e-9", "1e-9", "0.999e9", "1e9"}) EXPECT_EQ(refusal_of_link(gbit), "") << gbit;
  for (const char* gbit : {"0.9e-9", "1.1e9", "1e-300", "1e300", "5e-324", "0", "-1"}) {
    EXPECT_NE(refusal_of_link(gbit).find("links.json: link 1 (wire): \"gbit_per_s\""), std::string::npos) << gbit;
  }
}

TEST(Catalog, ALinkByItsRateHasOneThatCanBeBuilt) {
  const Catalog c = load_catalog();
  EXPECT_EQ(c.link("1e-9").gb, 1e-9 / 8);
  EXPECT_EQ(c.link("1e9gbit").gb, 1e9 / 8);
  for (const char* rate : {"1e-308", "0.9e-9", "1.1e9", "nan", "inf", "-1"}) {
    try {
      c.link(rate);
      ADD_FAILURE() << rate;
    } catch (const Error& e) {
      const std::string said = e.what();
      EXPECT_EQ(said.rfind("--link: unknown link", 0), 0u) << said;
      EXPECT_NE(said.find(cat("'", rate, "' (expected one of")), std::string::npos) << said;
    }
  }
}

// Each name was compared with all others: minutes for a file of 16 MB.
TEST(Catalog, ManyLinksAreReadInTimeAndNoneTwice) {
  const std::string one = R"({"name": "n#", "scope": "between", "best_share": 1, "usual_share": 1, "best_hop_us": 1,
                             "usual_hop_us": 1, "source": "s", "date": "d", "gbit_per_s": 1})";
  std::string text = R"({"format": "freight-links-1", "links": [)";
  for (int i = 0; i < 60'000; ++i) {
    std::string link = one;
    link.replace(link.find('#'), 1, cat(i));
    text += cat(i ? "," : "", link);
  }
  EXPECT_EQ(parse_links(text + "]}", "links.json").size(), 60'000u);
  std::string twice = one;
  twice.replace(twice.find('#'), 1, "7");
  try {
    parse_links(cat(text, ",", twice, "]}"), "links.json");
    ADD_FAILURE() << "two links are named n7";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("two links are named 'n7'"), std::string::npos) << e.what();
  }
}

TEST(Catalog, TheCheapestOfferIsOneDeviceWhereThereIsOne) {
  ASSERT_TRUE(load_catalog().cheapest("GeForce RTX 4090").has_value());
  const Catalog c = parse_catalog(kNoDevices, "d",
                                  R"({"format": "freight-prices-1", "prices": [
      {"provider": "A", "instance": "eight", "device": "X", "count": 8, "usd_per_hour": 2, "date": "2026", "source": "s"},
      {"provider": "A", "instance": "one", "device": "X", "count": 1, "usd_per_hour": 3, "date": "2026", "source": "s"},
      {"provider": "B", "instance": "dear", "device": "X", "count": 1, "usd_per_hour": 4, "date": "2026", "source": "s"}]})",
                                  "p");
  EXPECT_EQ(c.cheapest("X")->price->instance, "one");
  EXPECT_FALSE(c.cheapest("Y").has_value());
  // Two and eight: the machine with eight; sixteen: two of these.
  EXPECT_EQ(c.cheapest("X", 2)->price->instance, "eight");
  EXPECT_EQ(c.cheapest("X", 8)->usd(), 2);
  EXPECT_EQ(c.cheapest("X", 16)->machines, 2);
  EXPECT_EQ(c.cheapest("X", 16)->usd(), 4);
}

TEST(Catalog, AnUnknownDeviceIsNotGuessedButItsFlagsAreNamed) {
  try {
    load_catalog().device("GeForce RTX 4091");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("GeForce RTX 4090"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("--device-memory"), std::string::npos) << e.what();
  }
  EXPECT_EQ(load_catalog().device("rtx 4090").name, "GeForce RTX 4090");  // a part that only one has
}

TEST(Catalog, SparsePeaksAreQuestioned) {
  const std::pair<const char*, bool> rows[] = {
      {R"(, "dense_tflops": {"fp32": 67, "tf32": 494.5, "bf16": 989})", false},
      {R"(, "dense_tflops": {"fp32": 67, "tf32": 494.5, "bf16": 1979})", true},  // 590 FLOPs per byte
      {R"(, "dense_tflops": {"fp32": 67, "tf32": 312, "bf16": 1200})", true},    // 3.8 times tf32
      {R"(, "dense_tflops": {"fp32": 67, "bf16": 400, "fp8": 3000})", true},
  };
  for (const auto& [change, asked] : rows) {
    const Catalog c = parse_catalog(device(change), "mine.json", kNoPrices, "p");
    EXPECT_EQ(!c.questions.empty(), asked) << change;
    for (const std::string& q : c.questions) EXPECT_NE(q.find("sparse"), std::string::npos) << q;
  }
}

TEST(Catalog, EveryFaultNamesFileAndEntry) {
  const char* whole = R"(, "dense_tflops": {"fp32": 67})";
  struct Row {
    std::string devices, prices, part;
  };
  const std::string good = device(whole), sold = R"(, "usd_per_hour": 1, "date": "2026", "source": "s")";
  const Row rows[] = {
      {"{", kNoPrices, "d.json: not valid JSON"},
      {R"({"format": "other"})", kNoPrices, "freight-devices-1"},
      {R"({"format": "freight-devices-1"})", kNoPrices, "\"devices\" is missing"},
      {device(""), kNoPrices, "device 1 (Card): \"dense_tflops\" is missing"},
      {device(R"(, "dense_tflops": {"fp33": 1})"), kNoPrices, "unknown rate 'fp33'"},
      {device(R"(, "dense_tflops": {"fp32": -1})"), kNoPrices, "expected a number above 0"},
      {device(R"(, "dense_tflops": {"fp32": "67"})"), kNoPrices, "expected a number above 0"},
      {device(std::string(whole) + R"(, "matmul_fraction": 1.5, "matmul_fraction_source": "s")"), kNoPrices,
       "expected at most 1"},
      {device(std::string(whole) + R"(, "matmul_fraction": 0.5)"), kNoPrices, "\"matmul_fraction_source\" is missing"},
      {R"({"format": "freight-devices-1", "devices": [{"kind": "gpu"}]})", kNoPrices, "device 1: \"name\" is missing"},
      {R"({"format": "freight-devices-1", "devices": [7]})", kNoPrices, "device 1: must be an object"},
      {good, price(R"(, "usd_per_hour": 0, "date": "2026", "source": "s")"), "p.json: price 1 (P i): \"usd_per_hour\""},
      {good, price(R"(, "usd_per_hour": -2, "date": "2026", "source": "s")"), "expected a number above 0"},
      {good, price(R"(, "usd_per_hour": 1, "source": "s")"), "\"date\" is missing"},
      {good, price(sold + R"(, "host_included": 1)"), "expected true or false"},
  };
  for (const Row& row : rows) {
    try {
      parse_catalog(row.devices, "d.json", row.prices, "p.json");
      ADD_FAILURE() << row.part;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(e.what()).find(row.part), std::string::npos) << e.what();
    }
  }
  std::string twice = good;
  const std::string entry = good.substr(good.find('[') + 1, good.rfind(']') - good.find('[') - 1);
  twice.insert(good.rfind(']'), "," + entry);
  EXPECT_THROW(parse_catalog(twice, "d", kNoPrices, "p"), Error);
}

}  // namespace
}  // namespace freight::plan
