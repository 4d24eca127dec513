// A run that stops and goes on is the run that never stopped: weights and metrics to the bit, wherever it was stopped.
// And what is refused: damaged checkpoints, other data, another configuration.
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "freight/data/catalog.h"
#include "freight/io/safetensors.h"
#include "freight/job/signals.h"
#include "freight/train/checkpoint.h"
#include "freight/train/run_dir.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"
#include "tests/support/small_digits.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

constexpr const char* kNet = R"({"format": "freight-model-1", "name": "net", "input": [1, 28, 28],
  "net": {"type": "Sequential", "layers": [
    {"type": "Conv2d", "in": 1, "out": 4, "kernel": 3, "stride": 2}, {"type": "BatchNorm2d", "channels": 4},
    {"type": "ReLU"}, {"type": "Flatten"}, {"type": "Dropout", "p": 0.3},
    {"type": "Linear", "in": 676, "out": 16}, {"type": "ReLU"}, {"type": "Linear", "in": 16, "out": 10}]}})";

// Asks to stop after a number of steps of this process, or in the midst of an evaluation.
struct Stopper : Observer {
  explicit Stopper(int64_t after, bool evaluating = false) : steps(after), in_evaluation(evaluating) {}
  bool wants_step() override {
    if (!in_evaluation && --steps == 0) raise(SIGTERM);
    return false;
  }
  void on_evaluation_progress(int64_t, int64_t) override {
    if (in_evaluation && --steps == 0) raise(SIGTERM);
  }
  void on_start(const RunSummary& s) override { notes = s.notes; }
  int64_t steps;
  bool in_evaluation;
  std::vector<std::string> notes;
};

class Resume : public ::testing::Test {
 protected:
  Resume() {
    signals::install();
    signals::reset();
    test::write_small_digits(dir_.path());
    io::write_file_atomic(dir_ / "net.json", std::string_view(kNet));
    config_ = recipe(dir_.path());
    config_.model = dir_ / "net.json";
    config_.batch_size = 32;  // 20 steps an epoch
    config_.epochs = 5;
    config_.lr = 0.02;
    config_.momentum = 0.9;
    config_.lr_scheduler = "onecycle";
    config_.deterministic = true;
    config_.flip = true;
    config_.crop_padding = 2;
    config_.mixup_alpha = 0.2;
    config_.workers = 2;
  }
  ~Resume() override { signals::reset(); }

