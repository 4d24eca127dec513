// Tables that are known by name: what is told of each, and that the real ones are read as it says.
#include "freight/data/table_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "freight/data/catalog.h"
#include "freight/data/cells.h"
#include "freight/data/source.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;
using Names = std::vector<std::string>;

size_t column_of(const Cells& cells, const std::string& name) {
  const auto at = std::find(cells.head.names.begin(), cells.head.names.end(), name);
  return static_cast<size_t>(at - cells.head.names.begin());
}

TEST(TableSets, AreInTheCatalogAndNoOtherContent) {
  int64_t tables = 0;
  for (const CatalogEntry& e : catalog()) {
    if (!e.table) continue;
    ++tables;
    EXPECT_EQ(Source(e.name).content(), Content::table) << e.name;
    EXPECT_FALSE(e.table->target.empty()) << e.name;
    for (const CatalogFile& f : e.files) EXPECT_EQ(f.sha256.size(), 64u) << f.name;
  }
  EXPECT_EQ(tables, 10);
  expect_error(ErrorKind::data, {"is a table", "--model gbdt"}, [] { load("adult"); });
  expect_error(ErrorKind::data, {"digits", "is not a table"}, [] { Source("digits").table(); });
}

TEST(TableSets, RealOnesHaveTheRowsTheTargetAndTheColumnsThatAreTold) {
  const std::string dir = real_data("tabular/adult/adult.data.gz");
  if (dir.empty()) GTEST_SKIP() << "no real data";
  const LoadOptions options{.data_dir = dir};
  for (const CatalogEntry& e : table_entries()) {
    SCOPED_TRACE(e.name);
    const TableSet set = Source(e.name, options).table();
    const Cells train = read_part(set, set.train, {});
    EXPECT_EQ(train.rows(), e.train);
    const size_t target = column_of(train, set.target);
    ASSERT_LT(target, train.columns.size());
    for (int64_t i = 0; i < train.rows(); ++i) ASSERT_FALSE(train.columns[target].missing(i)) << train.place(i);
    for (const std::string& dropped : set.drop) EXPECT_LT(column_of(train, dropped), train.columns.size()) << dropped;
    EXPECT_EQ(std::to_string(train.columns.size() - 1 - set.drop.size()) + " columns", e.shape);
    if (set.test.files.empty()) continue;
    const Cells test = read_part(set, set.test, {});
    EXPECT_EQ(test.rows(), e.test);
    EXPECT_EQ(test.head.names, train.head.names);
    for (size_t k = 0; k < train.columns.size(); ++k) {
      EXPECT_EQ(test.columns[k].is_words(), train.columns[k].is_words()) << train.head.names[k];
    }
  }
}

TEST(TableSets, WhatIsOddAboutTheFilesOfOthersIsSetRight) {
  const std::string dir = real_data("tabular/adult/adult.data.gz");
  if (dir.empty()) GTEST_SKIP() << "no real data";
  const LoadOptions options{.data_dir = dir};
  const TableSet adult = Source("adult", options).table();
  const Cells test = read_part(adult, adult.test, {});
  const CellColumn& income = test.columns[column_of(test, "income")];
  ASSERT_EQ(income.words.size(), 2u);
  EXPECT_NE(income.words.find("<=50K"), Words::kMissing) << "the dot behind the classes is gone";
  EXPECT_EQ(test.place(0).substr(test.place(0).rfind(':')), ":2") << "the first line is no row";

  const TableSet wine = Source("wine_quality", options).table();
  const Cells wines = read_part(wine, wine.train, {});
  EXPECT_EQ(wines.head.names.back(), "color");
  EXPECT_EQ(wines.columns.back().text(1598), "red");
  EXPECT_EQ(wines.columns.back().text(1599), "white");

  const TableSet agaricus = Source("agaricus", options).table();
  const Cells mushrooms = read_part(agaricus, agaricus.train, {});
  // The first row of UCI's file is poisonous, with a convex cap.
  EXPECT_EQ(mushrooms.columns[0].numbers[0], 1);
  EXPECT_EQ(mushrooms.columns[column_of(mushrooms, "cap-shape=convex")].numbers[0], 1);
  EXPECT_EQ(mushrooms.columns[column_of(mushrooms, "cap-shape=bell")].numbers[0], 0);
}

TEST(TableSets, DamagedFilesAreFound) {
  const TemporaryDir dir;
  std::filesystem::create_directories(dir / "yacht");
  io::write_file_atomic(dir / "yacht/yacht_hydrodynamics.data", std::string_view("1 2 3 4 5 6 7\n2 3 4 5 6 7 8\n"));
  const Verification v = verify("yacht", {.data_dir = dir.path()});
  EXPECT_FALSE(v.ok());
  EXPECT_EQ(v.train, "train 2 rows of 7 columns");
}

TEST(SparseRows, FeaturesThatALineLacksAreZero) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "a.txt", std::string_view("1 2:0.5 4:-1 # a comment\n\n0 3:7\n"));
  const Cells c = read_cells(dir / "a.txt");
  EXPECT_EQ(c.head.names, (Names{"label", "feature_2", "feature_3", "feature_4"}));
  ASSERT_EQ(c.rows(), 2);
  EXPECT_EQ(c.place(1), (dir / "a.txt") + ":3");
  EXPECT_EQ(c.columns[1].numbers[0], 0.5);
  EXPECT_EQ(c.columns[1].numbers[1], 0);
  EXPECT_EQ(c.columns[3].numbers[0], -1);
  io::write_file_atomic(dir / "featmap.txt", std::string_view("0\tred\ti\n1\tsize\tq\n2\tage\tq\n3\tweight\tq\n"));
  EXPECT_EQ(read_cells(dir / "a.txt").head.names, (Names{"label", "red", "size", "age", "weight"}))
      << "lines count from 1, the map from 0";
  io::write_file_atomic(dir / "b.txt", std::string_view("1 1:2\n0 1:x\n"));
  expect_error(ErrorKind::data, {"b.txt:2", "1:x", "INDEX:VALUE"}, [&] { read_cells(dir / "b.txt"); });
  io::write_file_atomic(dir / "c.txt", std::string_view("1 1:2\n0 3000000:1\n"));
  expect_error(ErrorKind::data, {"c.txt:2", "3000000", "100000"}, [&] { read_cells(dir / "c.txt"); });
}

TEST(ParquetFiles, AreRefusedWithWhatToDo) {
  expect_error(ErrorKind::data, {"t.parquet", "pandas.read_parquet"},
               [] { parse_cells(bytes_of("PAR1\x15\x04"), "t.parquet"); });
}

}  // namespace
}  // namespace freight::data
