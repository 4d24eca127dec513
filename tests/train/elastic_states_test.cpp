// The optimizer's states of an elastic run are dealt out over its ranks (state_shares.h): a rank is killed at a chosen
// collective, in the middle of a step, of a meeting, of a deal, and the model has the bytes of a run that nobody
// disturbed. Runs of the command: tests/apps/elastic_test.cpp.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "freight/base/strings.h"
#include "freight/comm/launcher.h"
#include "freight/comm/membership.h"
#include "freight/train/ranks.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"
#include "tests/support/small_digits.h"

namespace freight::train {
namespace {

using comm::JobEnd;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

constexpr int kRanks = 4;

// Four parameters and more, so that each rank has some, and one that no rank halves.
constexpr const char* kNet = R"({"format": "freight-model-1", "name": "net", "input": [1, 28, 28], "net": [
    {"type": "Conv2d", "out": 6, "kernel": 5, "stride": 2, "bias": false}, {"type": "BatchNorm2d"}, {"type": "ReLU"},
    {"type": "MaxPool2d", "kernel": 2}, {"type": "Flatten"}, {"type": "Linear", "out": 40}, {"type": "ReLU"},
    {"type": "Dropout", "p": 0.2}, {"type": "Linear", "out": 10}]})";

Config config_in(const std::string& dir) {
  Config c = recipe(dir);
  c.model = dir + "/net.json";
  c.batch_size = 32;
  c.max_steps = 9;
  c.shards = 8;
  c.optimizer = "adamw";
  c.clip_grad_norm = 0.5;
  c.model_ema = 0.9;
  c.save_every = 4;
  c.output_dir = dir + "/run";
  return c;
}

// "1:1:20": process 1 is killed at the 20th collective behind its first meeting, when it lives for the first time.
void die_at(const std::string& dir, int number, int meeting, int collective) {
  std::istringstream deaths(std::getenv("STATES_DEATHS"));
  for (std::string death; deaths >> death;) {
    const std::string mark = dir + "/once-" + death;
    if (death != cat(number, ":", meeting, ":", collective) || std::filesystem::exists(mark)) continue;
    freight::testing::put(mark, "");
    ::raise(SIGKILL);
  }
}

class MortalComm final : public comm::Comm {
 public:
  MortalComm(std::unique_ptr<comm::Comm> comm, std::string dir, int number, int meeting)
      : comm_(std::move(comm)), dir_(std::move(dir)), number_(number), meeting_(meeting) {}
  int rank() const override { return comm_->rank(); }
  int world() const override { return comm_->world(); }
  bool over_network() const override { return comm_->over_network(); }
  void all_reduce(void* data, int64_t count, DType dtype) override { next().all_reduce(data, count, dtype); }
  void reduce_scatter(const void* from, void* to, int64_t count, DType dtype) override {
    next().reduce_scatter(from, to, count, dtype);
  }
  void all_gather(const void* from, void* to, int64_t count, DType dtype) override {
    next().all_gather(from, to, count, dtype);
  }
  void broadcast(void* data, int64_t count, DType dtype, int root) override {
    next().broadcast(data, count, dtype, root);
  }
  void barrier() override { next().barrier(); }
  void abort(const std::string& reason) noexcept override { comm_->abort(reason); }
  void at_step(int64_t step) override { comm_->at_step(step); }
  std::vector<double> waited() const override { return comm_->waited(); }

 private:
  comm::Comm& next() {
    die_at(dir_, number_, meeting_, ++collectives_);
    return *comm_;
  }

  std::unique_ptr<comm::Comm> comm_;
  const std::string dir_;
  const int number_, meeting_;
  int collectives_ = 0;
};

class MortalMembership final : public comm::Membership {
 public:
  MortalMembership(std::unique_ptr<comm::Membership> members, std::string dir)
      : members_(std::move(members)), dir_(std::move(dir)) {}
  int number() const override { return members_->number(); }
  int most() const override { return members_->most(); }
  void need_same(uint64_t identity) override { members_->need_same(identity); }
  std::unique_ptr<comm::Comm> meet(double timeout) override {
    auto comm = members_->meet(timeout);
    events_ = members_->events();
    return std::make_unique<MortalComm>(std::move(comm), dir_, number(), ++meetings_);
  }
  void settle() override { members_->settle(); }
  bool called() const override { return members_->called(); }
  void did_step() override { members_->did_step(); }
  void end_job(const std::string& why) override { members_->end_job(why); }
  bool began() const override { return members_->began(); }
  void begin() override { members_->begin(); }

