// Refusals that many places share, and `did you mean`, for typing errors and for names of other programs.
#include "freight/base/usage.h"

#include <gtest/gtest.h>

#include <set>

#include "freight/base/error.h"
#include "tests/support/files.h"

namespace freight {
namespace {

using freight::testing::expect_error;

TEST(Refusals, AFlagThatNeedsAnotherSaysWhy) {
  EXPECT_NO_THROW(requires_flag({"--elastic", false}, {"--devices", false}, "why"));
  EXPECT_NO_THROW(requires_flag({"--elastic", true}, {"--devices", true}, "why"));
  expect_error(ErrorKind::usage, {"--elastic: needs --devices: why"}, [] {
    requires_flag({"--elastic", true}, {"--devices", false}, "why");
  });
}

TEST(Refusals, AnUnknownNameIsNotRepeatedWhereTheMessageBeginsWithIt) {
  const std::vector<std::string> keys = {"epochs", "batch_size"};
  expect_error(ErrorKind::usage, {"run.json: unknown key 'epocs'; did you mean epochs?"},
               [&] { refuse_unknown("run.json", {.kind = "key", .got = "epocs", .known = keys}); });
  expect_error(ErrorKind::usage, {"--epocs: unknown flag; see --help (all of it)"}, [&] {
    refuse_unknown(
        "--epocs",
        {.kind = "flag", .got = "--epocs", .known = {"--lr"}, .otherwise = "; see --help", .all = " (all of it)"});
  });
}

TEST(Refusals, ColumnsValuesFilesAndPartsAreNamed) {
  expect_error(ErrorKind::usage, {"--target: there is no column aeg in t.csv: got age, sex; did you mean age?"}, [] {
    refuse_column("--target", "aeg", {"age", "sex"}, "t.csv");
  });
  expect_error(ErrorKind::usage, {"--device: got cuda:0: trees are fitted on the CPU"},
               [] { refuse_value("--device", "cuda:0", "trees are fitted on the CPU"); });
  expect_error(ErrorKind::usage, {"--config: there is no file /none.json"},
               [] { need_file("--config", "/none.json"); });
  EXPECT_NO_THROW(need_file("--config", "/dev/null"));
  EXPECT_NO_THROW(need_part_for_each("--devices", {.devices = 4, .parts = 4, .of = "4 shards"}));
  expect_error(ErrorKind::usage, {"--devices: got 4 devices for 2 shards: expected one for each"},
               [] { need_part_for_each("--devices", {.devices = 4, .parts = 2, .of = "2 shards"}); });
}

TEST(DidYouMean, NamesOfOtherProgramsComeBeforeSimilarSpellings) {
  const std::vector<std::string> flags = {"--devices", "--device", "--epochs", "--max-steps"};
  EXPECT_EQ(did_you_mean("--gpus", flags), "; did you mean --devices? (--devices 2, or a list like cuda:0,cuda:1)");
  EXPECT_EQ(did_you_mean("--max_epochs", flags), "; did you mean --epochs?");
  EXPECT_EQ(did_you_mean("--epocs", flags), "; did you mean --epochs?");
  EXPECT_EQ(did_you_mean("--something-else", flags, "; see --help"), "; see --help");
  // A counterpart that this command lacks is not suggested.
  EXPECT_EQ(did_you_mean("--clip-grad", flags, "; see --help"), "; see --help");
  const std::vector<std::string> models = {"mobilenet_v2", "mobilenet_v3_large", "resnet50", "vit_b_16"};
  EXPECT_EQ(did_you_mean("mobilenet", models), "; did you mean mobilenet_v2?");
  EXPECT_EQ(did_you_mean("MobileNetV3Large", models), "; did you mean mobilenet_v3_large?");
  EXPECT_EQ(did_you_mean("ResNet50", models), "; did you mean resnet50?");
  EXPECT_EQ(did_you_mean("google/vit-base-patch16-224", models),
            "; did you mean vit_b_16? (and --weights hf:google/vit-base-patch16-224)");
  EXPECT_EQ(did_you_mean("resnett50", models), "; did you mean resnet50?");
}

TEST(DidYouMean, EveryRowOfTheTableIsWhole) {
  std::set<std::string> names;
  EXPECT_GT(other_names().size(), 300u);
  for (const OtherName& row : other_names()) {
    EXPECT_FALSE(row.name.empty());
    EXPECT_FALSE(row.of.empty()) << row.name;
    EXPECT_TRUE(!row.here.empty() || !row.note.empty()) << row.name;
    EXPECT_EQ(row.name, lower(row.name));
    EXPECT_EQ(row.name.find('_'), std::string::npos) << row.name;
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is there twice";
    for (const std::string& here : row.here) EXPECT_NE(here, row.name);
  }
}

}  // namespace
}  // namespace freight
