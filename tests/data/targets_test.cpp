// Lists of images and of texts whose samples have values or several labels: their columns, separators, and what is
// refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "freight/data/catalog.h"
#include "freight/data/source.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;
using Words = std::vector<std::string>;

constexpr TargetOptions kRegression{.kind = TargetKind::values}, kSeveralLabels{.kind = TargetKind::labels};

class TargetLists : public ::testing::Test {
 protected:
  TrainTest images(const std::string& csv, TargetOptions targets) const {
    put(dir_ / "list.csv", csv);
    LoadOptions load;
    load.images.targets = std::move(targets);
    return Source(dir_ / "list.csv").load(load);
  }
  TextSet texts(const std::string& name, const std::string& content, TargetOptions targets) const {
    put(dir_ / name, content);
    LoadOptions load;
    load.text.targets = std::move(targets);
    return Source(dir_ / name).load_text(load);
  }
  // Both parts of a set of values, by sample.
  static std::vector<float> all(const Array& train, const Array& test) {
    std::vector<float> v = train.to_vector<float>();
    for (const float y : test.to_vector<float>()) v.push_back(y);
    std::sort(v.begin(), v.end());
    return v;
  }

  const TemporaryDir dir_;
};

TEST_F(TargetLists, ValuesOfSeveralColumnsAreNamedByThem) {
  const std::string csv = "path,price,note,area\na.png,1,x,10\nb.png,2.5,y,20\nc.png,3,z,-3e1\nd.png,4,z,40\n";
  const TrainTest sets = images(csv, {.kind = TargetKind::values, .columns = {"area", "price"}});
  EXPECT_EQ(sets.train.targets, (Words{"area", "price"}));
  EXPECT_TRUE(sets.train.classes.empty());
  EXPECT_EQ(sets.train.labels.shape()[1], 2);
  EXPECT_EQ(all(sets.train.labels, sets.test.labels), (std::vector<float>{-30, 1, 2.5f, 3, 4, 10, 20, 40}));
  EXPECT_NE(sets.train.note.find("not read: note"), std::string::npos) << sets.train.note;
}

TEST_F(TargetLists, AListWithSeveralPossibleTargetsAsksForTheirNames) {
  const std::string csv = "path,price,area\na.png,1,10\nb.png,2.5,20\n";
  put(dir_ / "list.csv", csv);
  EXPECT_EQ(Source(dir_ / "list.csv").content(), Content::images);
  const std::string error = message_of([&] { images(csv, kRegression); });
  EXPECT_NE(error.find("--label-column names it"), std::string::npos) << error;
  EXPECT_NE(error.find("path, price, area"), std::string::npos) << error;
}

TEST_F(TargetLists, ACellThatIsNoNumberIsNamedWithItsLine) {
  struct Row {
    const char *cell, *part;
  };
  for (const Row& row : {Row{"cheap", "list.csv:3: column price: expected a number, got 'cheap'"},
                         {"", "list.csv:3: column price has no value"},
                         {"NaN", "list.csv:3: column price has no value"},
                         {"inf", "list.csv:3: column price: expected a number, got 'inf'"},
                         {"1e60", "list.csv:3: column price: expected a number, got '1e60'"}}) {
    const std::string csv = cat("path,price\na.png,1\nb.png,", row.cell, "\nc.png,2\n");
    const std::string error = message_of([&] { images(csv, {.kind = TargetKind::values, .columns = {"price"}}); });
    EXPECT_NE(error.find(row.part), std::string::npos) << error;
  }
}