 private:
  std::unique_ptr<comm::Membership> members_;
  const std::string dir_;
  int meetings_ = 0;
};

TEST(ElasticStatesProcess, DISABLED_TrainsWithTheOthers) {
  const std::string dir = std::getenv("STATES_DIR");
  Ranks ranks(std::make_unique<MortalMembership>(comm::Membership::of_process(comm::read_launch_environment()), dir),
              20);
  ranks.share_states(1);
  try {
    PreparedRun run = prepare(config_in(dir), {.ranks = &ranks});
    Observer silent;
    run.run(silent);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::peer_lost) throw;
    freight::testing::put(cat(dir, "/over-", ranks.members()->number()), e.what());
    std::_Exit(static_cast<int>(e.kind()));
  }
}

class ElasticStates : public ::testing::Test {
 protected:
  ElasticStates() {
    test::write_small_digits(dir_.path());
    freight::testing::put(dir_ / "net.json", kNet);
    Config c = config_in(dir_.path());
    c.output_dir = dir_ / "undisturbed";
    Observer silent;
    train(c, silent);
    undisturbed_ = read_text(dir_ / "undisturbed/model.safetensors");
  }
  JobEnd run(const std::string& deaths) {
    std::filesystem::remove_all(dir_ / "run");
    for (const auto& e : std::filesystem::directory_iterator(dir_.path())) {
      if (starts_with(e.path().filename().string(), "once-")) std::filesystem::remove(e.path());
    }
    ::setenv("STATES_DIR", dir_.path().c_str(), 1);
    ::setenv("STATES_DEATHS", deaths.c_str(), 1);
    return comm::run_job({.command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "--gtest_also_run_disabled_tests", "--gtest_filter=ElasticStatesProcess.*"},
                          .world = kRanks,
                          .log_dir = dir_ / "logs",
                          .grace = 1,
                          .elastic = {1, kRanks}});
  }
  void expect_undisturbed(const std::string& deaths) {
    const JobEnd end = run(deaths);
    ASSERT_FALSE(end.failed()) << deaths << ": " << to_string(end) << "\n" << read_text(end.log);
    EXPECT_TRUE(read_text(dir_ / "run/model.safetensors") == undisturbed_) << deaths;
  }
  bool died(const std::string& death) const { return std::filesystem::exists(dir_ / ("once-" + death)); }

  const TemporaryDir dir_;
  std::string undisturbed_;
};

bool is_long_run() { return std::getenv("FREIGHT_LONG") != nullptr; }

// A step has about seven collectives: sums, numbers, and new weights from each rank. The first ones are the meeting's.
TEST_F(ElasticStates, ARankThatIsKilledAtAnyCollectiveTakesNoStateAlong) {
  int deaths = 0;
  for (int at = 2; at < 45; at += is_long_run() ? 1 : 3) {
    const std::string death = cat(at % kRanks, ":1:", at);
    expect_undisturbed(death);
    deaths += died(death) ? 1 : 0;
  }
  EXPECT_GE(deaths, is_long_run() ? 40 : 13);
}

TEST_F(ElasticStates, ARankThatIsKilledWhileStatesAreDealtAnewTakesNoneAlong) {
  int deaths = 0;
  for (int at = 1; at < 16; at += is_long_run() ? 1 : 4) {
    const std::string second = cat("3:2:", at);
    expect_undisturbed("1:1:22 " + second);
    deaths += died(second) ? 1 : 0;
  }
  EXPECT_GE(deaths, is_long_run() ? 12 : 3);
}

TEST_F(ElasticStates, TwoRanksThatShareNoStateMayBeLostAtOnce) { expect_undisturbed("0:1:23 2:1:23"); }

TEST_F(ElasticStates, TheLossOfBothRanksThatKeptAStateEndsTheRunByName) {
  const JobEnd end = run("1:1:23 2:1:23");
  EXPECT_TRUE(end.failed());
  EXPECT_EQ(end.exit_code, 7) << to_string(end);
  const std::string said = read_text(dir_ / "over-0");
  for (const char* part : {"rank 1 was killed by signal 9", "rank 2 was killed by signal 9",
                           "both ranks that kept the optimizer's states of ", "--resume"}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run/model.safetensors"));
}

}  // namespace
}  // namespace freight::train