  Config at(const std::string& run) const {
    Config c = config_;
    c.output_dir = dir_ / run;
    return c;
  }
  Result run(const Config& c, int64_t stop_after = -1, bool in_evaluation = false) {
    signals::reset();
    Stopper observer(stop_after, in_evaluation);
    const Result r = train(c, observer);
    notes_ = join(observer.notes, "\n");
    signals::reset();
    return r;
  }
  Result go_on(Config c, int64_t stop_after = -1, bool in_evaluation = false) {
    c.resume = "auto";
    return run(c, stop_after, in_evaluation);
  }
  // Step, epoch, split, loss, top1 and rate of each whole epoch.
  std::vector<std::string> metrics(const std::string& run) const {
    std::vector<std::string> rows;
    for (const std::string& line : split(read_text(dir_ / (run + "/metrics.jsonl")), '\n')) {
      const auto j = nlohmann::json::parse(line, nullptr, false);
      if (!j.is_object() || (j["split"] == "train" && j["step"].get<int64_t>() % 20 != 0)) continue;
      rows.push_back(cat(j["step"].dump(), " ", j["split"].dump(), " ", j["loss"].dump(), " ", j["top1"].dump(), " ",
                         j["lr"].dump()));
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  }
  void expect_equal(const std::string& a, const std::string& b) {
    EXPECT_EQ(read_text(dir_ / (a + "/model.safetensors")), read_text(dir_ / (b + "/model.safetensors")));
    EXPECT_EQ(metrics(a), metrics(b));
  }
  // A whole run, and one that is stopped after `steps`.
  void check(int64_t steps, bool in_evaluation = false) {
    run(at("whole"));
    EXPECT_TRUE(run(at("parts"), steps, in_evaluation).interrupted());
    const Result r = go_on(at("parts"));
    EXPECT_FALSE(r.interrupted());
    EXPECT_EQ(r.steps, 100);
    EXPECT_NE(notes_.find("resumed from"), std::string::npos) << notes_;
    expect_equal("whole", "parts");
  }

  TemporaryDir dir_;
  Config config_;
  std::string notes_;
};

TEST_F(Resume, InTheMidstOfAnEpoch) { check(50); }
TEST_F(Resume, AtTheEndOfAnEpochBeforeItsEvaluation) { check(40); }
TEST_F(Resume, InTheMidstOfAnEvaluation) { check(2, true); }

TEST_F(Resume, TheRowOfAPartOfAnEpochGivesWayToThatOfTheWhole) {
  // Of each file: how often an epoch's training has a row.
  const auto rows_of = [&](const std::string& epoch) {
    int64_t json_rows = 0, csv_rows = 0;
    for (const std::string& line : split(read_text(dir_ / "parts/metrics.jsonl"), '\n')) {
      const auto j = nlohmann::json::parse(line, nullptr, false);
      json_rows += j.is_object() && j["split"] == "train" && j["epoch"].get<double>() == std::stod(epoch);
    }
    for (const std::string& line : split(read_text(dir_ / "parts/metrics.csv"), '\n')) {
      const std::vector<std::string> cells = split(line, ',');
      csv_rows += cells.size() > 2 && cells[1] == epoch && cells[2] == "train";
    }
    return std::pair(json_rows, csv_rows);
  };
  config_.epochs = 3;
  run(at("parts"), 30);
  EXPECT_EQ(rows_of("2"), std::pair(int64_t{1}, int64_t{1})) << "of the part";
  go_on(at("parts"), 5);
  EXPECT_EQ(rows_of("2"), std::pair(int64_t{1}, int64_t{1})) << "of a longer part";
  go_on(at("parts"));
  for (const char* epoch : {"1", "2", "3"}) EXPECT_EQ(rows_of(epoch), std::pair(int64_t{1}, int64_t{1})) << epoch;
  EXPECT_EQ(read_text(dir_ / "parts/metrics.csv").rfind("step,epoch,split", 0), 0u);
  const std::string before = read_text(dir_ / "parts/metrics.csv");
  go_on(at("parts"));  // complete: nothing is trained, and no row goes
  EXPECT_EQ(read_text(dir_ / "parts/metrics.csv"), before);
}

TEST_F(Resume, WithAveragesAndPartsOfBatches) {
  config_.model_ema = 0.9;
  config_.grad_accum = 2;
  config_.clip_grad_norm = 1;
  check(33);
}

TEST_F(Resume, ACheckpointsModelHasTheAveragesThatWereMeasured) {
  config_.model_ema = 0.9;
  run(at("whole"));
  const io::SafeTensors last = io::load_safetensors(dir_ / "whole/last/model.safetensors");
  const io::SafeTensors result = io::load_safetensors(dir_ / "whole/model.safetensors");
  ASSERT_EQ(last.tensors.size(), result.tensors.size());
  for (const auto& [name, values] : result.tensors) {
    const Array* stored = last.find(name);
    ASSERT_TRUE(stored) << name;
    EXPECT_EQ(std::memcmp(stored->raw(), values.raw(), values.bytes()), 0) << name;
  }
}

TEST_F(Resume, OfEveryOptimizer) {
  for (const char* name : {"adam", "adamw", "lion", "rmsprop", "muon", "adagrad", "nadam"}) {
    SCOPED_TRACE(name);
    config_.optimizer = name;
    config_.lr = 0.002;
    config_.overwrite = true;
    run(at("whole"));
    run(at("parts"), 50);
    config_.overwrite = false;
    go_on(at("parts"));
    expect_equal("whole", "parts");
  }
}

TEST_F(Resume, WithLossScalingOnTheReferenceBackend) {
  config_.backend = "ref";
  config_.precision = "fp16";
  config_.model = "mlp";
  config_.epochs = 1;
  run(at("whole"));
  run(at("parts"), 7);
  go_on(at("parts"));
  expect_equal("whole", "parts");
}

TEST_F(Resume, ManyTimesWithAnotherNumberOfWorkers) {
  run(at("whole"));
  Config c = at("parts");
  run(c, 7);
  for (const int workers : {0, 1, 3, 2}) {
    c.workers = workers;
    go_on(c, 11);
  }
  go_on(c);
  expect_equal("whole", "parts");
}

TEST_F(Resume, AfterTheLastStepSaysThatTheRunIsComplete) {
  const Result whole = run(at("whole"));
  const std::string model = read_text(dir_ / "whole/model.safetensors");
  const Result again = go_on(at("whole"));
  EXPECT_NE(notes_.find("the run is complete: 100 steps"), std::string::npos) << notes_;
  EXPECT_EQ(again.steps, 100);
  EXPECT_EQ(again.test.top1, whole.test.top1);
  EXPECT_EQ(read_text(dir_ / "whole/model.safetensors"), model);
}

TEST_F(Resume, ALongerRunGoesOnWhereTheShorterEnded) {
  config_.lr_scheduler = "constant";
  config_.max_steps = 70;
  run(at("whole"));
  config_.max_steps = 30;
  run(at("parts"));
  config_.max_steps = 70;
  go_on(at("parts"));
  EXPECT_EQ(read_text(dir_ / "whole/model.safetensors"), read_text(dir_ / "parts/model.safetensors"));
}

TEST_F(Resume, IntoAnotherDirectoryLeavesTheFirstAsItWas) {
  run(at("whole"));
  run(at("parts"), 50);
  const std::string before = read_text(dir_ / "parts/metrics.jsonl");
  Config c = at("rest");
  c.resume = dir_ / "parts/checkpoints/step-50";
  run(c);
  EXPECT_EQ(read_text(dir_ / "whole/model.safetensors"), read_text(dir_ / "rest/model.safetensors"));
  EXPECT_EQ(read_text(dir_ / "parts/metrics.jsonl"), before);
}

TEST_F(Resume, RowsBehindTheCheckpointAreTakenBack) {
  run(at("parts"), 40);
  const std::string before = read_text(dir_ / "parts/metrics.csv");
  io::write_file_atomic(dir_ / "parts/metrics.csv", std::string_view(before + "61,4,train,1,2,3,4,5,6,7,8\n"));
  Config c = at("parts");
  c.resume = c.output_dir;
  run(c, 1);
  EXPECT_EQ(read_text(dir_ / "parts/metrics.csv").find("\n61,4,train,1,2"), std::string::npos);
  EXPECT_EQ(read_text(dir_ / "parts/metrics.csv").rfind(before, 0), 0u);
}

TEST_F(Resume, OfADamagedCheckpointOffersTheOneBefore) {
  run(at("parts"), 50);
  const std::string newest = dir_ / "parts/checkpoints/step-50", before = dir_ / "parts/checkpoints/step-40";
  for (const char* name : {"state.safetensors", "model.safetensors"}) {
    const std::string file = newest + "/" + name, good = read_text(file);
    std::string bad = good;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 4);
    io::write_file_atomic(file, std::string_view(bad));
    Config c = at("parts");
    c.resume = c.output_dir;
    expect_error(ErrorKind::checkpoint, {name, "XXH3 differs", "--resume", before}, [&] { run(c); });
    io::write_file_atomic(file, std::string_view(good).substr(0, good.size() - 9));
    expect_error(ErrorKind::checkpoint, {name, "size differs", before}, [&] { run(c); });
    std::filesystem::remove(file);
    expect_error(ErrorKind::checkpoint, {name, "missing", before}, [&] { run(c); });
    const Found found = find_checkpoint("auto", c.output_dir);
    ASSERT_TRUE(found.checkpoint);
    EXPECT_EQ(found.checkpoint->place.step, 40);
    ASSERT_EQ(found.warnings.size(), 1u);
    EXPECT_NE(found.warnings[0].find(name), std::string::npos);
    io::write_file_atomic(file, std::string_view(good));
  }
  io::write_file_atomic(newest + "/manifest.json", std::string_view("{"));
  expect_error(ErrorKind::checkpoint, {"manifest.json", before}, [&] { find_checkpoint(dir_ / "parts", ""); });
}

