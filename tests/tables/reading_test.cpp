// Tests flags of reading tables: kinds that are kept, parts, weights, groups, times; and what is told of columns
// that give the target away, or nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "freight/base/strings.h"
#include "freight/io/file.h"
#include "freight/store/column_gaps.h"
#include "freight/tables/description.h"
#include "freight/tables/table.h"
#include "tests/support/files.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;
using tables::RowData;
using tables::RowSource;

class Reading : public ::testing::Test {
 protected:
  // A file of rows that a function writes.
  std::string file(const std::string& name, const std::string& header, int rows,
                   const std::function<std::string(int)>& row) {
    std::string text = header.empty() ? "" : header + "\n";
    for (int i = 0; i < rows; ++i) text += row(i) + "\n";
    io::write_file_atomic(dir_ / name, std::string_view(text));
    return dir_ / name;
  }
  // 60 visits of 12 shops on 60 days.
  std::string visits() {
    return file("visits.csv", "visit_id,day,shop,open,note,weight,spent", 60, [](int i) {
      return cat(1000 - 7 * i, ",2024-", i < 30 ? "01" : "02", "-", i % 28 < 9 ? "0" : "", 1 + i % 28, ",shop ", i % 12,
                 ",", i % 3 ? "yes" : "no", ",,", 1 + i % 2, ",", (i * 37 % 60) * 0.5);
    });
  }
  static std::string names(const std::vector<store::Column>& columns) {
    std::vector<std::string> all;
    for (const store::Column& c : columns) all.push_back(c.name);
    return join(all, " ");
  }
  static std::string ignored(const RowData& data) {
    std::vector<std::string> all;
    for (const store::IgnoredColumn& s : data.shape.ignored_columns) all.push_back(cat(s.name, "=", s.kind));
    return join(all, " ");
  }
  static void expect_told(const std::vector<std::string>& lines, const std::vector<std::string>& parts) {
    const bool found = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return std::all_of(parts.begin(), parts.end(),
                         [&](const std::string& part) { return line.find(part) != std::string::npos; });
    });
    EXPECT_TRUE(found) << join(parts, " / ") << " in\n" << join(lines, "\n");
  }

  testing::TemporaryDir dir_;
};

TEST_F(Reading, KindsDecideWhatIsLearntFrom) {
  const RowData data = read_table({.data = visits(), .target = "spent"});
  EXPECT_EQ(names(data.shape.columns), "day.month day.weekday day.seconds shop open weight");
  EXPECT_EQ(ignored(data), "visit_id=identifier note=constant");
  EXPECT_TRUE(data.shape.columns[3].words);
  EXPECT_EQ(data.shape.columns[4].form, store::CellForm::yesno);
  EXPECT_EQ(data.train.count(), 48);
  expect_told(data.notes, {"ignored columns: visit_id (identifier", "note (constant", "--types"});
  expect_told(data.notes, {"columns by type: 1 integer, 1 category, 1 yesno, 1 datetime"});
  EXPECT_TRUE(data.warnings.empty()) << data.warnings[0];
  // The ranges are those of the training part.
  const store::Column& weight = data.shape.columns[5];
  ASSERT_TRUE(weight.range);
  EXPECT_EQ(weight.range->least, 1);
  EXPECT_EQ(weight.range->most, 2);
  EXPECT_FALSE(data.shape.columns[3].range);
  const std::vector<store::Cell> cells = {"2024-01-31", "2024-01-31", "2024-01-31", "shop 3", "NO", "5"};
  const Array row = store::row_of(data.shape.columns, cells, "row");
  EXPECT_EQ(row.data<double>()[0], 1);
  EXPECT_EQ(row.data<double>()[1], 2);
  EXPECT_EQ(row.data<double>()[2], 1706659200);
  EXPECT_EQ(row.data<double>()[4], 0);
  const std::vector<store::Beyond> beyond = store::beyond_training(data.shape.columns, row.data<double>());
  ASSERT_EQ(beyond.size(), 1u);
  EXPECT_EQ(beyond[0].text, "weight is 5, in training 1 to 2");
}

