// The directory of a run: whom it belongs to, and which checkpoints stay.
#include "freight/train/run_dir.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

store::Bundle tiny_bundle() {
  store::Bundle b;
  b.model = models::from_spec(
      R"({"format": "freight-model-1", "name": "tiny", "input": [4], "net": {"type": "Linear", "out": 2}})");
  b.preprocessing = {{4}, {}, {}};
  b.classes = {"a", "b"};
  return b;
}

RunState at(int64_t step) {
  RunState s;
  s.place.step = step;
  return s;
}

TEST(RunDir, ADirectoryThatHoldsSomethingIsRefused) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "notes.txt", std::string_view("mine"));
  expect_error(ErrorKind::usage, {"--output-dir", dir.path(), "not empty", "--overwrite"},
               [&] { RunDir(dir.path(), false); });
  EXPECT_EQ(dir.entries(), 1u);
}

TEST(RunDir, IsNamedAfterTheModelAndTheDataWhateverEndsTheirPath) {
  Config c;
  c.model = "specs/my_net.json";
  for (const char* data : {"photos", "photos/", "sets/photos//", "./photos/."}) {
    c.data = data;
    EXPECT_EQ(usual_dir(c), "runs/my_net-photos") << data;
  }
}

TEST(RunDir, AFileInItsPlaceIsRefused) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "f", std::string_view("mine"));
  expect_error(ErrorKind::usage, {"f", "not a directory"}, [&] { RunDir(dir / "f", true); });
  expect_error(ErrorKind::runtime, {"f/run"}, [&] { RunDir(dir / "f/run", true); });
  EXPECT_EQ(read_text(dir / "f"), "mine");
}

TEST(RunDir, OverwriteReplacesOnlyTheFilesOfARun) {
  const TemporaryDir dir;
  {
    RunDir run(dir / "run", false);
    run.checkpoint(tiny_bundle(), at(1), true, {.keep = 3});
    run.write_text("run.json", "{}");
    run.log("old");
    run.append_text("bad_samples.tsv", "old\tbad\n");
  }
  io::write_file_atomic(dir / "run/notes.txt", std::string_view("mine"));
  const RunDir again(dir / "run", true);
  EXPECT_EQ(read_text(dir / "run/notes.txt"), "mine");
  EXPECT_EQ(read_text(dir / "run/log.txt"), "");
  for (const char* gone : {"run.json", "bad_samples.tsv", "checkpoints", "last", "best"}) {
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(dir / (cat("run/", gone))))) << gone;
  }
}

TEST(RunDir, AppendedTextIsThereAtOnceAndAFullDiskIsAnError) {
  const TemporaryDir dir;
  RunDir run(dir / "run", false);
  run.append_text("bad_samples.tsv", "a\tx\n");
  EXPECT_EQ(read_text(dir / "run/bad_samples.tsv"), "a\tx\n");
  run.append_text("bad_samples.tsv", "b\ty\n");
  EXPECT_EQ(read_text(dir / "run/bad_samples.tsv"), "a\tx\nb\ty\n");
  if (!io::file_exists("/dev/full")) GTEST_SKIP() << "/dev/full is missing here";
  std::filesystem::create_symlink("/dev/full", dir / "run/full.tsv");
  expect_error(ErrorKind::runtime, {"full.tsv", "No space"}, [&] { run.append_text("full.tsv", "a\tx\n"); });
}

TEST(RunDir, ACheckpointInPlaceIsWrittenWhenTheCallReturnsAndIsTheSame) {
  const TemporaryDir dir;
  RunDir run(dir / "run", false);
  const store::Bundle bundle = tiny_bundle();  // each is drawn anew
  run.checkpoint(bundle, at(1), false, {.keep = 0, .in_place = true});
  const std::string files[] = {"model.safetensors", "state.safetensors", "manifest.json"};
  std::vector<std::string> there;
  for (const std::string& f : files) there.push_back(read_text(dir / ("run/checkpoints/step-1/" + f)));
  run.checkpoint(bundle, at(1), false, {});
  run.settle();
  for (size_t i = 0; i < there.size(); ++i) {
    EXPECT_EQ(read_text(dir / ("run/checkpoints/step-1/" + files[i])), there[i]) << files[i];
  }
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(folder)) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(RunDir, WhatAKilledProcessLeftIsTakenAwayAtTheNextStart) {
  const TemporaryDir dir;
  const std::string run = dir / "run";
  RunDir(run, false).checkpoint(tiny_bundle(), at(4), false, {.keep = 0, .in_place = true});
  const std::vector<std::string> sound = names_in(run);
  for (const char* file : {"model.safetensors.tmp-1-0", "run.json.tmp-77-3", "last.new", "best.new"}) {
    io::write_file_atomic(cat(run, "/", file), std::string_view("left"));
  }
  for (const char* folder :
       {"checkpoints/.step-4.new", "checkpoints/.step-3.gone", "checkpoints/.step-4.old", ".checkpoints.gone/step-1"}) {
    std::filesystem::create_directories(cat(run, "/", folder));
  }
  io::write_file_atomic(run + "/notes.tmp-1-0", std::string_view("mine"));
  {
    const RunDir again(run, RunDir::GoesOn{.step = 4});
    EXPECT_EQ(names_in(run + "/checkpoints"), std::vector<std::string>{"step-4"});
  }
  std::vector<std::string> expected = sound, left = names_in(run);
  expected.emplace_back("notes.tmp-1-0");
  std::sort(expected.begin(), expected.end());
  const auto is_events = [](const std::string& n) { return n.find("tfevents") != std::string::npos; };
  std::erase_if(expected, is_events);
  std::erase_if(left, is_events);
  EXPECT_EQ(left, expected);
}