TEST_F(Resume, ACheckpointOfAnUnknownFormatIsRefusedByItsFormat) {
  run(at("parts"), 50);
  const std::string path = dir_ / "parts/checkpoints/step-50/manifest.json";
  nlohmann::json manifest = nlohmann::json::parse(read_text(path));
  EXPECT_EQ(manifest["format"], "freight-checkpoint-3");
  manifest["format"] = "no-such-format";
  io::write_file_atomic(path, std::string_view(manifest.dump()));
  expect_error(ErrorKind::checkpoint,
               {"manifest.json", "expected an object with format freight-checkpoint-3, got format `no-such-format`"},
               [&] { find_checkpoint(dir_ / "parts", ""); });
}

TEST_F(Resume, WhatIsDrawnBetweenPreparingAndRunningChangesNothing) {
  run(at("whole"));
  PreparedRun prepared = prepare(at("later"));
  Config other = at("other");
  other.seed = 7;
  other.epochs = 1;
  run(other);
  Observer silent;
  prepared.run(silent);
  expect_equal("whole", "later");
}

TEST_F(Resume, OfARunThatOffloadsIsPlannedBeforeItIsRestored) {
  config_.offload = "optimizer";
  run(at("whole"));
  run(at("parts"), 50);
  Config c = at("parts");
  c.resume = "auto";
  PreparedRun prepared = prepare(c);
  prepared.plan_within({});
  prepared.restore();
  expect_error(ErrorKind::usage, {"plan before"}, [&] { prepared.plan_within({}); });
  Observer silent;
  EXPECT_EQ(prepared.run(silent).steps, 100);
  expect_equal("whole", "parts");
}

