// The metrics files: stable keys, non-finite values, CRC-32C and the event file's framing.
#include "freight/io/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/files.h"

namespace freight::io {
namespace {
using namespace freight::testing;

TEST(MetricsTest, KeysAreStableAndInOrder) {
  const Metrics m{.step = 3, .epoch = 0.5, .split = "val", .loss = 1.25, .mem_bytes = 7, .time = 2};
  EXPECT_EQ(to_json_line(m),
            R"({"step":3,"epoch":0.5,"split":"val","loss":1.25,"top1":null,"lr":null,"samples_per_s":null,)"
            R"("data_s":null,"step_s":null,"mem_bytes":7,"time":2.0})");
}

TEST(MetricsTest, NanIsNullAndMarked) {
  const auto j = nlohmann::json::parse(to_json_line({.loss = std::nan(""), .time = 1}));
  EXPECT_TRUE(j["loss"].is_null());
  EXPECT_EQ(j["nonfinite"], true);
}

TEST(MetricsTest, RowsReadBackAsTheyWereWritten) {
  const Metrics m{.step = 3, .epoch = 0.5, .split = "val", .loss = 1.25, .lr = 1e-7, .mem_bytes = 7, .time = 2};
  const auto back = from_json_line(to_json_line(m));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json_line(*back), to_json_line(m));
  const auto bad = from_json_line(to_json_line({.loss = std::nan(""), .time = 1}));
  ASSERT_TRUE(bad && bad->loss);
  EXPECT_TRUE(std::isnan(*bad->loss));
  for (const char* line : {"", "{", "7", "{}", R"({"step":1})", R"({"step":"1","split":"train"})",
                           R"({"step":1,"split":"train","loss":"x"})", R"({"step":1,"split":2})"}) {
    EXPECT_FALSE(from_json_line(line)) << line;
  }
}

TEST(MetricsTest, LinesThatAreNoRowsAreCounted) {
  const TemporaryDir dir;
  const std::string row = to_json_line({.step = 1, .time = 1});
  write_file_atomic(dir / "m", std::string_view(row + "\n{\"step\": \n\n" + row + "\n" + row.substr(0, 30)));
  const MetricsFile file = read_metrics(dir / "m");
  EXPECT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.damaged, (std::vector<int64_t>{2, 5}));
  expect_error(ErrorKind::data, {"missing"}, [&] { read_metrics(dir / "missing"); });
}

// RFC 3720, appendix B.4.
// A step of 2^63 became a negative one, and ended `report` by a signal.
TEST(MetricsTest, StepsAreCountsOrTheLineIsNoRow) {
  for (const char* step : {"0", "9007199254740991", "9007199254740992"}) {
    EXPECT_TRUE(from_json_line(cat("{\"step\":", step, ",\"split\":\"train\"}"))) << step;
  }
  for (const char* step : {"-1", "9007199254740994", "9223372036854775808", "18446744073709551615", "1.5", "1e300"}) {
    EXPECT_FALSE(from_json_line(cat("{\"step\":", step, ",\"split\":\"train\"}"))) << step;
  }
}

TEST(MetricsTest, Crc32cMatchesThePublishedValues) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

TEST(MetricsTest, WritesThreeFilesAndAppendsOnResume) {
  const TemporaryDir dir;
  for (int run = 0; run < 2; ++run) {
    MetricsWriter w(dir / "run");
    w.write({.step = run, .loss = 0.5, .top1 = 91.0});
  }
  EXPECT_EQ(split(read_text(dir / "run/metrics.jsonl"), '\n').size(), 3u);
  const auto csv = split(read_text(dir / "run/metrics.csv"), '\n');
  ASSERT_EQ(csv.size(), 4u);
  EXPECT_EQ(csv[0], "step,epoch,split,loss,top1,lr,samples_per_s,data_s,step_s,mem_bytes,time");
  EXPECT_TRUE(starts_with(csv[2], "1,0,train,0.5,91,,,,,,")) << csv[2];
  for (const auto& entry : std::filesystem::directory_iterator(dir / "run")) {
    if (!starts_with(entry.path().filename().string(), "events.out.tfevents.")) continue;
    const std::string all = read_text(entry.path().string());
    // Walk the records: every length and checksum must agree.
    size_t at = 0, records = 0;
    while (at < all.size()) {
      const std::string length = all.substr(at, 8);
      uint64_t n = 0;
      for (size_t i = 8; i-- > 0;) n = n << 8 | static_cast<uint8_t>(length[i]);
      const std::string payload = all.substr(at + 12, n);
      EXPECT_EQ(all.substr(at, 16 + n), event_record(payload));
      EXPECT_NE(payload.find(records == 0 ? "brain.Event:2" : "loss/train"), std::string::npos);
      at += 16 + n;
      ++records;
    }
    EXPECT_GE(records, 2u);
  }
}

TEST(MetricsTest, AnUnwritableDirectoryIsNamed) {
  expect_error(ErrorKind::runtime, {"/dev/null/run"}, [] { MetricsWriter w("/dev/null/run"); });
}

}  // namespace
}  // namespace freight::io
