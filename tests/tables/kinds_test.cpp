// Tests the kind of a column, by its cells and its name, and what a model learns from it.
#include "freight/tables/kinds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "freight/base/strings.h"
#include "tests/support/files.h"

namespace freight::tables {
namespace {

using freight::testing::expect_error;

// A table of one column of these cells, by their numbers, and another one.
data::Cells column_of(const std::string& name, int rows, const std::function<std::string(int)>& cell,
                      data::CellKind kind = data::CellKind::by_cells) {
  std::string text = name + ",other\n";
  for (int i = 0; i < rows; ++i) text += cat(cell(i), ",", i * i % 7, "\n");
  const std::vector<std::string> names = {name, "other"};
  return data::parse_cells({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, "t.csv",
                           {.kinds =
                                [kind](const data::TableHead&) {
                                  return std::vector<data::CellKind>{kind, data::CellKind::by_cells};
                                },
                            .names = names});
}

TypedColumn typed(const std::string& name, int rows, const std::function<std::string(int)>& cell) {
  data::Cells cells = column_of(name, rows, cell);
  return type_column(cells, 0, "t.csv", {});
}

TEST(Kinds, AreToldByTheCells) {
  struct Case {
    const char* what;
    const char* name;
    int rows;
    std::function<std::string(int)> cell;
    ColumnKind kind;
  };
  const auto one_of = [](std::vector<std::string> words) {
    return [words = std::move(words)](int i) { return words[static_cast<size_t>(i) % words.size()]; };
  };
  const std::vector<Case> cases = {
      {"fractions", "a", 30, [](int i) { return cat(i, ".5"); }, ColumnKind::number},
      {"whole numbers, some missing", "a", 30, one_of({"3", "", "4", "NA"}), ColumnKind::integer},
      {"whole numbers as fractions", "a", 30, one_of({"3.0", "4e2"}), ColumnKind::integer},
      {"numbers that doubles do not tell apart", "a", 30, one_of({"9007199254740993", "9007199254740992"}),
       ColumnKind::category},
      {"the same, all different", "a", 30, [](int i) { return cat("12345678901234560", 10 + i); },
       ColumnKind::identifier},
      {"large quantities among others", "a", 30, one_of({"9007199254740993", "17", "120"}), ColumnKind::number},
      {"thousands", "a", 30, one_of({"\"1,234\"", "\"12,345,678\"", "999", "-"}), ColumnKind::integer},
      {"decimal commas", "a", 30, one_of({"\"9,1\"", "\"12,25\"", "7"}), ColumnKind::number},
      {"points between thousands", "a", 30, one_of({"\"1.234,5\"", "1.234.567"}), ColumnKind::number},
      {"blanks between thousands", "a", 30,
       one_of({"1 234.5",
               "1\xc2\xa0"
               "234"}),
       ColumnKind::number},
      {"apostrophes between thousands", "a", 30, one_of({"1'234.5", "12"}), ColumnKind::number},
      {"pairs of numbers", "a", 30, one_of({"\"1,2,3\"", "\"4,5,6\""}), ColumnKind::category},
      {"what pandas, R, SQL and Excel write for missing cells", "a", 30,
       one_of({"3", "None", "NaT", "\\N", "#DIV/0!", ".", "-", "n.a.", "(null)", "4"}), ColumnKind::integer},
      {"dashes beside words", "a", 30, one_of({"-", "+"}), ColumnKind::category},
      {"years of two digits", "a", 30, one_of({"27/10/25", "1/12/25", "-"}), ColumnKind::datetime},
      {"words", "a", 30, one_of({"red", "blue", "green"}), ColumnKind::category},
      {"words and numbers", "a", 30, one_of({"1", "2", "many"}), ColumnKind::category},
      {"yes and no", "a", 30, one_of({"Yes", "NO", "no", ""}), ColumnKind::yesno},
      {"true and false", "a", 30, one_of({"true", "False"}), ColumnKind::yesno},
      {"yes alone", "a", 30, one_of({"yes", ""}), ColumnKind::category},
      {"yes, no and perhaps", "a", 30, one_of({"yes", "no", "perhaps"}), ColumnKind::category},
      {"ways that are mixed", "a", 30, one_of({"yes", "false"}), ColumnKind::category},
      {"dates", "a", 30, one_of({"2024-01-31", "2024-02-01"}), ColumnKind::datetime},
      {"dates, one of which is none", "a", 30, one_of({"2024-01-31", "2024-02-30"}), ColumnKind::category},
      {"one word", "a", 30, one_of({"red"}), ColumnKind::constant},
      {"one number", "a", 30, one_of({"3"}), ColumnKind::constant},
      {"nothing", "a", 30, one_of({""}), ColumnKind::constant},
      {"a word or nothing", "a", 30, one_of({"red", ""}), ColumnKind::category},
      {"words that are all different", "a", 30, [](int i) { return cat("x", i, "k"); }, ColumnKind::identifier},
      {"a few words that are all different", "a", 10, [](int i) { return cat("x", i, "k"); }, ColumnKind::category},
      {"sentences", "a", 30, [](int i) { return cat("the house of number ", i); }, ColumnKind::text},
      {"sentences that occur again", "a", 60, [](int i) { return cat("the house of number ", i % 9); },
       ColumnKind::category},
      {"what counts the rows", "a", 100, [](int i) { return cat(i + 7); }, ColumnKind::identifier},
      {"the same of few rows", "a", 99, [](int i) { return cat(i + 7); }, ColumnKind::integer},
      {"numbers that are all different", "a", 200, [](int i) { return cat((i * 37) % 211); }, ColumnKind::integer},
      {"the same under the name of an identifier", "customer_id", 30, [](int i) { return cat((i * 37) % 211); },
       ColumnKind::identifier},
      {"the name alone", "customerId", 30, [](int i) { return cat(i % 10); }, ColumnKind::integer},
      {"a name that ends alike", "paid", 30, [](int i) { return cat(i); }, ColumnKind::integer},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(to_string(typed(c.name, c.rows, c.cell).kind), to_string(c.kind)) << c.what;
  }
}

TEST(Kinds, OrdersOfDaysAndMonthsAreToldByAllDates) {
  const auto order = [](const char* one, const char* other) {
    return typed("a", 20, [&](int i) { return std::string(i % 2 ? one : other); });
  };
  EXPECT_EQ(order("26.11.2026", "01.02.2026").order, data::DateOrder::dmy);
  EXPECT_EQ(order("11/26/2026", "1/2/2026").order, data::DateOrder::mdy);
  EXPECT_EQ(order("2026/11/26", "2026/1/2").order, data::DateOrder::ymd);
  EXPECT_EQ(order("11/26/2026", "1/2/2026").note, "");
  const TypedColumn unclear = order("1/2/2026", "3/4/2026");
  EXPECT_EQ(unclear.order, data::DateOrder::mdy);
  EXPECT_NE(unclear.note.find("month, day, year"), std::string::npos) << unclear.note;
  EXPECT_EQ(order("26/11/2026", "11/26/2026").kind, ColumnKind::category) << "no order fits both";
}

TEST(Kinds, MixedCellsAndNamesThatMisleadAreTold) {
  const TypedColumn mixed = typed("width", 50, [](int i) { return i == 30 ? std::string("wide") : cat(i % 9); });
  EXPECT_EQ(mixed.kind, ColumnKind::category);
  for (const char* part : {"'wide' (line 32)", "49 of 50 values are numbers", "--types width=number"}) {
    EXPECT_NE(mixed.note.find(part), std::string::npos) << mixed.note;
  }
  // Tickets of the Titanic: three of four are numbers.
  const TypedColumn tickets = typed("Ticket", 80, [](int i) { return i % 4 ? cat(i / 2) : cat("PC ", i / 2); });
  EXPECT_EQ(tickets.kind, ColumnKind::category);
  EXPECT_NE(tickets.note.find("'PC 0' (line 2), 'PC 2' (line 6), 'PC 4' (line 10) and 17 other values"),
            std::string::npos)
      << tickets.note;
  const auto odd = [](int count) {
    return typed("width", 100, [&](int i) { return i < count ? std::string("wide") : cat(i % 9); }).note;
  };
  EXPECT_NE(odd(5).find("95 of 100 values are numbers"), std::string::npos) << odd(5);
  EXPECT_NE(
      odd(50).find("50 of 100 values are numbers; read as a category because of 'wide' (50 values, first in line 2)"),
      std::string::npos)
      << odd(50);
  EXPECT_EQ(odd(51), "");
  EXPECT_NE(typed("store_id", 30, [](int i) { return cat(i % 3); }).note.find("its numbers repeat"), std::string::npos);
  EXPECT_EQ(typed("store", 30, [](int i) { return cat(i % 3); }).note, "");
  const TypedColumn many = typed("town", 30000, [](int i) { return cat("t", i / 3); });
  EXPECT_EQ(many.kind, ColumnKind::category);
  EXPECT_NE(many.note.find("10,000 categories"), std::string::npos) << many.note;
  EXPECT_EQ(type_of(column_of("a", 100, [](int i) { return cat(i); }).columns[0], "t.csv", {.alone = true}).kind,
            ColumnKind::integer)
      << "there is nothing else to learn from";
}

// Numbers in another writing become plain ones, and a note says how one of them was read.
TEST(Kinds, NumbersOfSeveralCountriesAreReadAndTold) {
  struct Case {
    std::vector<std::string> cells;
    std::vector<double> numbers;  // NaN: missing
    const char* note;
  };
  const double kNan = std::nan("");
  for (const Case& c : std::vector<Case>{
           {{"\"1,234\"", "56"}, {1234, 56}, "'1,234' is read as 1234"},
           {{"\"1,234\"", "1234"}, {1.234, 1234}, "'1,234' is read as 1.234"},
           {{"\"1,234\"", "\"0,5\""}, {1.234, 0.5}, "'1,234' is read as 1.234"},
           {{"\"12,34,567\"", "1"}, {1234567, 1}, "'12,34,567' is read as 1234567"},
           {{"\"9,1\"", "9.5"}, {9.1, 9.5}, "'9,1' is read as 9.1"},
           {{"\"9,1\"", "1.234"}, {9.1, 1234}, "'9,1' is read as 9.1"},
           {{"1.234.567", "1.234"}, {1234567, 1234}, "'1.234.567' is read as 1234567"},
           {{"\"-1 234,5e1\"", "-"}, {-12345, kNan}, "'-' (15 values) read as missing values"},
           {{"3", "."}, {3, kNan}, "'.' (15 values) read as missing values"},
           {{"3", "?"}, {3, kNan}, "'?' (15 values) read as missing values"},
           {{"3", "None"}, {3, kNan}, ""},
           {{"9007199254740993", "1", "2"}, {9007199254740992, 1, 2}, "10 integers of 2^53 or more are rounded"},
       }) {
    data::Cells cells = column_of("a", 30, [&](int i) { return c.cells[static_cast<size_t>(i) % c.cells.size()]; });
    const TypedColumn typed = type_column(cells, 0, "t.csv", {});
    ASSERT_FALSE(cells.columns[0].is_words()) << c.cells[0];
    for (size_t i = 0; i < c.numbers.size(); ++i) {
      const double got = cells.columns[0].numbers[i];
      EXPECT_TRUE(got == c.numbers[i] || (std::isnan(got) && std::isnan(c.numbers[i]))) << c.cells[i] << " " << got;
      // A stored model reads the same cell alike.
      const std::vector<store::Column> features = features_of(cells.columns[0], typed, {});
      const std::string text = c.cells[i][0] == '"' ? c.cells[i].substr(1, c.cells[i].size() - 2) : c.cells[i];
      const std::optional<double> again = store::value_in(features.at(0), text);
      ASSERT_TRUE(again) << text;
      EXPECT_TRUE(*again == got || (std::isnan(got) && std::isnan(*again))) << text;
    }
    EXPECT_TRUE(*c.note ? typed.note.find(c.note) != std::string::npos : typed.note.empty()) << typed.note;
  }
}

TEST(Kinds, PartsOfDatesThatChangeAreLearntFrom) {
  const auto parts = [](const std::function<std::string(int)>& cell, const std::vector<std::string>& names) {
    const data::Cells cells = column_of("when", 40, cell);
    std::vector<std::string> found;
    for (const store::Column& c : features_of(cells.columns[0], type_of(cells.columns[0], "t.csv", {}), names)) {
      EXPECT_EQ(c.source_name(), "when");
      EXPECT_FALSE(c.words);
      found.push_back(c.name);
    }
    return join(found, " ");
  };
  EXPECT_EQ(parts([](int i) { return cat(2000 + i, "-0", 1 + i % 9, "-15 ", 10 + i % 9, ":30"); }, {}),
            "when.year when.month when.weekday when.hour when.seconds");
  EXPECT_EQ(parts([](int i) { return cat("2024-01-", 10 + i % 9); }, {}), "when.weekday when.seconds");
  EXPECT_EQ(parts([](int i) { return cat("2024-01-", 10 + i % 9); }, {"when.weekday"}), "when.weekday_ when.seconds");
}

TEST(Kinds, AreSaidByNameAndHeldAgainstTheCells) {
  EXPECT_EQ(parse_types("a=number,b c=yesno"),
            (std::map<std::string, ColumnKind>{{"a", ColumnKind::number}, {"b c", ColumnKind::yesno}}));
  EXPECT_TRUE(parse_types("").empty());
  expect_error(ErrorKind::usage, {"--types", "a=catgory", "did you mean category?"}, [] { parse_types("a=catgory"); });
  expect_error(ErrorKind::usage, {"--types", "expected COLUMN=TYPE"}, [] { parse_types("a"); });
  expect_error(ErrorKind::usage, {"--types", "two columns are named 'a'"}, [] { parse_types("a=text,a=number"); });
  const auto said = [](ColumnKind kind, const char* one, const char* other) {
    const auto cell = [&](int i) { return std::string(i % 2 ? one : other); };
    return type_of(column_of("a", 20, cell, cells_of(kind)).columns[0], "t.csv", {.said = kind});
  };
  EXPECT_EQ(said(ColumnKind::category, "1", "2").kind, ColumnKind::category);
  EXPECT_EQ(said(ColumnKind::yesno, "1", "no").kind, ColumnKind::yesno);
  EXPECT_EQ(said(ColumnKind::datetime, "26.11.2026", "1.1.2026").order, data::DateOrder::dmy);
  EXPECT_EQ(said(ColumnKind::identifier, "1", "1").kind, ColumnKind::identifier);
  expect_error(ErrorKind::data, {"t.csv", "column a", "yesno", "'perhaps'"},
               [&] { said(ColumnKind::yesno, "yes", "perhaps"); });
  expect_error(ErrorKind::data, {"t.csv", "column a", "datetime", "'soon'"},
               [&] { said(ColumnKind::datetime, "2026-11-26", "soon"); });
  expect_error(ErrorKind::data, {"t.csv", "column a", "integer", "1.5"},
               [&] { said(ColumnKind::integer, "1", "1.5"); });
}

}  // namespace
}  // namespace freight::tables