TEST_F(Reading, FlagsSayOtherwise) {
  const std::string csv = visits();
  const RowData data = read_table(
      {.data = csv, .target = "spent", .drop = "shop,day", .types = "visit_id=integer,weight=category,open=text"});
  EXPECT_EQ(names(data.shape.columns), "visit_id weight");
  EXPECT_EQ(ignored(data), "day=dropped shop=dropped open=text note=constant");
  EXPECT_TRUE(data.shape.columns[1].words);
  EXPECT_EQ(data.shape.columns[1].levels, (std::vector<std::string>{"1", "2"}));
  expect_error(ErrorKind::usage, {"--drop", "no column shops", "did you mean shop?"},
               [&] { read_table({.data = csv, .target = "spent", .drop = "shops"}); });
  expect_error(ErrorKind::usage, {"--types", "no column shopp", "did you mean shop?"},
               [&] { read_table({.data = csv, .target = "spent", .types = "shopp=text"}); });
  expect_error(ErrorKind::usage, {"--types", "column spent is the target", "--task"},
               [&] { read_table({.data = csv, .target = "spent", .types = "spent=integer"}); });
  expect_error(ErrorKind::usage, {"--drop", "column spent is the target"},
               [&] { read_table({.data = csv, .target = "spent", .drop = "spent"}); });
  expect_error(ErrorKind::data, {"visits.csv:2", "column shop", "'shop 0'", "expected a finite number"},
               [&] { read_table({.data = csv, .target = "spent", .types = "shop=number"}); });
}

TEST_F(Reading, TheTaskIsSaidOrFollowsFromTheCells) {
  const std::string csv = file("t.csv", "a,y", 40, [](int i) { return cat(i % 8 * 0.5, ",", i % 4); });
  EXPECT_EQ(read_table({.data = csv, .target = "y"}).shape.classes.size(), 4u);
  EXPECT_TRUE(read_table({.data = csv, .target = "y", .task = "values"}).shape.classes.empty());
  EXPECT_TRUE(read_table({.data = csv, .target = "y", .task = "counts"}).shape.classes.empty());
  const RowData classes = read_table({.data = csv, .target = "a", .task = "classes"});
  EXPECT_EQ(classes.shape.classes.size(), 8u);
  EXPECT_EQ(classes.shape.classes[1], "0.5");
  expect_error(ErrorKind::data, {"t.csv:3", "column a", "got 0.5", "--task counts"},
               [&] { read_table({.data = csv, .target = "a", .task = "counts"}); });
  expect_error(ErrorKind::usage, {"--task", "the model or its --objective is for regression"},
               [&] { read_table({.data = csv, .target = "y", .task = "classes", .values = true}); });
}

TEST_F(Reading, ATestPartOfItsOwnIsReadByTheColumnsOfTraining) {
  const auto row = [](int i) { return cat(i * 7 % 40, ".5,", i % 2 ? "red" : "blue", ",", i % 3 ? "rose" : "daisy"); };
  const std::string csv = file("train.csv", "a,colour,kind", 60, row);
  const std::string test =
      file("test.csv", "kind,colour,a", 9, [](int i) { return cat("rose,", i ? "red" : "green", ",", i); });
  const RowData data = read_table({.data = csv, .target = "kind", .test = test});
  EXPECT_EQ(data.train.count(), 48);
  EXPECT_EQ(data.held_out.count(), 12);
  ASSERT_EQ(data.own_test.count(), 9);
  EXPECT_EQ(data.own_test.values.array().data<double>()[2], 1);
  EXPECT_EQ(data.own_test.values.array().data<double>()[1], store::kUnknownWord);
  EXPECT_EQ(data.own_test.labels.data<int64_t>()[0], 1);
  expect_told(data.notes, {"9 rows of", "test.csv", "are the test set"});
  const std::string less = file("less.csv", "kind,a", 3, [](int) { return "rose,1"; });
  expect_error(ErrorKind::data, {"less.csv", "no column colour"},
               [&] { read_table({.data = csv, .target = "kind", .test = less}); });
  const std::string other = file("other.csv", "kind,colour,a", 3, [](int) { return "tulip,red,1"; });
  expect_error(ErrorKind::data, {"other.csv:2", "class tulip", "daisy, rose"},
               [&] { read_table({.data = csv, .target = "kind", .test = other}); });
}