TEST_F(TargetLists, LabelsOfACellAreSeparatedByWhatTheColumnHas) {
  struct Row {
    const char* separator;
    const char* said;
  };
  for (const Row& row : {Row{"|", "'|'"}, {";", "';'"}, {" ", "spaces"}}) {
    const std::string two = cat("red", row.separator, "round");
    const std::string csv = cat("path,tags\na.png,", two, "\nb.png,blue\nc.png,\nd.png,", two, "\ne.png,blue\n");
    const TrainTest sets = images(csv, {.kind = TargetKind::labels, .columns = {"tags"}});
    EXPECT_EQ(sets.train.classes, (Words{"blue", "red", "round"})) << row.separator;
    EXPECT_EQ(sets.train.labels.dtype(), DType::u8);
    EXPECT_EQ(all(sets.train.labels.cast(DType::f32), sets.test.labels.cast(DType::f32)),
              (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
    EXPECT_NE(sets.train.note.find(cat("separated by ", row.said)), std::string::npos) << sets.train.note;
    EXPECT_NE(sets.train.note.find("1 sample of"), std::string::npos) << sets.train.note;
  }
}

TEST_F(TargetLists, LabelsMayHaveAColumnEach) {
  const std::string csv = "path,red,round\na.png,1,0\nb.png,0,1\nc.png,yes,no\nd.png,0,0\n";
  const TrainTest sets = images(csv, {.kind = TargetKind::labels, .columns = {"red", "round"}});
  EXPECT_EQ(sets.train.classes, (Words{"red", "round"}));
  const std::string error = message_of([&] {
    images("path,red,round\na.png,1,0\nb.png,2,1\n", {.kind = TargetKind::labels, .columns = {"red", "round"}});
  });
  EXPECT_NE(error.find("list.csv:3: column red: expected 0 or 1, got '2'"), std::string::npos) << error;
}

TEST_F(TargetLists, AColumnWithoutLabelsIsRefusedAndOneLabelEachIsNoted) {
  const TargetOptions tags{.kind = TargetKind::labels, .columns = {"tags"}};
  const std::string error = message_of([&] { images("path,tags\na.png,\nb.png,\n", tags); });
  EXPECT_NE(error.find("column tags is empty in all rows"), std::string::npos) << error;
  const TrainTest sets = images("path,tags\na.png,x\nb.png,y\nc.png,x\nd.png,y\n", tags);
  EXPECT_NE(sets.train.note.find("exactly one label: --task classification"), std::string::npos) << sets.train.note;
}

TEST_F(TargetLists, ALabelThatTrainingDidNotHaveIsNamedWithItsLine) {
  const TargetOptions known{.kind = TargetKind::labels, .columns = {"tags"}, .labels = {"red", "round"}};
  const std::string error = message_of([&] { images("path,tags\na.png,red\nb.png,red|rond\n", known); });
  EXPECT_NE(error.find("list.csv:3"), std::string::npos) << error;
  EXPECT_NE(error.find("label rond is not one of the training set"), std::string::npos) << error;
  const TrainTest sets = images("path,tags\na.png,round;red\nb.png,red\nc.png,round\nd.png,red\n", known);
  EXPECT_EQ(sets.train.classes, known.labels) << "their numbers are those of the model";
}

TEST_F(TargetLists, KnownLabelsWithSpacesAreNotCut) {
  const TargetOptions known{.kind = TargetKind::labels, .columns = {"tags"}, .labels = {"golden retriever", "pug"}};
  const TrainTest sets = images("path,tags\na.png,golden retriever\nb.png,pug\nc.png,pug\n", known);
  EXPECT_EQ(sets.train.count() + sets.test.count(), 3);
}

TEST_F(TargetLists, FoldersOfClassesHaveNeither) {
  put(dir_ / "a/x.png", "");
  put(dir_ / "b/x.png", "");
  LoadOptions load;
  load.images.targets = kRegression;
  const std::string error = message_of([&] { Source(dir_.path()).load(load); });
  EXPECT_NE(error.find("has a folder for each class: expected a list of images"), std::string::npos) << error;
}

TEST_F(TargetLists, TextsHaveThemInEveryFormOfFile) {
  const TextSet values = texts("v.csv", "text,stars,length\na b,1,3\nc d,2,4\ne f,3,5\ng h,4.5,6\n",
                               {.kind = TargetKind::values, .columns = {"stars", "length"}});
  EXPECT_EQ(values.targets, (Words{"stars", "length"}));
  EXPECT_FALSE(values.corpus());
  EXPECT_EQ(all(values.train.targets, values.test.targets), (std::vector<float>{1, 2, 3, 3, 4, 4.5f, 5, 6}));

  const std::string json = R"({"text": "a b", "label": "x|y"}
{"text": "c d", "label": "y"}
{"text": "e f", "label": null}
{"text": "g h", "label": "x"}
)";
  EXPECT_EQ(texts("l.jsonl", json, kSeveralLabels).classes, (Words{"x", "y"}));
  const std::string error = message_of([&] { texts("l.jsonl", R"({"text": "a b", "label": ["x"]})", kSeveralLabels); });
  EXPECT_NE(error.find("expected a number, or a text with the labels separated by '|'"), std::string::npos) << error;

  const TextSet fast =
      texts("f.txt", "__label__a,b __label__c hello you\n__label__c bye\n__label__c well\n", kSeveralLabels);
  EXPECT_EQ(fast.classes, (Words{"a,b", "c"})) << "a comma in a name separates nothing there";
}

TEST_F(TargetLists, ABadTextIsLeftOutWhereThatIsAskedFor) {
  put(dir_ / "v.csv", "text,stars\na b,1\nc d,many\ne f,3\ng h,4.5\n");
  std::vector<BadSample> bad;
  LoadOptions load;
  load.text.targets = kRegression;
  load.text.bad = {.on_bad = OnBad::skip, .report = [&](const BadSample& b) { bad.push_back(b); }};
  const TextSet set = Source(dir_ / "v.csv").load_text(load);
  EXPECT_EQ(set.train.count() + set.test.count(), 3);
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_EQ(bad[0].reason, "column stars: expected a number, got 'many'");
}

}  // namespace
}  // namespace freight::data
