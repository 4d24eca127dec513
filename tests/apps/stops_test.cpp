// A run that is stopped by signals in every phase, or killed at any moment, goes on to the weights of the run that was
// not. The long form of the last test: FREIGHT_TEST_KILLS=50 test_apps --gtest_filter='*Killed*'.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "freight/base/philox.h"
#include "freight/train/checkpoint.h"
#include "rank_processes.h"
#include "tests/support/small_digits.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;

class Stops : public ::testing::Test {
 protected:
  Stops() : dir_(scratch_dir()) {
    write_idx_split(dir_, "train", data::draw_digits(0, 640));
    write_idx_split(dir_, "t10k", data::draw_digits(20000, 3000));
  }
  // A run into dir/NAME that goes on where there is one.
  std::vector<std::string> args(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> all = {
        "train", dir_, "--model",         "mlp",    "-b", "16",       "--flip", "--momentum", "0.9",     "--lr",
        "0.01",  "-q", "--deterministic", "--keep", "2",  "--resume", "auto",   "-o",         path(name)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::string weights(const std::string& name) const { return read_file(path(name) + "/model.safetensors"); }

  std::string dir_;
};

// Whether the process has a handler for the signal.
bool handles(int pid, int signal) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/status");
  const size_t at = status.find("SigCgt:");
  return at != std::string::npos && (std::strtoull(status.c_str() + at + 7, nullptr, 16) >> (signal - 1) & 1);
}

TEST_F(Stops, InEveryPhaseASignalSavesAndTheRunGoesOn) {
  const std::vector<std::string> more = {"--epochs", "3", "--save-every", "10"};
  ASSERT_EQ(run_freight(args("whole", more)).code, 0);
  const std::string whole = weights("whole");
  struct Phase {
    const char* name;
    std::function<bool(const std::string& run, int pid)> begun;
  };
  const Phase phases[] = {
      {"start-up", [](const std::string&, int pid) { return handles(pid, SIGUSR1); }},
      {"training", [](const std::string& run, int) { return newest_step(run) >= 20; }},
      {"evaluation",
       [](const std::string& run, int) {
         return fs::exists(run + "/metrics.jsonl") && fs::file_size(run + "/metrics.jsonl") > 0;
       }},
      {"saving",
       [](const std::string& run, int) {
         std::error_code none_yet;
         for (const auto& e : fs::directory_iterator(run + "/checkpoints", none_yet)) {
           if (e.path().filename().string()[0] == '.') return true;
         }
         return false;
       }},
  };
  for (const Phase& phase : phases) {
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
      const std::string name = std::string(phase.name) + "-" + std::to_string(signal);
      SCOPED_TRACE(name);
      Running running(args(name, more));
      EXPECT_TRUE(running.wait_until([&] { return phase.begun(path(name), running.pid()); }));
      running.send(signal);
      const Ran r = running.finish();
      EXPECT_EQ(r.code, signal == SIGUSR1 ? 0 : 128 + signal) << r.err;
      if (r.code != 0) {
        const Ran rest = run_freight(args(name, more));
        EXPECT_EQ(rest.code, 0) << rest.err;
      }
      EXPECT_TRUE(weights(name) == whole);
    }
  }
}

TEST_F(Stops, ASecondProcessInTheDirectoryOfARunIsRefusedByName) {
  const std::string run = path("one");
  Running first(args("one", {"--epochs", "100000"}));
  ASSERT_TRUE(first.wait_until([&] { return fs::exists(run + "/last/manifest.json"); }));
  const std::vector<std::string> ways[] = {{"-o", run},
                                           {"-o", run, "--overwrite"},
                                           {"-o", run, "--resume", "auto"},
                                           {"--resume", run},
                                           {"-o", run, "--resume", "auto", "--overwrite"}};
  for (const std::vector<std::string>& way : ways) {
    std::vector<std::string> all = {"train", dir_, "--model", "mlp", "-b", "16", "-q", "--epochs", "1"};
    all.insert(all.end(), way.begin(), way.end());
    const Ran second = run_freight(all);
    EXPECT_EQ(second.code, 2) << second.err;
    for (const std::string& part : {std::string("in use by process "), std::to_string(first.pid()), run}) {
      EXPECT_NE(second.err.find(part), std::string::npos) << second.err;
    }
  }
  first.send(SIGTERM);
  const Ran r = first.finish();
  EXPECT_EQ(r.code, 128 + SIGTERM) << r.err;
  EXPECT_FALSE(fs::exists(run + "/.lock"));
  EXPECT_EQ(
      run_freight({"train", dir_, "--model", "mlp", "-b", "16", "-q", "--overwrite", "-o", run, "--epochs", "1"}).code,
      0);
}

// A step of bench compare may take seconds, and there is nothing to save.
TEST_F(Stops, BenchCompareEndsAtOnce) {
  Running bench({"bench", "compare", "--model", "vgg16", "--devices", "cpu", "--batches", "8", "--seconds", "1"});
  ASSERT_TRUE(bench.wait_for("batch 8"));
  const auto start = std::chrono::steady_clock::now();
  bench.send(SIGTERM);
  EXPECT_EQ(bench.finish().code, 128 + SIGTERM);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 2);
}

// Killed at random moments, also while a checkpoint is written: whatever checkpoint is there is intact, and the run
// goes on from it. Each part is let come some checkpoints further, however slow the machine is, but the first: that is
// killed while it starts.
TEST_F(Stops, KilledAgainAndAgainARunEndsAsOneThatWasNot) {
  const char* wanted = std::getenv("FREIGHT_TEST_KILLS");
  const int kills = wanted ? std::max(1, std::atoi(wanted)) : 6;
  constexpr int kEvery = 4;  // steps from checkpoint to checkpoint; an epoch has 40
  const std::string epochs = std::to_string(3 * kills);
  const std::vector<std::string> more = {"--epochs",     epochs, "--save-every", std::to_string(kEvery),
                                         "--eval-every", epochs};
  ASSERT_EQ(run_freight(args("whole", more)).code, 0);
  PhiloxStream draw(17, 0, 0);
  int64_t step = 0;
  for (int i = 0; i < kills; ++i) {
    const int64_t checkpoints = i == 0 ? 0 : 1 + draw.below(8);  // a third of what there is: no part comes to the end
    Running running(args("parts", more));
    EXPECT_TRUE(waited_for_step(running, path("parts"), step + kEvery * checkpoints));
    usleep(static_cast<useconds_t>(draw.below(4000)));
    running.send(SIGKILL);
    EXPECT_EQ(running.finish().code, 128 + SIGKILL);
    const train::Found found = train::find_checkpoint("auto", path("parts"));
    EXPECT_TRUE(found.warnings.empty()) << found.warnings[0];
    if (i == 0 && !found.checkpoint) continue;
    ASSERT_TRUE(found.checkpoint);
    EXPECT_GE(found.checkpoint->place.step, step + kEvery * checkpoints);
    step = found.checkpoint->place.step;
  }
  const Ran last = run_freight(args("parts", more));
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_TRUE(weights("whole") == weights("parts"));
  for (const auto& e : fs::directory_iterator(path("parts") + "/checkpoints")) {
    EXPECT_NE(e.path().filename().string()[0], '.') << e.path();  // nothing half-written is left
  }
}

}  // namespace
}  // namespace freight::test