TEST_F(Resume, FromWhatWasFoundBeforeDoesNotLookAgain) {
  run(at("parts"), 50);
  Config c = at("parts");
  c.resume = c.output_dir;
  Found found = find_checkpoint(c.resume, "");
  std::filesystem::remove_all(dir_ / "parts/checkpoints/step-50");
  Stopper observer(-1);
  EXPECT_EQ(train(c, observer, {.found = std::move(found)}).steps, 100);
}

// The first error says what went wrong; that run.json cannot say so, too, is a consequence.
TEST_F(Resume, AnErrorWhileAFailureIsRecordedDoesNotTakeItsPlace) {
  struct Failing : Observer {
    std::string run;
    void on_start(const RunSummary& s) override {
      run = s.output_dir;
      std::filesystem::remove(run + "/run.json");
      std::filesystem::create_directories(run + "/run.json/full");
      fail(ErrorKind::diverged, "first", "the cause");
    }
  } observer;
  expect_error(ErrorKind::diverged, {"first: the cause"}, [&] { train(at("parts"), observer); });
  EXPECT_NE(read_text(dir_ / "parts/log.txt").find("the failure is not recorded: "), std::string::npos);
}

TEST_F(Resume, WhatIsNoErrorOfOursIsRecordedToo) {
  struct Failing : Observer {
    void on_start(const RunSummary&) override { throw std::bad_alloc(); }
  } observer;
  EXPECT_THROW(train(at("parts"), observer), std::bad_alloc);
  const auto j = nlohmann::json::parse(read_text(dir_ / "parts/run.json"));
  EXPECT_EQ(j["status"], "failed");
  EXPECT_EQ(j["exit_code"], 5);
}