TEST_F(Reading, NamesComeFromAFlagOrAFileWhereThereIsNoHeader) {
  const std::string csv =
      file("bare.csv", "", 20, [](int i) { return cat(i * 3 % 20, ".5,", i % 2, ",", i % 2 ? "x" : "y"); });
  EXPECT_EQ(read_table({.data = csv}).target, "column_3");
  expect_told(read_table({.data = csv}).notes, {"not a header", "--columns"});
  const RowData data = read_table({.data = csv, .target = "flag", .columns = "size, flag,kind"});
  EXPECT_EQ(names(data.shape.columns), "size kind");
  io::write_file_atomic(dir_ / "names.txt", std::string_view("size\nflag\n\nkind\n"));
  EXPECT_EQ(read_table({.data = csv, .target = "flag", .columns = dir_ / "names.txt"}).fingerprint, data.fingerprint);
}

TEST_F(Reading, GroupsAndTimesDivideTheRows) {
  const std::string csv = visits();
  const RowData groups = read_table({.data = csv, .target = "spent", .group_column = "shop"});
  EXPECT_EQ(ignored(groups), "visit_id=identifier shop=group note=constant");
  ASSERT_TRUE(groups.train.groups && groups.held_out.groups);
  for (const int64_t g : groups.held_out.groups->to_vector<int64_t>()) {
    const std::vector<int64_t> train = groups.train.groups->to_vector<int64_t>();
    EXPECT_EQ(std::count(train.begin(), train.end(), g), 0) << "a shop on both sides";
  }
  EXPECT_EQ(groups.held_out.count(), 10) << "two shops of five visits";
  const RowData times = read_table({.data = csv, .target = "spent", .split_by = "day", .val_split = 0.25});
  const auto seconds = [](const store::Rows& rows) { return rows.values.column(2); };
  const std::vector<double> before = seconds(times.train), after = seconds(times.held_out);
  EXPECT_LT(*std::max_element(before.begin(), before.end()), *std::min_element(after.begin(), after.end()));
  expect_told(times.notes, {"held out", "the last by day"});
  expect_error(ErrorKind::usage, {"--split-by", "--group-column"},
               [&] { read_table({.data = csv, .target = "spent", .group_column = "shop", .split_by = "day"}); });
  expect_error(ErrorKind::data, {"--split-by needs times or numbers", "category"},
               [&] { read_table({.data = csv, .target = "spent", .split_by = "shop"}); });
}

TEST_F(Reading, WeightsAreReadAndChecked) {
  const RowData data = read_table({.data = visits(), .target = "spent", .weight_column = "weight"});
  EXPECT_EQ(names(data.shape.columns), "day.month day.weekday day.seconds shop open");
  EXPECT_NE(ignored(data).find("weight=weight"), std::string::npos) << ignored(data);
  ASSERT_TRUE(data.train.weights);
  const std::vector<float> weights = data.train.weights->to_vector<float>();
  EXPECT_EQ(*std::min_element(weights.begin(), weights.end()), 1);
  EXPECT_EQ(*std::max_element(weights.begin(), weights.end()), 2);
  const std::string bad =
      file("bad.csv", "a,w,y", 9, [](int i) { return cat(i, ".5,", i == 4 ? "-1" : "1", ",", i % 3, ".5"); });
  expect_error(ErrorKind::data, {"bad.csv:6", "column w", "'-1'", "expected a weight of at least 0"},
               [&] { read_table({.data = bad, .target = "y", .weight_column = "w"}); });
}

