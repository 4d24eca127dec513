// The checks of a data set, on folders that the tests write.
#include "freight/inspect/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "freight/base/philox.h"
#include "freight/io/image.h"
#include "tests/support/files.h"

namespace freight::inspect {
namespace {
using namespace freight::testing;
namespace fs = std::filesystem;

// A picture of a class: bars that stand or lie, on patches of random colors, which make it unlike others of its class.
Array bars(bool standing, uint64_t seed) {
  Array image(DType::u8, {40, 40, 3});
  PhiloxStream random(seed, 1, 0);
  const int64_t begin = random.below(8), width = 3 + random.below(4);
  constexpr int64_t kPatches = 5, kPatch = 40 / kPatches;
  int64_t colors[kPatches * kPatches][3];
  for (auto& patch : colors) {
    for (int64_t& color : patch) color = static_cast<int64_t>(random.below(60)) - 30;
  }
  for (int64_t y = 0; y < 40; ++y) {
    for (int64_t x = 0; x < 40; ++x) {
      const bool bright = ((standing ? x : y) + begin) / width % 2 == 0;
      const auto& color = colors[y / kPatch * kPatches + x / kPatch];
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t value = (bright ? 180 : 40) + color[c] + random.below(10);
        image.data<uint8_t>()[(y * 40 + x) * 3 + c] = static_cast<uint8_t>(value);
      }
    }
  }
  return image;
}

void put_bars(const std::string& dir, int train, int val) {
  for (const bool standing : {false, true}) {
    for (int i = 0; i < train + val; ++i) {
      const std::string folder = cat(dir, i < train ? "/train/" : "/val/", standing ? "standing" : "lying");
      fs::create_directories(folder);
      io::save_png(cat(folder, "/", i, ".png"), bars(standing, static_cast<uint64_t>(2 * i + (standing ? 1 : 0))));
    }
  }
}

TEST(CheckImages, FindsLeaksWrongLabelsAndFilesThatCannotBeRead) {
  const TemporaryDir dir;
  put_bars(dir.path(), 40, 10);
  fs::copy_file(dir / "train/lying/3.png", dir / "val/lying/copy.png");
  fs::copy_file(dir / "train/lying/5.png", dir / "train/standing/5-again.png");  // a repetition with another label
  io::save_png(dir / "train/standing/wrong.png", bars(false, 1001));
  put(dir / "train/lying/broken.png", "no image");
  put(dir / "train/lying/photo.heic", "cannot be read");
  const DataCheck check = check_data(data::Source(dir.path()));
  EXPECT_FALSE(check.ok());
  ASSERT_EQ(check.leaks.size(), 1u);
  EXPECT_EQ(check.leaks[0].sample, dir / "val/lying/copy.png");
  EXPECT_EQ(check.leaks[0].other_sample, dir / "train/lying/3.png");
  EXPECT_TRUE(check.leaks[0].same);
  EXPECT_FALSE(check.leaks[0].other_label);
  EXPECT_EQ(check.repeated, 1);
  ASSERT_EQ(check.conflicts.size(), 1u);
  EXPECT_EQ(check.conflicts[0].sample, dir / "train/standing/5-again.png");
  ASSERT_EQ(check.bad.size(), 1u);
  EXPECT_EQ(check.bad[0].path, dir / "train/lying/broken.png");
  EXPECT_NE(join(check.notes, " ").find(".heic"), std::string::npos) << join(check.notes, " ");
  EXPECT_EQ(check.parts.at(0).count, 83);
  EXPECT_EQ(check.parts[0].per_class, (std::vector<int64_t>{41, 42}));
  EXPECT_EQ(check.parts.at(1).count, 21);
  EXPECT_EQ(check.mean.size(), 3u);
  EXPECT_GT(check.predicted_right, 0.9);
  const auto wrong = std::find_if(check.label_errors.begin(), check.label_errors.end(),
                                  [&](const LabelError& e) { return e.sample == dir / "train/standing/5-again.png"; });
  ASSERT_NE(wrong, check.label_errors.end());
  EXPECT_EQ(wrong->label, "standing");
  EXPECT_EQ(wrong->predicted, "lying");
  EXPECT_LE(check.label_errors.size(), 4u);
}

TEST(CheckImages, GoodDataHasNoFaults) {
  const TemporaryDir dir;
  put_bars(dir.path(), 30, 8);
  const DataCheck check = check_data(data::Source(dir.path()));
  EXPECT_TRUE(check.ok());
  EXPECT_LE(check.label_errors.size(), 1u);
  EXPECT_TRUE(check.warnings.empty()) << join(check.warnings, ", ");
  EXPECT_EQ(check.repeated, 0);
}

TEST(CheckImages, RareAndMissingClassesAreNamed) {
  const TemporaryDir dir;
  put_bars(dir.path(), 30, 8);
  fs::create_directories(dir / "train/rare");
  io::save_png(dir / "train/rare/1.png", bars(true, 5000));
  const DataCheck check = check_data(data::Source(dir.path()));
  const std::string text = join(check.warnings, "; ");
  for (const char* part :
       {"class rare has 1 training samples", "class rare has no sample in the validation set", "30 times as many"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(CheckLists, GroupsAcrossTheSplitAreFound) {
  const TemporaryDir dir;
  std::string train = "path,label,patient\n", val = train;
  for (int i = 0; i < 12; ++i) {
    const bool standing = i % 2 == 1;
    const std::string name = cat("scan", i, ".png");
    io::save_png(dir / name, bars(standing, static_cast<uint64_t>(i)));
    (i < 8 ? train : val) += cat(name, ",", standing ? "standing" : "lying", ",p", i == 11 ? 0 : i / 2, "\n");
  }
  put(dir / "train.csv", train);
  put(dir / "val.csv", val);
  const DataCheck check = check_data(data::Source(dir.path()), {.group_column = "patient", .labels = false});
  ASSERT_EQ(check.groups.size(), 1u);
  EXPECT_EQ(check.groups[0].group, "p0");
  EXPECT_EQ(check.groups[0].per_part, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(check.groups_all, 6);
  EXPECT_FALSE(check.ok());
  expect_error(ErrorKind::data, {"doctor"},
               [&] { check_data(data::Source(dir.path()), {.group_column = "doctor", .labels = false}); });
}

TEST(CheckTexts, FindsLeaksGroupsAndWrongLabels) {
  const TemporaryDir dir;
  const std::vector<std::string> good = {"wonderful", "great", "lovely"}, bad = {"awful", "terrible", "boring"};
  const std::vector<std::string> nouns = {"film", "story", "plot", "cast", "music", "ending", "scene"};
  std::string train = "text,label,author\n", val = train;
  for (size_t i = 0; i < 84; ++i) {
    const bool positive = i % 2 == 0;
    const std::string& word = (positive ? good : bad)[i % 3];
    const std::string text =
        cat("number ", i, " a ", word, " ", nouns[i % 7], " and a ", word, " ", nouns[i / 7 % 7], " item", i * 31);
    (i < 64 ? train : val) += cat(text, ",", positive ? "pos" : "neg", ",a", i, "\n");
  }
  train += "a wonderful film and a great story with lovely music,neg,a500\n";
  val += "A wonderful film - and a great story with lovely music!,pos,a500\n";
  put(dir / "train.csv", train);
  put(dir / "val.csv", val);
  const DataCheck check = check_data(data::Source(dir.path()), {.group_column = "author"});
  ASSERT_EQ(check.leaks.size(), 1u);
  EXPECT_TRUE(check.leaks[0].same);
  EXPECT_TRUE(check.leaks[0].other_label);
  ASSERT_EQ(check.groups.size(), 1u);
  EXPECT_EQ(check.groups[0].group, "a500");
  EXPECT_GT(check.predicted_right, 0.9);
  EXPECT_TRUE(check.labels_checked);
  ASSERT_FALSE(check.label_errors.empty());
  EXPECT_EQ(check.label_errors[0].label, "neg");
  EXPECT_EQ(check.label_errors[0].predicted, "pos");
  EXPECT_NE(check.label_errors[0].sample.find("a wonderful film and a great story"), std::string::npos);
}

// Of 1,500 photographs, 908 labels were listed as contradicted, most of them right.
TEST(CheckData, LabelsAreNotListedWherePredictionsAreSeldomRight) {
  const TemporaryDir dir;
  std::string rows = "text,label\n";
  for (int i = 0; i < 200; ++i) rows += cat("text number ", i, " of a kind ", i * 7919 % 101, ",", i * 31 % 5, "\n");
  put(dir / "t.csv", rows);
  const DataCheck check = check_data(data::Source(dir / "t.csv"));
  EXPECT_FALSE(check.labels_checked);
  EXPECT_TRUE(check.label_errors.empty());
  EXPECT_NE(join(check.notes, " ").find("labels: not checked"), std::string::npos) << join(check.notes, " ");
}

TEST(CheckData, TablesAreReferredToTheirOwnCommand) {
  const TemporaryDir dir;
  expect_error(ErrorKind::usage, {"is a table", "freight data info"}, [] { check_data(data::Source("titanic")); });
  expect_error(ErrorKind::data, {dir / "none"}, [&] { check_data(data::Source(dir / "none")); });
}

TEST(LabelErrors, AreThoseThatAreMoreProbableThanUsual) {
  // Two classes; the last sample of the first class looks like the second one.
  const OutOfFold predictions{.classes = 2,
                              .probabilities = {0.9f, 0.1f, 0.8f, 0.2f, 0.1f, 0.9f, 0.2f, 0.8f, 0.1f, 0.9f}};
  const std::vector<Contradicted> found = contradicted_labels(predictions, {0, 0, 1, 1, 0});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].sample, 4);
  EXPECT_EQ(found[0].label, 0);
  EXPECT_EQ(found[0].predicted, 1);
  EXPECT_NEAR(found[0].probability, 0.9, 1e-6);
}

}  // namespace
}  // namespace freight::inspect
