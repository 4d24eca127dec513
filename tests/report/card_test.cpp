// Model cards: their head as Hugging Face reads it, and what they say of data, figures, license and limits.
#include "freight/report/card.h"

#include <gtest/gtest.h>

#include "freight/train/run_dir.h"
#include "tests/support/files.h"
#include "tests/support/python.h"

namespace freight::report {
namespace {
using namespace freight::testing;

store::Bundle small_net() {
  store::Bundle b;
  b.model = models::create("convnet", {.classes = 2});
  b.preprocessing.input = b.model.input.shape;
  b.classes = {"cat", "dog: \"big\" | <b>"};
  b.provenance = {{"data", "pets"}, {"data_fingerprint", "123456789"}, {"test_top1", "90"}};
  return b;
}

RunRecord small_run() {
  RunRecord r;
  r.data = "pets";
  r.fingerprint = "123456789";
  r.train_count = 1000;
  r.test_count = 100;
  r.steps = 50;
  r.train_seconds = 7200;
  r.planned_bytes = 1 << 20;
  r.measured_bytes = 1 << 21;
  r.device = "cpu";
  r.compute = "f32";
  r.version = "0.1.0";
  r.command = "freight train pets --model convnet";
  r.result = {{"test_top1", "90"}, {"test_loss", "0.3"}, {"train_loss", "0.2"}};
  r.plan = {{"planned_step_seconds", "72"}, {"measured_watt_hours", "42.5"}};
  r.config = {{"weights", "torchvision:resnet18"}};
  return r;
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
  }
}

TEST(ModelCard, HasDataMetricsWithIntervalsHoursEnergyLicenseAndLimits) {
  const store::Bundle model = small_net();
  const RunRecord run = small_run();
  const std::string card = model_card({.model = &model, .run = &run, .file = "model.safetensors"});
  expect_parts(card,
               {"---\nlibrary_name: freight\npipeline_tag: image-classification\n",
                "model-index:\n- name: \"convnet on pets\"", "    - type: \"accuracy\"\n      value: 0.9\n",
                "| hash of the training set (XXH3) | 123456789 |", "1,000 for training, 100 for validation",
                "| accuracy | 0.9 | 0.8256 to 0.9448 |",  // scipy: binomtest(90, 100).proportion_ci(method="wilson")
                "| time of the steps | 1 h | 2 h |", "| energy of the CPUs | - | 42.5 Wh |",
                "| memory | 1.0 MiB | 2.0 MiB |", "BSD-3-Clause", "on only 100 samples",
                "Every input is assigned one of the classes", "freight predict model.safetensors FILE"});
  EXPECT_EQ(card.find("train_loss"), std::string::npos);
  EXPECT_EQ(card.find("<b>"), std::string::npos);  // a name of a class is text
}

TEST(ModelCard, TheHeadIsYamlWithTheNamesOfHuggingFace) {
  const std::string python = peer_python();
  if (python.empty()) GTEST_SKIP() << "without the packages of tests/requirements.txt";
  const store::Bundle model = small_net();
  RunRecord run = small_run();
  run.config = {{"weights", "hf:timm/resnet18.a1_in1k@main"}};
  run.data = "a: \"strange\" # name";
  const TemporaryDir dir;
  put(dir / "README.md", model_card({.model = &model, .run = &run, .file = "model.safetensors"}));
  put(dir / "read.py",
      "import sys, yaml\n"
      "head = yaml.safe_load(open(sys.argv[1]).read().split('---\\n')[1])\n"
      "assert head['base_model'] == 'timm/resnet18.a1_in1k', head\n"
      "assert head['tags'] == ['freight', 'convnet'], head\n"
      "result = head['model-index'][0]['results'][0]\n"
      "assert result['dataset']['name'] == 'a: \"strange\" # name', result\n"
      "assert result['metrics'][0] == {'type': 'accuracy', 'value': 0.9}, result\n");
  EXPECT_EQ(std::system(cat(python, " ", dir / "read.py", " ", dir / "README.md").c_str()), 0);
}

TEST(ModelCard, AModelWithoutItsRunHasWhatItsFileSays) {
  const store::Bundle model = small_net();
  const std::string card = model_card({.model = &model, .file = "model.onnx"});
  expect_parts(card, {"| name | pets |", "| accuracy | 0.9 | - |", "trained from scratch"});
  EXPECT_EQ(card.find("## Training"), std::string::npos);
  EXPECT_EQ(card.find("freight predict"), std::string::npos);
}

TEST(ModelCard, SaysIfTheFiguresAreOfATestSet) {
  store::Bundle model = small_net();
  RunRecord run = small_run();
  const auto card = [&] { return model_card({.model = &model, .run = &run, .file = "model.safetensors"}); };
  expect_parts(card(), {"metric (validation set)", "      split: validation\n", "100 for validation"});
  run.data = "mnist";  // whose test set the run was evaluated on
  expect_parts(card(), {"metric (test set)", "      split: test\n", "100 for test"});
  run.result = {{"val_top1", "90"}};
  expect_parts(card(), {"metric (validation set)", "| accuracy | 0.9 |"});
  run.data = "sms_spam";  // which has none
  run.result = {{"test_top1", "90"}};
  expect_parts(card(), {"metric (validation set)"});
}

TEST(ModelCard, ScoresHaveTheirOwnIntervals) {
  const store::Bundle model = small_net();
  const RunRecord run = small_run();
  const std::string card = model_card(
      {.model = &model, .run = &run, .file = "model.safetensors", .scores = {{"auc", 0.875, 0.8125, 0.9375}}});
  expect_parts(card, {"| auc | 0.875 | 0.8125 to 0.9375 |"});
  EXPECT_EQ(card.find("| accuracy |"), std::string::npos);
}

TEST(ModelCard, AReadmeOfTheUserIsNeverReplaced) {
  const TemporaryDir dir;
  put(dir / "README.md", "# Mine\n");
  EXPECT_FALSE(write_card(dir.path(), cat(train::RunDir::kCardMark, "\nnew")));
  EXPECT_EQ(read_text(dir / "README.md"), "# Mine\n");
  put(dir / "README.md", cat("# Old\n", train::RunDir::kCardMark, "\n"));
  EXPECT_TRUE(write_card(dir.path(), cat(train::RunDir::kCardMark, "\nnew")));
  EXPECT_EQ(read_text(dir / "README.md"), cat(train::RunDir::kCardMark, "\nnew"));
}

TEST(ShareInterval, IsThatOfWilson) {
  // scipy.stats.binomtest(k, n).proportion_ci(method="wilson")
  const auto expect = [](double share, int64_t n, double low, double high) {
    const Interval i = share_interval(share, n);
    EXPECT_NEAR(i.low, low, 1e-6);
    EXPECT_NEAR(i.high, high, 1e-6);
  };
  expect(0.9, 100, 0.82563434, 0.94477086);
  expect(0.0, 20, 0.00000000, 0.16112516);
  expect(1.0, 20, 0.83887484, 1.00000000);
  expect(0.3333333333333333, 3, 0.06149194, 0.79234040);
  expect(0.999, 10000, 0.99816006, 0.99945671);
}

}  // namespace
}  // namespace freight::report