TEST_F(Reading, RowsOfWeightZeroAreAsAbsentOnes) {
  // Those of weight 0 hold an outlier, a class, a category and a missing cell that no other row has.
  const auto odd = [](int i) { return i % 10 == 3; };
  const auto row = [&](int i) {
    return cat(odd(i) ? i % 20 == 3 ? "1e9" : "" : cat(i * 7 % 11, ".5"), ",",
               odd(i)  ? "pink"
               : i % 2 ? "red"
                       : "blue",
               ",", odd(i) ? 0 : 1 + i % 3, ",",
               odd(i)  ? "tulip"
               : i % 3 ? "rose"
                       : "daisy");
  };
  std::vector<int> sound;
  for (int i = 0; i < 60; ++i) {
    if (!odd(i)) sound.push_back(i);
  }
  const std::string all = file("all.csv", "a,colour,w,kind", 60, row);
  const std::string some = file("some.csv", "a,colour,w,kind", static_cast<int>(sound.size()),
                                [&](int i) { return row(sound[static_cast<size_t>(i)]); });
  for (const double val_split : {0.2, 0.0}) {
    const auto read = [&](const std::string& csv, const std::string& test) {
      return read_table(
          {.data = csv, .target = "kind", .test = test, .weight_column = "w", .val_split = val_split, .seed = 3});
    };
    const RowData weighed = read(all, all), absent = read(some, some);
    EXPECT_EQ(weighed.shape.classes, absent.shape.classes);
    EXPECT_EQ(weighed.shape.columns, absent.shape.columns);
    EXPECT_EQ(weighed.fingerprint, absent.fingerprint);
    expect_told(weighed.notes, {"6 rows are ignored: weight 0 in column w"});
    for (const auto part : {&RowData::train, &RowData::held_out, &RowData::own_test}) {
      EXPECT_EQ((weighed.*part).labels.to_vector<int64_t>(), (absent.*part).labels.to_vector<int64_t>());
      EXPECT_EQ((weighed.*part).weights->to_vector<float>(), (absent.*part).weights->to_vector<float>());
    }
    EXPECT_EQ(weighed.own_test.count(), 54) << "rows of a test set count by their weights, too";
    EXPECT_EQ(weighed.held_out.count() > 0, val_split > 0);
    EXPECT_EQ(weighed.train.count() + weighed.held_out.count(), 54);
  }
  expect_told(read_table({.data = some, .target = "kind", .val_split = 0}).notes,
              {"all rows are fitted (--val-split 0)"});
  const std::string none = file("none.csv", "a,w,y", 9, [](int i) { return cat(i, ".5,0,", i % 3, ".5"); });
  expect_error(ErrorKind::data, {"none.csv", "column w", "all weights are 0"},
               [&] { read_table({.data = none, .target = "y", .weight_column = "w"}); });
}

TEST_F(Reading, WhatGivesTheTargetAwayIsTold) {
  const std::string csv = file("leak.csv", "a,code,price,copy,y", 40, [](int i) {
    const int y = i * 7 % 40;
    return cat(i * 11 % 13, ",", y % 2 ? "p" : "q", ",", y * 1.5 + 2, ",", y, ",", y);
  });
  expect_told(read_table({.data = csv, .target = "y"}).warnings, {"columns price, copy predict y exactly", "--drop"});
  const RowData classes = read_table({.data = csv, .target = "code", .drop = "price,copy"});
  EXPECT_TRUE(classes.warnings.empty()) << classes.warnings[0];
  const std::string coded = file("coded.csv", "a,number,kind", 40, [](int i) {
    return cat(i * 11 % 13, ",", 10 * (i % 3), ",", i % 3 == 0 ? "x" : i % 3 == 1 ? "y" : "z");
  });
  expect_told(read_table({.data = coded, .target = "kind"}).warnings, {"column number predicts kind exactly"});
}

