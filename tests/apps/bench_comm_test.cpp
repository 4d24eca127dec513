// `freight bench comm` as its users meet it.
#include <gtest/gtest.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "rank_processes.h"
#include "run_command.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> comm_args(const std::vector<std::string>& more) {
  std::vector<std::string> args = {"bench", "comm", "--seconds", "0.01"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(BenchComm, PrintsATableAndTheLine) {
  const std::string dir = scratch_dir();
  const Ran r = run_freight(comm_args({"--world", "1,2,3", "--bytes", "1k,64k"}), "", {"TMPDIR=" + dir});
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* part :
       {"ranks  bytes", "bus GB/s", "1,024", "65,536", "2 ranks: an all-reduce takes ", "3 ranks: an "}) {
    EXPECT_TRUE(holds(r.out, part)) << part << " in\n" << r.out;
  }
  EXPECT_TRUE(holds(r.err, "ranks: 3")) << r.err;
  EXPECT_TRUE(std::filesystem::is_empty(dir)) << "logs of a job that went well are removed";
}

TEST(BenchComm, PrintsJson) {
  const Ran r = run_freight(comm_args({"--world", "2", "--bytes", "4,1M", "--json"}));
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  ASSERT_EQ(j.at("worlds").size(), 1u);
  const Json& w = j.at("worlds")[0];
  EXPECT_EQ(w.at("world"), 2);
  ASSERT_EQ(w.at("figures").size(), 2u);
  const Json& f = w.at("figures")[1];
  EXPECT_EQ(f.at("bytes"), 1 << 20);
  EXPECT_GT(f.at("seconds"), 0);
  EXPECT_NEAR(f.at("bus_bytes_per_second").get<double>() * f.at("seconds").get<double>(), 1 << 20, 1);
  EXPECT_GE(w.at("cost").at("start_seconds"), 0);
  EXPECT_GE(w.at("cost").at("seconds_per_byte"), 0);
  const Json& beside = w.at("beside_compute");
  EXPECT_GE(beside.at("threads"), 1);
  EXPECT_GT(beside.at("products_slower"), 0);
  EXPECT_GT(beside.at("rest_slower"), 0);
  EXPECT_GE(beside.at("slowest_rank"), 1);
  EXPECT_GT(beside.at("sum_cost").at("start_seconds").get<double>() +
                beside.at("sum_cost").at("seconds_per_byte").get<double>(),
            0);
  EXPECT_GE(beside.at("lost_seconds_per_byte"), 0);
}

