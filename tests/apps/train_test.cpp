// `freight train`, `eval`, `predict` as a user meets them: results, refusals, signals, full disks.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/backend/backend.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/io/image.h"
#include "freight/io/npy.h"
#include "freight/io/safetensors.h"
#include "run_command.h"
#include "tests/support/small_digits.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

std::string small_digits() {
  const std::string dir = scratch_dir();
  write_small_digits(dir);
  return dir;
}

// A model trained for a few steps; `dir` holds the data, the run goes to dir/run.
std::string trained(const std::string& dir) {
  const Ran r = run_freight({"train", dir, "--model", "mlp", "--epochs", "2", "-o", dir + "/run", "-q"});
  EXPECT_EQ(r.code, 0) << r.err;
  return dir + "/run/model.safetensors";
}

void expect_refused(const Ran& r, int code, const std::vector<std::string>& parts) {
  EXPECT_EQ(r.code, code) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err.find("Segmentation"), std::string::npos);
  for (const std::string& part : parts) EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
}

TEST(TrainCommand, ResumeTakesTheRunsOwnConfiguration) {
  const std::string dir = small_digits(), run = dir + "/run";
  trained(dir);
  const Ran more = run_freight({"train", "--resume", run, "--epochs", "3"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_NE(more.err.find("resumed from " + run), std::string::npos) << more.err;
  EXPECT_NE(more.err.find("model   mlp"), std::string::npos) << more.err;
  const Ran done = run_freight({"train", "--resume", run, "--epochs", "3"});
  EXPECT_NE(done.err.find("the run is complete: 30 steps"), std::string::npos) << done.err;
  expect_refused(run_freight({"train", "--resume", run, "--batch-size", "3"}), 2, {"--batch-size", "cannot change"});
  expect_refused(run_freight({"train", "--resume", ""}), 2, {"--resume", "empty"});
  const std::string weights = run + "/model.safetensors";
  expect_refused(run_freight({"train", "--resume", run, "--weights", weights}), 2, {"--weights", "--resume"});
  expect_refused(run_freight({"train", "--resume", run, "--overwrite"}), 2, {"--overwrite", "--resume"});
  const Ran both =
      run_freight({"train", dir + "/../" + std::filesystem::path(dir).filename().string() + "/.", "--model", "mlp",
                   "--epochs", "3", "-o", run, "--resume", "auto", "--weights", weights, "-q"});
  EXPECT_EQ(both.code, 0) << both.err;  // the data by another spelling, too
  EXPECT_NE(both.err.find("warning: --weights " + weights + " is not read"), std::string::npos) << both.err;
  expect_refused(run_freight({"train", "--resume", dir + "/nowhere"}), 2, {"--resume", "nowhere"});
  write_file(run + "/last/state.safetensors", "no");
  expect_refused(run_freight({"train", "--resume", run}), 8,
                 {"state.safetensors", "the one before is intact", "step-20"});
  const Ran quiet = run_freight({"train", dir, "--model", "mlp", "--epochs", "3", "-o", run, "--resume", "auto", "-q"});
  EXPECT_EQ(quiet.code, 0) << quiet.err;
  EXPECT_NE(quiet.err.find("warning: skipped: "), std::string::npos) << quiet.err;
  EXPECT_EQ(run_freight({"train", "--resume", run + "/checkpoints/step-20", "--epochs", "3"}).code, 0);
}

TEST(TrainCommand, SuggestsCommandsThatCanBePasted) {
  const std::string dir = small_digits();
  const Ran r = run_freight({"train", dir, "--model", "mlp", "--max-steps", "2", "-o", dir + "/my run", "-q"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("freight eval --weights '" + dir + "/my run/model.safetensors'"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("freight predict '" + dir + "/my run/model.safetensors' "), std::string::npos) << r.out;
}

TEST(TrainCommand, APoolOfAbsurdSizeIsLimitedAndSaidSo) {
  const std::string dir = small_digits();
  const Ran r = run_freight({"train", dir, "--model", "mlp", "--max-steps", "2", "-o", dir + "/run"}, "",
                            {"OMP_NUM_THREADS=100000"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("OMP_NUM_THREADS asks for 100000 threads"), std::string::npos) << r.err;
}

// Products whose sums could be cut, convolutions by every method, and rows that three threads cannot share evenly.
TEST(TrainCommand, DeterministicRunsHaveEqualBitsForAnyNumberOfThreads) {
  const std::string dir = small_digits();
  for (const std::string model : {"mlp", "lenet", "convnet", "googlenet"}) {
    std::string first;
    for (const std::string threads : {"1", "2", "3", "7"}) {
      const std::string run = cat(dir, "/", model, threads);
      const Ran r = run_freight({"train", dir, "--model", model, "--max-steps", model == "googlenet" ? "1" : "4", "-b",
                                 "48", "--deterministic", "-o", run, "-q"},
                                "", {"OMP_NUM_THREADS=" + threads, "OMP_WAIT_POLICY=passive"});
      ASSERT_EQ(r.code, 0) << r.err;
      const std::string weights = read_file(run + "/model.safetensors");
      if (first.empty()) first = weights;
      EXPECT_TRUE(weights == first) << model << " with " << threads << " threads differs from one thread";
    }
  }
}

TEST(TrainCommand, PrintsOneJsonLineWithTheResult) {
  const std::string dir = small_digits();
  const Ran r =
      run_freight({"train", dir, "--model", "mlp", "--max-steps", "20", "--json", "--output-dir", dir + "/run"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 1);
  const Json j = Json::parse(r.out);
  for (const char* key : {"test_top1", "test_loss", "train_loss", "steps", "epochs", "train_seconds",
                          "samples_per_second", "parameters", "model", "output_dir", "interrupted"}) {
    EXPECT_TRUE(j.contains(key)) << key;
  }
  EXPECT_EQ(j.at("steps"), 20);
  EXPECT_NE(r.err.find("640 train, 150 test, 10 classes"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("batch   64 = 1 device x 64"), std::string::npos) << r.err;
  EXPECT_EQ(r.err.find('\r'), std::string::npos);
  EXPECT_EQ(Json::parse(read_file(dir + "/run/config.json")).at("max_steps"), 20);
  EXPECT_EQ(run_freight({"train", "--config", dir + "/run/config.json", "--dry-run"}).code, 0);
}

TEST(TrainCommand, ADryRunChecksModelDataAndWeightsAndWritesNothing) {
  const std::string dir = small_digits();
  const auto dry = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"train", "--dry-run", "-o", dir + "/run"});
    return run_freight(args);
  };
  expect_refused(dry({dir, "--model", "lenett"}), 2, {"lenett", "did you mean lenet"});
  expect_refused(dry({dir + "/nowhere"}), 3, {"nowhere"});
  expect_refused(dry({dir, "--model", "mlp", "--weights", dir + "/none.safetensors"}), 3, {"none.safetensors"});
  expect_refused(dry({dir, "--model", "mlp", "--num-classes", "9"}), 2, {"returns 9 classes", "has 10"});
  const Ran sound = dry({dir, "--model", "mlp", "-b", "32"});
  EXPECT_EQ(sound.code, 0) << sound.err;
  EXPECT_NE(sound.err.find("batch   32 = 1 device x 32"), std::string::npos) << sound.err;
  const Ran settings = dry({dir, "--model", "mlp", "-b", "32", "--json"});
  EXPECT_EQ(Json::parse(settings.out).at("batch_size"), 32);
  EXPECT_FALSE(std::filesystem::exists(dir + "/run"));
}

TEST(TrainCommand, ThePrecisionHasTheFlagsThatOthersGiveIt) {
  for (const auto& [flag, precision] : {std::pair("--bf16", "bf16"), {"--fp16", "fp16"}, {"--amp", "fp16"}}) {
    const Ran r = run_freight({"train", flag, "--print-config"});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(Json::parse(r.out).at("precision"), precision);
  }
}

TEST(TrainCommand, APrecisionThatTheDeviceLacksIsSaidInOneLineAndTrainsInF32) {
  const std::string dir = small_digits();
  const auto run = [&](const std::string& precision, const std::string& device, const std::vector<std::string>& env) {
    const Ran r = run_freight({"train", dir, "--model", "lenet", "--max-steps", "8", "--device", device, "--precision",
                               precision, "--overwrite", "-o", dir + "/run"},
                              "", env);
    EXPECT_EQ(r.code, 0) << r.err;
    return std::pair(r.err, Json::parse(read_file(dir + "/run/run.json")).at("compute").get<std::string>());
  };
  const auto stored = [&] {
    const io::SafeTensors file = io::load_safetensors(dir + "/run/model.safetensors");
    for (const auto& [name, array] : file.tensors) EXPECT_EQ(array.dtype(), DType::f32) << name;
  };
  const auto [half, half_type] = run("fp16", "cpu", {});
  EXPECT_NE(half.find("note    no fp16 on this device (the cpu backend has no f16 kernels): computing in f32\n"),
            std::string::npos)
      << half;
  EXPECT_EQ(half_type, "f32");
  stored();
  const auto [brain, brain_type] = run("bf16", "cpu", {});
  const bool has = backend("cpu").why_unsupported(DType::bf16).empty();  // as this machine is
  EXPECT_EQ(brain.find("note    no bf16 on this device (the CPU has neither avx512_bf16 nor AMX)") == std::string::npos,
            has)
      << brain;
  EXPECT_EQ(brain_type, has ? "bf16" : "f32");
  stored();
  const auto [emulated, emulated_type] = run("bf16", "cpu", {"FREIGHT_BF16=1"});
  EXPECT_EQ(emulated_type == "bf16", emulated.find("note    no bf16") == std::string::npos) << emulated;
  stored();
  const auto [on_ref, ref_type] = run("bf16", "ref", {});
  EXPECT_EQ(on_ref.find("note    no bf16"), std::string::npos) << on_ref;
  EXPECT_EQ(ref_type, "bf16");
  stored();
  expect_refused(run_freight({"train", dir, "--precision", "bf15", "-o", dir + "/run2"}), 2, {"--precision", "bf16"});
}

TEST(TrainCommand, DigitsInEmulatedBf16AreLearntAsWellAsInF32) {
  const std::string dir = scratch_dir();
  const auto top1 = [&](const std::string& precision) {
    const Ran r = run_freight({"train", "digits", "--model", "mlp", "--epochs", "1", "--precision", precision, "--json",
                               "-q", "--overwrite", "-o", dir + "/run"},
                              "", {"FREIGHT_BF16=1"});
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out).at("test_top1").get<double>();
  };
  const double f32 = top1("fp32"), bf16 = top1("bf16");
  if (Json::parse(read_file(dir + "/run/run.json")).at("compute") != "bf16") GTEST_SKIP() << "no AVX-512 here";
  EXPECT_GT(f32, 95);
  EXPECT_NEAR(bf16, f32, 0.7);
}

TEST(TrainCommand, ARecipeHoldsWhateverOtherFlagsAreGiven) {
  const std::vector<std::string> command = {"train", "--data", "mnist", "--recipe", "fast", "--print-config"};
  const Ran plain = run_freight(command);
  EXPECT_EQ(Json::parse(plain.out).at("epochs"), 1);
  for (const char* flag : {"-q", "-v", "--json", "--no-progress"}) {
    std::vector<std::string> more = command;
    more.emplace_back(flag);
    EXPECT_EQ(run_freight(more).out, plain.out) << flag;
  }
}

TEST(TrainCommand, QuietSaysNothingButTheResult) {
  const std::string dir = small_digits();
  const Ran r = run_freight({"train", dir, "--model", "mlp", "--max-steps", "2", "-q", "-o", dir + "/run"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.out.rfind("test accuracy", 0), 0u) << r.out;
}

TEST(TrainCommand, RefusesWhatCannotWorkBeforeAnythingIsWritten) {
  const std::string dir = small_digits();
  struct Row {
    std::vector<std::string> args;
    int code;
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {{"--model", "lenett"}, 2, {"lenett", "did you mean lenet?"}},
      {{"--lerning-rate", "1"}, 2, {"--lerning-rate", "did you mean --learning-rate?"}},
      {{"--patience", "x"}, 2, {"--early-stop", "x"}},
      {{"--early-stop", "2", "--metric", "auc"}, 2, {"--metric", "auc is for two classes", "10 classes"}},
      {{"--min-delta", "0.1"}, 2, {"--min-improvement", "--early-stop"}},
      {{"--threshold", "recall=2"}, 2, {"--threshold", "recall=R", "recall=2"}},
      {{"--threshold", "recall=0.9"}, 2, {"--threshold", "two classes", "10 classes"}},
      {{"--class-weight", "balancd"}, 2, {"--class-weight", "balancd", "did you mean balanced?"}},
      {{"--weight-column", "w"}, 2, {"--weight-column is a flag of table models", "this run trains a network"}},
      {{"--folds", "1"}, 2, {"--folds", "one fold leaves nothing to fit"}},
      {{"--folds", "3", "--group-column", "g"}, 2, {"--group-column is a flag of table models"}},
      {{"--task", "regression"}, 2, {"--task: is values, the targets of", "are classes"}},
      {{"--task", "multilabel"}, 2, {"--task: is multilabel", "expected a list of images or texts"}},
      {{"--task", "counts"}, 2, {"--task", "counts", "it is for table models"}},
      {{"--loss", "mse"}, 2, {"--loss", "mse", "are classes", "focal"}},
      {{"--criterion", "focl"}, 2, {"--loss", "focl", "did you mean focal?"}},
      {{"--loss", "bce", "--calibration", "temperature"}, 2, {"--calibration", "cross_entropy or focal", "bce"}},
      {{"--gpus", "2"}, 2, {"--gpus", "did you mean --devices? (--devices 2, or a list like cuda:0,cuda:1)"}},
      {{"--report-to", "wandb"}, 2, {"--report-to", "TensorBoard event files", "docs/report.md"}},
      {{"--model", "mobilenet"}, 2, {"unknown model 'mobilenet'", "did you mean mobilenet_v2?"}},
      {{"--model", "LightGBM"}, 2, {"unknown model 'LightGBM'", "did you mean gbdt?"}},
      {{"--lr-scheduler", "CosineAnnealingLR"}, 2, {"--lr-scheduler", "did you mean cosine?"}},
      {{"--precision", "bf16-mixed"}, 2, {"--precision", "did you mean bf16?"}},
      {{"--batch-size", "0"}, 2, {"--batch-size", "0"}},
      {{"--lr", "nan"}, 2, {"--lr", "nan"}},
      {{"--optimizer", "adma"}, 2, {"--optimizer", "did you mean adam?"}},
      {{"--recipe", "none"}, 2, {"--recipe", "default"}},
      {{"--weights", dir + "/missing.safetensors"}, 3, {"missing.safetensors"}},
      {{"--model", dir + "/missing.json"}, 2, {"missing.json"}},
      {{"--device", "cuda"}, 4, {"cuda"}},
  };
  for (const Row& row : rows) {
    std::vector<std::string> args = {"train", dir, "-o", dir + "/run", "--max-steps", "1"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    SCOPED_TRACE(row.args[0] + " " + row.args[1]);
    expect_refused(run_freight(args), row.code, row.parts);
    EXPECT_FALSE(std::filesystem::exists(dir + "/run"));
  }
  expect_refused(run_freight({"train", "digit"}), 3, {"digit", "did you mean digits?"});
}

TEST(TrainCommand, SpecsThatCannotBuildNameTheLayer) {
  const std::string dir = small_digits();
  const auto spec = [](const std::string& net) {
    return R"({"format": "freight-model-1", "name": "mine", "input": [1,28,28], )" + net + "}";
  };
  struct Row {
    std::string text;
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {spec(R"("net": [{"type": "Flatten"}, {"type": "Linaer", "out": 10}])"), {"Linaer", "Linear"}},
      {spec(R"("net": [{"type": "Flatten"}, {"type": "Linear", "in": 100, "out": 10}])"), {"100", "784", "1"}},
      {spec(R"("defs": {"a": [{"ref": "a"}]}, "net": {"ref": "a"})"), {"a", "cycle"}},
      {"{\"format\": ", {"mine.json"}},
  };
  for (const Row& row : rows) {
    write_file(dir + "/mine.json", row.text);
    SCOPED_TRACE(row.text);
    expect_refused(run_freight({"train", dir, "--model", dir + "/mine.json", "-o", dir + "/run"}), 2, row.parts);
  }
}

TEST(TrainCommand, TrainsANetThatItHasNeverSeen) {
  const std::string dir = small_digits();
  write_file(dir + "/mine.json", R"({"format": "freight-model-1", "name": "mine", "input": [1,28,28], "net": [
      {"type": "Flatten"}, {"type": "Linear", "out": 32}, {"type": "ReLU"}, {"type": "Linear", "out": 10}]})");
  const Ran r =
      run_freight({"train", dir, "--model", dir + "/mine.json", "--max-steps", "3", "--json", "-o", dir + "/run"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out).at("parameters"), 784 * 32 + 32 + 320 + 10);
  EXPECT_EQ(run_freight({"eval", dir + "/run/model.safetensors", "--data", dir}).code, 0);
}

TEST(TrainCommand, ImagesAreResizedToTheInputSizeInTrainingAndEvaluation) {
  const std::string dir = small_digits();
  const Ran r = run_freight({"train", dir, "--model", "resnet20", "--input-size", "12x8", "--num-classes", "11",
                             "--max-steps", "2", "--json", "-o", dir + "/run"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out).at("parameters"), 272474 - 2 * 16 * 9 + 64 + 1);  // one channel in, eleven classes out
  EXPECT_EQ(Json::parse(read_file(dir + "/run/model.json")).at("input"), Json({1, 12, 8}));
  const Json config = Json::parse(read_file(dir + "/run/config.json"));
  EXPECT_EQ(config.at("input_size"), "12x8");
  EXPECT_EQ(config.at("num_classes"), 11);
  EXPECT_EQ(run_freight({"train", "--config", dir + "/run/config.json", "--dry-run"}).code, 0);
  const Json e = Json::parse(run_freight({"eval", dir + "/run/model.safetensors", "--data", dir, "--json"}).out);
  EXPECT_DOUBLE_EQ(e.at("loss").get<double>(), Json::parse(r.out).at("test_loss").get<double>());
  expect_refused(run_freight({"train", dir, "--model", "lenet", "--num-classes", "9", "-o", dir + "/b"}), 2,
                 {"returns 9 classes", "has 10"});
  expect_refused(run_freight({"train", dir, "--model", "alexnet", "-o", dir + "/b"}), 2,
                 {"[1,28,28]", "a larger --input-size"});
}

TEST(TrainCommand, ARegressionIsTrainedEvaluatedAndPredicts) {
  const std::string dir = scratch_dir();
  constexpr int64_t kSamples = 200, kInputs = 3;  // targets (2 a - b + 0.5, c)
  Array x(DType::f32, {kSamples, kInputs}), y(DType::f32, {kSamples, 2});
  for (int64_t i = 0; i < kSamples; ++i) {
    float* a = x.data<float>() + i * kInputs;
    for (int64_t k = 0; k < kInputs; ++k) a[k] = static_cast<float>((i * (7 + 4 * k) % 41) - 20) / 20;
    y.data<float>()[2 * i] = 2 * a[0] - a[1] + 0.5f;
    y.data<float>()[2 * i + 1] = a[2];
  }
  io::save_npy(dir + "/x_train.npy", x);
  io::save_npy(dir + "/y_train.npy", y);
  const Ran r = run_freight({"train", dir, "--model", "linear_regression", "--epochs", "60", "--lr", "0.1",
                             "--weight-decay", "0", "--json", "-o", dir + "/run"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json result = Json::parse(r.out);
  EXPECT_LT(result.at("val_loss").get<double>(), 1e-3);
  EXPECT_TRUE(result.at("test_top1").is_null());
  EXPECT_EQ(r.err.find("top1"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("regression target"), std::string::npos) << r.err;
  const std::string model = dir + "/run/model.safetensors";
  const Json e = Json::parse(run_freight({"eval", model, "--json"}).out);
  EXPECT_NEAR(e.at("loss").get<double>(), result.at("val_loss").get<double>(), 1e-6);
  EXPECT_TRUE(e.at("top1").is_null());
  io::save_npy(dir + "/sample.npy", Array::of<float>({0.5f, 0.25f, -1}, {3}));
  const Json p = Json::parse(run_freight({"predict", model, dir + "/sample.npy", "--json"}).out);
  ASSERT_EQ(p.at("values").size(), 2u);
  EXPECT_NEAR(p.at("values")[0].get<double>(), 1.25, 0.1);
  EXPECT_NEAR(p.at("values")[1].get<double>(), -1, 0.1);
  expect_refused(run_freight({"train", dir, "--model", "mlp", "-o", dir + "/b"}), 2,
                 {"mlp", "the targets are regression values"});
  const std::string digits = dir + "/digits";
  std::filesystem::create_directories(digits);
  write_small_digits(digits);
  expect_refused(run_freight({"train", digits, "--model", "linear_regression", "-o", dir + "/b"}), 2,
                 {"linear_regression", "the targets are classes"});
  expect_refused(run_freight({"eval", model, "--data", digits}), 2, {"samples [3]", "[1,28,28]"});
}

TEST(TrainCommand, OutputDirectoriesThatCannotBeUsedAreRefused) {
  const std::string dir = small_digits();
  const auto train_into = [&](const std::string& out) {
    return run_freight({"train", dir, "--model", "mlp", "--max-steps", "1", "-o", out});
  };
  expect_refused(train_into(dir), 2, {"--output-dir", dir, "not empty", "--overwrite"});
  expect_refused(train_into(dir + "/train-labels-idx1-ubyte"), 2, {"not a directory"});
  const Ran under_a_file = train_into(dir + "/train-labels-idx1-ubyte/run");
  EXPECT_EQ(under_a_file.code, 1);
  EXPECT_NE(under_a_file.err.find("train-labels-idx1-ubyte/run"), std::string::npos) << under_a_file.err;
}

TEST(TrainCommand, LabelsOutOfRangeAreADataError) {
  const std::string dir = small_digits();
  std::string labels = read_file(dir + "/train-labels-idx1-ubyte");
  labels[8 + 100] = 77;
  write_file(dir + "/train-labels-idx1-ubyte", labels);
  expect_refused(run_freight({"train", dir, "--model", "mlp", "-o", dir + "/run"}), 3,
                 {"train-labels-idx1-ubyte", "100", "77"});
}

TEST(TrainCommand, DivergenceExitsSix) {
  const std::string dir = small_digits();
  const Ran r = run_freight({"train", dir, "--model", "mlp", "--lr", "1e30", "--lr-scheduler", "constant", "-o",
                             dir + "/run", "--epochs", "3", "-q"});
  expect_refused(r, 6, {"the loss is", "first NaN or infinity"});
}

TEST(TrainCommand, CtrlCSavesAModelThatLoads) {
  const std::string dir = small_digits();
  Running train({"train", dir, "--model", "mlp", "--epochs", "1000000", "-o", dir + "/run"});
  ASSERT_TRUE(train.wait_for("test top1"));  // the first epoch's line
  train.send(SIGINT);
  const Ran r = train.finish();
  EXPECT_EQ(r.code, 130) << r.err;
  EXPECT_NE(r.out.find("stopped after"), std::string::npos) << r.out;
  EXPECT_EQ(Json::parse(read_file(dir + "/run/run.json")).at("exit_code"), 130);
  EXPECT_EQ(run_freight({"eval", dir + "/run/model.safetensors", "--data", dir}).code, 0);
}

TEST(TrainCommand, AFullDiskIsNamedAndLeavesNoHalfWrittenModel) {
  const std::string dir = small_digits();
  Running train({"train", dir, "--model", "mlp", "--max-steps", "2", "-o", dir + "/run", "-q"}, "", {}, [] {
    const rlimit limit{100 * 1024, 100 * 1024};
    setrlimit(RLIMIT_FSIZE, &limit);
  });
  const Ran r = train.finish();
  expect_refused(r, 1, {"model.safetensors", dir + "/run"});
  for (const auto& e : std::filesystem::recursive_directory_iterator(dir + "/run")) {
    EXPECT_EQ(e.path().string().find("safetensors"), std::string::npos) << e.path();
  }
}

TEST(EvalCommand, GivesTheFiguresThatTrainingEndedWith) {
  const std::string dir = small_digits();
  const std::string model = trained(dir);
  const Ran r = run_freight({"eval", "--weights", model, "--data", dir, "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out), run = Json::parse(read_file(dir + "/run/run.json"));
  EXPECT_EQ(j.at("count"), 150);
  EXPECT_EQ(j.at("top1"), run.at("result").at("test_top1"));
}

TEST(EvalCommand, ATruncatedModelExitsEight) {
  const std::string dir = small_digits();
  const std::string model = trained(dir);
  std::filesystem::resize_file(model, 5000);
  expect_refused(run_freight({"eval", model, "--data", dir}), 8, {model});
  expect_refused(run_freight({"predict", model, "a.png"}), 8, {model});
  expect_refused(run_freight({"train", dir, "--model", "mlp", "--weights", model, "-o", dir + "/new"}), 8, {model});
}

TEST(PredictCommand, AgreesWithEvaluationOnStoredImages) {
  const std::string dir = small_digits();
  const std::string model = trained(dir);
  const data::Dataset set = data::draw_digits(20000, 150);
  std::vector<std::string> args = {"predict", model, "--json", "-b", "64"};
  for (int64_t i = 0; i < set.count(); ++i) {
    Array pixels(DType::u8, {28, 28});
    std::copy_n(set.images.data<uint8_t>() + i * 784, 784, pixels.data<uint8_t>());
    args.push_back(dir + "/" + std::to_string(i) + ".png");
    io::save_png(args.back(), pixels);
  }
  const Ran r = run_freight(args);
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  std::string line;
  int64_t n = 0, right = 0;
  for (; std::getline(lines, line); ++n) {
    const Json j = Json::parse(line);
    ASSERT_EQ(j.at("path"), args[static_cast<size_t>(5 + n)]);
    right += j.at("index") == set.labels.data<int64_t>()[n];
    double sum = 0;
    for (const auto& p : j.at("probabilities")) sum += p.get<double>();
    EXPECT_NEAR(sum, 1, 1e-4);
  }
  EXPECT_EQ(n, 150);
  const Json e = Json::parse(run_freight({"eval", model, "--data", dir, "--json"}).out);
  EXPECT_DOUBLE_EQ(100.0 * static_cast<double>(right) / 150.0, e.at("top1").get<double>());
}

TEST(PredictCommand, TakesColorAndOtherSizesAndPrintsLinesOrCsv) {
  const std::string dir = small_digits();
  const std::string model = trained(dir), path = dir + "/big, colour.png";
  io::save_png(path, Array(DType::u8, {60, 90, 3}));
  const Ran csv = run_freight({"predict", model, path, "--csv", "--top-k", "2"});
  EXPECT_EQ(csv.code, 0) << csv.err;
  EXPECT_EQ(csv.out.rfind("path,class,probability\n\"" + path + "\",", 0), 0u) << csv.out;
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 3);
  const Ran text = run_freight({"predict", model, path, path});
  EXPECT_EQ(text.out.rfind(path + "  ", 0), 0u) << text.out;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 2);
}

TEST(PredictCommand, MissingAndDamagedImagesAreNamed) {
  const std::string dir = small_digits();
  const std::string model = trained(dir);
  write_file(dir + "/bad.png", "\x89PNG\r\n\x1a\nnot at all");
  expect_refused(run_freight({"predict", model, dir + "/none.png"}), 3, {dir + "/none.png"});
  expect_refused(run_freight({"predict", model, dir + "/bad.png"}), 3, {dir + "/bad.png"});
  expect_refused(run_freight({"predict", model}), 2, {"files", "are missing"});
  expect_refused(run_freight({"predict", dir + "/none.safetensors", dir + "/bad.png"}), 3, {"none.safetensors"});
}

}  // namespace
}  // namespace freight::test