TEST_F(Reading, RareClassesAndColumnsThatOnePartLacksAreTold) {
  const std::string rare = file("rare.csv", "a,kind", 40, [](int i) {
    return cat(i * 11 % 13, ",", i == 7 ? "odd" : i % 2 ? "x" : "y");
  });
  expect_told(read_table({.data = rare, .target = "kind"}).warnings, {"class odd has one row"});
  const std::string late = file("late.csv", "t,a,b,y", 40, [](int i) {
    return cat(i, ".5,", i < 30 ? cat(i % 7) : "", ",", i < 35 ? "" : cat(i % 3), ",", i * 7 % 40, ".5");
  });
  const RowData data = read_table({.data = late, .target = "y", .split_by = "t"});
  expect_told(data.warnings, {"a is missing in all rows of the validation set"});
  expect_told(data.warnings, {"b is missing in all rows of the training set"});
}

TEST_F(Reading, TargetsThatTellNothingAreRefused) {
  const auto refused = [&](const std::string& header, const std::function<std::string(int)>& row, ErrorKind kind,
                           const std::vector<std::string>& parts) {
    const std::string csv = file("bad.csv", header, 20, row);
    expect_error(kind, parts, [&] { read_table({.data = csv, .target = "y"}); });
  };
  refused("a,y", [](int i) { return cat(i, ".5,"); }, ErrorKind::data, {"column y", "empty in all 20 rows"});
  refused("a,y", [](int i) { return cat(i, ".5,3.5"); }, ErrorKind::data, {"column y", "3.5 in all of 20 rows"});
  refused("a,y", [](int i) { return cat(i, ".5,red"); }, ErrorKind::data, {"column y", "red in all of 20 rows"});
  refused("a,yy", [](int i) { return cat(i, ".5,3"); }, ErrorKind::usage, {"--target", "no column y", "a, yy"});
  refused("a,y", [](int i) { return cat("1,", i, ".5"); }, ErrorKind::data,
          {"the column y only", "a (constant: all values are 1)", "--types"});
}

// Memory is told before a table is read, from its first rows; a small one is not even opened.
TEST_F(Reading, TheMemoryThatItTakesIsTold) {
  constexpr int kRows = 200000;
  const std::string csv =
      file("large.csv", "a,b,c,y", kRows, [](int i) { return cat(100 + i % 900, ",x,0.25,", i % 10); });
  const double needed = bytes_of_reading(4.0 * kRows);
  EXPECT_EQ(needed, 8 * 4.0 * kRows);
  EXPECT_NEAR(bytes_of_reading({.data = csv}, 0), needed, 0.01 * needed);
  EXPECT_GE(bytes_of_reading({.data = csv}, 1e12), needed);
  EXPECT_GE(bytes_of_reading({.data = dir_ / "missing.csv"}, 0), 0);
  ASSERT_EQ(std::system(cat("gzip ", csv).c_str()), 0);
  EXPECT_NEAR(bytes_of_reading({.data = csv + ".gz"}, 0), needed, 0.01 * needed);
}

// Rows on the disk are those in memory.
TEST_F(Reading, RowsOnTheDiskAreThoseInMemory) {
  const std::string csv = visits();
  const RowData here = read_table({.data = csv}), there = read_table({.data = csv, .folder = dir_.path()});
  EXPECT_EQ(there.fingerprint, here.fingerprint);
  EXPECT_EQ(there.folder, dir_.path());
  expect_told(there.notes, {"instead of memory"});
  const auto bytes = [](const Array& a) { return std::string(static_cast<const char*>(a.raw()), a.bytes()); };
  EXPECT_EQ(bytes(there.train.values.array()), bytes(here.train.values.array()));
  EXPECT_EQ(bytes(there.held_out.values.array()), bytes(here.held_out.values.array()));
}