// The epoch was evaluated when the run was killed: its training goes on, and writes its row again.
TEST(RunDir, TheRowOfAnOpenEpochIsTakenBack) {
  const TemporaryDir dir;
  const std::string run = dir / "run";
  const auto splits = [&] {
    std::string all;
    for (const std::string& line : split(io::read_text(run + "/metrics.jsonl"), '\n')) {
      if (const auto row = io::from_json_line(line)) all += cat(row->split, " ", row->step, ", ");
    }
    return all;
  };
  {
    RunDir first(run, false);
    for (const int64_t epoch : {1, 2}) {
      for (const char* part : {"train", "test"}) {
        first.metrics().write({.step = 10 * epoch, .epoch = static_cast<double>(epoch), .split = part});
      }
    }
  }
  { const RunDir resumed(run, RunDir::GoesOn{.step = 20, .open_epoch = 2}); }
  EXPECT_EQ(splits(), "train 10, test 10, test 20, ");
}

// Where names cannot be exchanged, the old checkpoint of a step that is saved twice steps aside for a moment.
TEST(RunDir, AProcessThatWasKilledBetweenTwoRenamesLeavesACheckpointToGoOnFrom) {
  const TemporaryDir dir;
  const std::string run = dir / "run", step = run + "/checkpoints/step-4", old = run + "/checkpoints/.step-4.old";
  RunDir(run, false).checkpoint(tiny_bundle(), at(4), false, {.keep = 1, .in_place = true});
  for (const std::string& resume : {std::string("auto"), run}) {
    std::filesystem::rename(step, old);
    const Found found = find_checkpoint(resume, run);
    ASSERT_TRUE(found.checkpoint) << resume;
    EXPECT_EQ(found.checkpoint->place.step, 4);
    EXPECT_EQ(names_in(run + "/checkpoints"), std::vector<std::string>{"step-4"});
  }
}

TEST(RunDir, AStepSavedTwiceLeavesOneCheckpointThatIsTheSecond) {
  const TemporaryDir dir;
  RunDir run(dir / "run", false);
  RunState first = at(4), second = at(4);
  second.place.epoch = 2;
  for (const RunState& state : {first, second}) run.checkpoint(tiny_bundle(), state, false, {.keep = 1});
  run.settle();
  EXPECT_EQ(names_in(dir / "run/checkpoints"), std::vector<std::string>{"step-4"});
  EXPECT_EQ(find_checkpoint(dir / "run/checkpoints/step-4", dir / "other").checkpoint->place.epoch, 2);
}

// A limit on the size of files stands for the full disk.
TEST(RunDir, ASaveThatFailsLeavesNothingAndTheLastCheckpoint) {
  const TemporaryDir dir;
  RunDir run(dir / "run", false);
  run.checkpoint(tiny_bundle(), at(1), false, {.keep = 1, .in_place = true});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t most : {rlim_t{0}, rlim_t{100}, rlim_t{1000}}) {
    const rlimit small{most, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    for (const int64_t step : {1, 2}) {
      expect_error(ErrorKind::runtime, {"safetensors", "cannot write"},
                   [&] { run.checkpoint(tiny_bundle(), at(step), false, {.keep = 1, .in_place = true}); });
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(names_in(dir / "run/checkpoints"), std::vector<std::string>{"step-1"});
    EXPECT_NO_THROW(store::load_bundle(dir / "run/checkpoints/step-1/model.safetensors"));
  }
  ::signal(SIGXFSZ, handler);
}

TEST(RunDir, ASaveThatFailsInTheBackgroundIsToldByTheNextLook) {
  const TemporaryDir dir;
  RunDir run(dir / "run", false);
  EXPECT_NO_THROW(run.check_written());
  io::write_file_atomic(dir / "run/checkpoints", std::string_view("in the way"));
  run.checkpoint(tiny_bundle(), at(1), false, {.keep = 1});
  expect_error(ErrorKind::runtime, {"checkpoints"}, [&] {
    for (int i = 0; i < 10'000; ++i, ::usleep(1000)) run.check_written();
  });
  EXPECT_NO_THROW(run.check_written());
}

TEST(RunDir, KeepsTheLastCheckpointsAndTheBest) {
  const TemporaryDir dir;
  RunDir run(dir / "run", false);
  for (int64_t step = 1; step <= 12; ++step) run.checkpoint(tiny_bundle(), at(step), step == 2, {.keep = 3});
  run.settle();
  std::vector<std::string> left;
  for (const auto& e : std::filesystem::directory_iterator(dir / "run/checkpoints")) {
    left.push_back(e.path().filename().string());
  }
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"step-10", "step-11", "step-12", "step-2"}));
  EXPECT_EQ(std::filesystem::read_symlink(dir / "run/best"), "checkpoints/step-2");
  EXPECT_EQ(std::filesystem::read_symlink(dir / "run/last"), "checkpoints/step-12");
  EXPECT_NO_THROW(store::load_bundle(dir / "run/last/model.safetensors"));
}

}  // namespace
}  // namespace freight::train