TEST(BenchComm, MeasuresOverANetwork) {
  const Ran table = run_freight(comm_args({"--world", "1,2", "--bytes", "1k,2M", "--engine", "gloo"}));
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_TRUE(holds(table.out, "over processes (Gloo)") && holds(table.out, "2,097,152")) << table.out;
  const Ran r = run_freight(comm_args({"--world", "3", "--bytes", "64k", "--engine", "gloo", "--json"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out).at("engine"), "Gloo");
  const Ran missing = run_freight(comm_args({"--world", "2", "--bytes", "1k", "--engine", "gloo"}), "",
                                  {"FREIGHT_GLOO=/nowhere/libgloo.so.0"});
  EXPECT_EQ(missing.code, 4) << missing.err;
  EXPECT_TRUE(holds(missing.err, "install libgloo-dev")) << missing.err;
}

TEST(BenchComm, RefusesWhatItCannotMeasure) {
  struct Row {
    std::vector<std::string> args;
    const char* part;
  };
  const Row rows[] = {
      {{"--world", "0"}, "--world"},
      {{"--world", "2,1"}, "--world"},
      {{"--world", "5000"}, "--world: ranks: expected 1 to 1024, got 5000"},
      {{"--bytes", "3"}, "--bytes"},
      {{"--bytes", "64k,1k"}, "--bytes"},
      {{"--bytes", "1x"}, "--bytes"},
      {{"--bytes", "0"}, "--bytes"},
      {{"--bytes", "-4"}, "--bytes"},
      {{"--bytes", "17G"}, "--bytes"},
      {{"--bytes", ""}, "--bytes"},
      {{"--seconds", "0"}, "--seconds"},
      {{"--comm-timeout", "0"}, "--comm-timeout"},
      {{"--engine", "tcp"}, "--comm: unknown value: expected one of auto, shared, gloo, nccl, got tcp"},
      {{"--comm-timeout", "x"}, "--comm-timeout"},
  };
  for (const Row& row : rows) {
    const Ran r = run_freight(comm_args(row.args));
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_TRUE(holds(r.err, row.part)) << r.err;
  }
}

TEST(BenchComm, IsOneRankUnderAnotherLauncher) {
  const std::vector<std::string> common = {"WORLD_SIZE=2", "MASTER_PORT=" + std::to_string(20000 + ::getpid() % 20000)};
  std::vector<std::string> zero = common, one = common;
  zero.push_back("RANK=0");
  one.push_back("RANK=1");
  Running other(comm_args({"--bytes", "1k", "--json"}), "", one);
  const Ran first = run_freight(comm_args({"--bytes", "1k", "--json"}), "", zero), second = other.finish();
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(Json::parse(first.out).at("worlds")[0].at("world"), 2);
  EXPECT_EQ(second.out, "");
  const Ran wrong = run_freight(comm_args({"--world", "3"}), "", zero);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(holds(wrong.err, "--world: got 3: torchrun started 2 processes")) << wrong.err;
}

TEST(BenchComm, EndsWith7WhereARankDoesNotCome) {
  const Ran r = run_freight(comm_args({"--comm-timeout", "0.3"}), "",
                            {"RANK=0", "WORLD_SIZE=2", "MASTER_PORT=" + std::to_string(40000 + ::getpid() % 20000)});
  EXPECT_EQ(r.code, 7);
  EXPECT_TRUE(holds(r.err, "rendezvous: rank 1 did not respond within 0.3 s")) << r.err;
}

TEST(BenchComm, StopsItsRanksOnASignal) {
  std::signal(SIGINT, SIG_DFL);  // a shell that runs the tests in its background ignores it, and so would all programs
  const std::string dir = scratch_dir();
  Running bench({"bench", "comm", "--world", "2", "--bytes", "1k", "--seconds", "600"}, "", {"TMPDIR=" + dir});
  ASSERT_TRUE(bench.wait_for("ranks: 2"));
  ASSERT_TRUE(bench.wait_until([&] { return !std::filesystem::is_empty(dir); }));
  ::usleep(200000);
  bench.send(SIGINT);
  EXPECT_EQ(bench.finish().code, 130);
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

TEST(BenchComm, NamesARankThatIsKilled) {
  const std::string dir = scratch_dir();
  Running bench({"bench", "comm", "--world", "3", "--bytes", "64k", "--seconds", "600"}, "", {"TMPDIR=" + dir});
  ASSERT_TRUE(bench.wait_for("ranks: 3"));
  const int victim = awaited_process(bench, 1);
  ASSERT_GT(victim, 0);
  ::usleep(300000);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  const Ran r = bench.finish();
  EXPECT_EQ(r.code, 7);
  EXPECT_TRUE(holds(r.err, "bench comm: rank 1 was killed by signal 9 (Killed); its log is " + dir)) << r.err;
  EXPECT_TRUE(holds(r.err, "rank-1.log: rank 1 was killed by signal 9 (Killed) before it printed anything")) << r.err;
  // The others said it, too, in the logs that were kept.
  int told = 0;
  for (const auto& f : std::filesystem::recursive_directory_iterator(dir)) {
    if (f.path().filename() == "rank-0.log" || f.path().filename() == "rank-2.log") {
      told += holds(read_file(f.path().string()), "rank 1 failed: its process " + std::to_string(victim));
    }
  }
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace freight::test