// Categories that are integers are the same however they are written; other cells keep their spelling.
TEST_F(Reading, CategoriesAreOneInEverySpelling) {
  const std::string csv = file("k.csv", "k,a,y", 60, [](int i) {
    const char* const words[] = {"1", "2.0", "2", "007", "1.10"};
    return cat(words[i % 5], ",", i * 7 % 13, ",", i * 3 % 17, ".5");
  });
  const RowData data = read_table({.data = csv, .target = "y", .types = "k=category"});
  const store::Column& k = data.shape.columns[0];
  EXPECT_EQ(k.levels, (std::vector<std::string>{"007", "1", "1.10", "2"}));
  for (const auto& [cell, level] : std::vector<std::pair<const char*, double>>{{"2", 3},
                                                                               {"2.0", 3},
                                                                               {"2.00", 3},
                                                                               {"1.0", 1},
                                                                               {"1.10", 2},
                                                                               {"1.1", 2},
                                                                               {"7", 0},
                                                                               {"007", 0},
                                                                               {"3", store::kUnknownWord},
                                                                               {"2.5", store::kUnknownWord},
                                                                               {"x", store::kUnknownWord}}) {
    EXPECT_EQ(store::value_in(k, cell), level) << cell;
  }
  EXPECT_TRUE(k.complete);
}

// Columns in which a model finds nothing are named, dates once.
TEST_F(Reading, ColumnsWithoutAKnownCellAreTold) {
  const std::vector<store::Column> columns = {
      {.name = "k", .words = true, .levels = {"a", "b"}}, {.name = "n", .complete = true}, {.name = "m"}};
  const double nan = std::nan(""), unknown = store::kUnknownWord;
  const auto told = [&](const std::vector<double>& cells) {
    store::ColumnGaps gaps;
    gaps.add(columns, Array::of<double>(cells, {static_cast<int64_t>(cells.size()) / 3, 3}));
    return join(gaps.warnings(columns), "; ");
  };
  EXPECT_EQ(told({unknown, 1, 1, nan, 1, 1}), "column k: the category is unknown in all 2 rows: training had a, b");
  EXPECT_EQ(told({unknown, 1, 1, 0, 1, 1}), "");
  EXPECT_EQ(told({0, nan, nan}), "column n is missing in the row, and in no row of the training set");
  EXPECT_EQ(told({0, -1, nan}), "") << "a number is no unknown category";
  std::vector<double> many;
  for (int i = 0; i < 10; ++i) many.insert(many.end(), {0, 1, nan});
  EXPECT_EQ(told(many), "column m is missing in all 10 rows");
}

// An index that pandas or R wrote is none of the columns to learn from.
TEST_F(Reading, IndexColumnsAreIgnored) {
  const auto cells = [](int i) { return cat(i * 37 % 50, ",", i % 7, ".5,", i % 2 ? "rose" : "daisy"); };
  for (const char* header : {"Unnamed: 0,a,kind", "index,a,kind"}) {
    const RowData data = read_table({.data = file("i.csv", header, 50, cells), .target = "kind"});
    EXPECT_EQ(names(data.shape.columns), "a") << header;
    expect_told(data.notes, {"ignored columns: ", "(identifier"});
  }
  for (const char* header : {",a,kind", "\"\",a,kind", "a,kind"}) {
    const RowData data = read_table({.data = file("i.csv", header, 50, cells), .target = "kind"});
    EXPECT_EQ(names(data.shape.columns), "a") << header;
    expect_told(data.warnings, {"ignored column_1 (identifier: the header has no name for it", "--types"});
  }
}

// They were counted as missing without a word, which pandas does not do.
TEST_F(Reading, SpellingsThatAreMissingAmongDatesOrAsSaidAreNoted) {
  const std::string csv = file("days.csv", "day,mark", 40, [](int i) {
    return cat(i % 8 == 3 ? "-" : cat("2024-01-", 10 + i % 12), ",", i % 10 == 0 ? "?" : i % 2 ? "a" : "b");
  });
  const TableDescription d = describe_table(csv, "", "mark=category");
  EXPECT_EQ(d.columns[0].kind, "datetime");
  EXPECT_EQ(d.columns[0].missing, 5);
  EXPECT_EQ(d.columns[0].note, "'-' (5 values) read as missing values");
  EXPECT_EQ(d.columns[1].note, "'?' (4 values) read as missing values");
}