// A row whose step is no number ended a resume with the words of a library.
TEST_F(Resume, RowsOfMetricsThatAreNoneAreLeftOut) {
  run(at("parts"), 40);
  const std::string path = dir_ / "parts/metrics.jsonl", good = read_text(path);
  std::string deep = "{\"step\":" + std::string(100'000, '[');
  io::write_file_atomic(path, std::string_view(good + "{\"step\":{},\"split\":\"train\"}\n" + deep + "\n[]\n"));
  go_on(at("parts"));
  EXPECT_EQ(read_text(path).find("{}"), std::string::npos);
  EXPECT_EQ(read_text(path).rfind(good, 0), 0u);
}

// It is written anew, but not in silence.
TEST_F(Resume, ADamagedRecordIsNamed) {
  struct Warnings : Observer {
    std::vector<std::string> said;
    void on_start(const RunSummary& summary) override { said = summary.warnings; }
  };
  const struct {
    const char *run, *content, *part;
  } kCases[] = {{"cut", "{\"a\":", "not valid JSON"}, {"list", "[1]", "not a JSON object"}};
  for (const auto& [name, content, part] : kCases) {
    run(at(name), 90);
    const std::string path = dir_ / (std::string(name) + "/run.json");
    io::write_file_atomic(path, std::string_view(content));
    Config c = at(name);
    c.resume = "auto";
    Warnings warnings;
    train(c, warnings);
    const std::string said = join(warnings.said, "\n");
    EXPECT_NE(said.find(cat(path, " is damaged: ", part)), std::string::npos) << said;
    EXPECT_EQ(nlohmann::json::parse(read_text(path))["status"], "complete");
  }
}

TEST_F(Resume, WhatWouldBeAnotherRunIsRefused) {
  run(at("parts"), 5);
  const auto refused = [&](ErrorKind kind, const std::vector<std::string>& parts, auto change) {
    Config c = at("parts");
    c.resume = "auto";
    change(c);
    expect_error(kind, parts, [&] { run(c); });
  };
  refused(ErrorKind::usage, {"--batch-size", "16", "32", "--weights"}, [](Config& c) { c.batch_size = 16; });
  refused(ErrorKind::usage, {"--optimizer", "adam", "sgd"}, [](Config& c) { c.optimizer = "adam"; });
  refused(ErrorKind::usage, {"--resume", "no-such"}, [](Config& c) { c.resume = "no-such"; });
  refused(ErrorKind::usage,
          {"--resume", "no checkpoint to resume from", dir_.path(), "--resume auto, which starts over"},
          [&](Config& c) { c.resume = dir_.path(); });
  test::write_idx_split(dir_.path(), "train", data::draw_digits(7, 640));
  refused(ErrorKind::checkpoint, {"fingerprint"}, [](Config&) {});
}

TEST_F(Resume, AnEarlierCheckpointSetsTheLaterOnesAside) {
  Config c = at("parts");
  c.save_every = 10;
  run(c, 50);
  const auto lies = [&](const std::string& name) { return std::filesystem::exists(dir_ / ("parts/" + name)); };
  ASSERT_TRUE(lies("checkpoints/step-50"));
  c.resume = dir_ / "parts/checkpoints/step-40";
  run(c, 1);
  EXPECT_FALSE(lies("checkpoints/step-50"));
  EXPECT_TRUE(lies("checkpoints/set-aside/step-50/model.safetensors"));
  EXPECT_TRUE(lies("checkpoints/step-41"));
  EXPECT_TRUE(lies("last/model.safetensors"));
  EXPECT_EQ(find_checkpoint(dir_ / "parts", "").checkpoint->place.step, 41);
  EXPECT_NE(read_text(dir_ / "parts/log.txt").find("moved: "), std::string::npos);
}

TEST_F(Resume, CheckpointsByTimeAreWrittenWithinAnEpoch) {
  Config c = at("parts");
  c.save_seconds = 1e-6;  // after each step
  c.keep = 0;
  run(c, 15);
  for (const int step : {1, 7, 14}) {
    EXPECT_TRUE(std::filesystem::exists(dir_ / cat("parts/checkpoints/step-", step, "/model.safetensors"))) << step;
  }
  run(at("whole"));
  go_on(c);
  expect_equal("whole", "parts");
}

TEST_F(Resume, AutoStopsWhereEveryCheckpointIsDamaged) {
  run(at("parts"), 5);
  for (const std::string& path : checkpoints_of(dir_ / "parts")) {
    io::write_file_atomic(path + "/state.safetensors", std::string_view("x"));
  }
  expect_error(ErrorKind::checkpoint, {"no checkpoint is intact", "state.safetensors", "--overwrite"},
               [&] { go_on(at("parts")); });
}

TEST_F(Resume, AutoBeginsAnewWhereARunWasKilledBeforeItsFirstCheckpoint) {
  config_.epochs = 1;
  { const RunDir killed(dir_ / "new", false); }
  EXPECT_EQ(go_on(at("new")).steps, 20);
  // Its first file is there before, and what its ranks print.
  std::filesystem::create_directories(dir_ / "first/ranks");
  RunDir::add_to_log(dir_ / "first", "rank 1 was killed");
  EXPECT_TRUE(RunDir::is_empty(dir_ / "first"));
  io::write_file_atomic(dir_ / "first/metrics.jsonl", std::string_view());
  EXPECT_EQ(go_on(at("first")).steps, 20);
  // But not where a model or a checkpoint would be lost, or where the files are no run's.
  std::filesystem::remove_all(dir_ / "new/checkpoints");
  expect_error(ErrorKind::usage, {"not empty"}, [&] { go_on(at("new")); });
  std::filesystem::create_directories(dir_ / "other");
  io::write_file_atomic(dir_ / "other/log.txt", std::string_view("mine"));
  expect_error(ErrorKind::usage, {"not empty"}, [&] { go_on(at("other")); });
}

TEST_F(Resume, AutoWithoutARunBeginsOne) {
  config_.epochs = 1;
  EXPECT_EQ(go_on(at("new")).steps, 20);
  EXPECT_NE(notes_.find("nothing to resume"), std::string::npos) << notes_;
}

}  // namespace
}  // namespace freight::train