// The listing called the only feature an identifier, which training used.
TEST_F(Reading, TheOnlyFeatureIsListedAsTrainingUsesIt) {
  const auto cells = [](int i) { return cat(i + 1, ",", i % 7, ".5"); };
  const std::string two = file("two.csv", "day_number,sales", 200, cells);
  EXPECT_EQ(names(read_table({.data = two, .target = "sales"}).shape.columns), "day_number");
  EXPECT_EQ(describe_table(two, "", "").columns[0].kind, "integer");
  const std::string three =
      file("three.csv", "day_number,sales,shops", 200, [&](int i) { return cat(cells(i), ",", i % 3); });
  EXPECT_EQ(names(read_table({.data = three, .target = "sales"}).shape.columns), "shops");
  EXPECT_EQ(describe_table(three, "", "").columns[0].kind, "identifier");
}

TEST_F(Reading, RowsWithoutAnyValueAreNoted) {
  const std::string csv =
      file("gaps.csv", "a,b", 30, [](int i) { return i % 10 == 4 ? std::string(",") : cat(i, ".5,", i % 7); });
  EXPECT_EQ(describe_table(csv, "", "").note, "3 rows without any value skipped");
  expect_told(read_table({.data = csv, .target = "a"}).notes, {"3 rows without any value skipped"});
}

TEST_F(Reading, ColumnsAreListedWithTheirKinds) {
  const TableDescription d = describe_table(visits(), "", "");
  EXPECT_EQ(d.rows, 60);
  ASSERT_EQ(d.columns.size(), 7u);
  const auto line = [&](size_t i) {
    const ColumnDescription& c = d.columns[i];
    return cat(c.name, " ", c.kind, " ", c.missing, " ", c.different, " ", c.values);
  };
  EXPECT_EQ(line(0), "visit_id identifier 0 60 587 to 1000");
  EXPECT_EQ(line(1), "day datetime 0 56 2024-01-01 to 2024-02-28");
  EXPECT_EQ(line(2), "shop category 0 12 shop 0 (5), shop 1 (5), shop 2 (5), ...");
  EXPECT_EQ(line(3), "open yesno 0 2 yes (40), no (20)");
  EXPECT_EQ(line(4), "note constant 60 0 ");
  EXPECT_EQ(line(5), "weight integer 0 2 1 to 2");
  EXPECT_EQ(line(6), "spent number 0 60 0 to 29.5");
  EXPECT_EQ(describe_table(dir_ / "visits.csv", "", "weight=category").columns[5].values, "1 (30), 2 (30)");
}

TEST_F(Reading, ATableInMemoryIsReadAsItsFile) {
  const auto price_of = [](int i) { return 2.5 * (i % 7) + (i % 3 > 0 ? 1 : 0); };
  const std::string csv = file("houses.csv", "size,color,price", 40, [&](int i) {
    return cat(0.5 * (i % 7), ",", i % 3 > 0 ? "red" : "blue", ",", price_of(i));
  });
  std::vector<double> size, price;
  std::vector<std::string> color;
  for (int i = 0; i < 40; ++i) {
    size.push_back(0.5 * (i % 7));
    color.emplace_back(i % 3 > 0 ? "red" : "blue");
    price.push_back(price_of(i));
  }
  const data::Source memory({{"size", size}, {"color", color}, {"price", price}}, "houses");
  const RowData read = read_table({.data = csv, .target = "price", .task = "values"});
  const RowData given = read_table({.data = memory, .target = "price", .task = "values"});
  EXPECT_EQ(names(given.shape.columns), names(read.shape.columns));
  EXPECT_EQ(given.train.values.array().to_vector<double>(), read.train.values.array().to_vector<double>());
  EXPECT_EQ(given.held_out.labels.to_vector<float>(), read.held_out.labels.to_vector<float>());
  EXPECT_EQ(given.fingerprint, read.fingerprint);
  EXPECT_TRUE(read_table({.data = memory, .target = "price", .types = "size=category"}).shape.columns[0].words);
  expect_error(ErrorKind::data, {"houses", "column b has 1 rows, column a has 2"}, [] {
    data::Source({{"a", std::vector<double>{1, 2}}, {"b", std::vector<double>{1}}}, "houses");
  });
}

}  // namespace
}  // namespace freight::tables
