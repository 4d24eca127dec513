// Cells of tables: what is a number, a word, missing or odd, where rows stand, and that the fast reader reads as the
// plain one of plain_csv.h does, however the file is cut into pieces.
#include "freight/data/cells.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "freight/base/strings.h"
#include "freight/data/cell_filler_internal.h"
#include "freight/data/columns.h"
#include "freight/io/file.h"
#include "tests/data/plain_csv.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;

Cells parse(const std::string& text, const CellsAsked& asked = {}) {
  return parse_cells(bytes_of(text), "t.csv", asked);
}
CellsAsked of_kinds(std::vector<CellKind> kinds) {
  return {.kinds = [kinds](const TableHead&) { return kinds; }};
}
std::vector<std::string> texts(const CellColumn& column, int64_t rows) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < rows; ++i) out.push_back(column.text(i));
  return out;
}
using Texts = std::vector<std::string>;

TEST(Cells, ColumnsAreNumbersOrWordsByTheirCells) {
  const Cells c = parse("a,b,c\n1,red,\n -2.5 , blue ,NA\n?,red,7\n");
  ASSERT_EQ(c.rows(), 3);
  EXPECT_TRUE(c.head.header);
  EXPECT_EQ(c.head.names, (Texts{"a", "b", "c"}));
  EXPECT_EQ(c.columns[0].numbers[1], -2.5);
  EXPECT_TRUE(c.columns[0].missing(2));
  ASSERT_TRUE(c.columns[1].is_words());
  EXPECT_EQ(texts(c.columns[1], 3), (Texts{"red", "blue", "red"}));
  EXPECT_EQ(c.columns[1].words.size(), 2u);
  EXPECT_EQ(c.columns[1].first_word->line, 2);
  EXPECT_FALSE(c.columns[2].is_words());
  EXPECT_TRUE(c.columns[2].missing(0));
  EXPECT_EQ(c.columns[2].numbers[2], 7);
}

TEST(Cells, AColumnThatTurnsToWordsKeepsHowItsNumbersAreWritten) {
  std::string text = "zip,n\n";
  for (int i = 0; i < 50000; ++i) text += cat("00", i, ",", i, "\n");
  text += "B-1234,1\n";
  const Cells c = parse(text);
  ASSERT_TRUE(c.columns[0].is_words());
  EXPECT_EQ(c.columns[0].text(7), "007");
  EXPECT_EQ(c.columns[0].text(49999), "0049999");
  EXPECT_EQ(c.columns[0].text(50000), "B-1234");
  EXPECT_EQ(c.columns[0].first_word->text, "B-1234");
  EXPECT_EQ(c.columns[0].first_word->line, 50002);
  EXPECT_FALSE(c.columns[1].is_words());
  EXPECT_EQ(c.columns[1].numbers[49999], 49999);
}

TEST(Cells, KindsThatAreAskedForHold) {
  const Cells c = parse("a,b,c,d\n007,1,x,2\n7,wide,y,3\n?,inf,z,4\n",
                        of_kinds({CellKind::words, CellKind::numbers, CellKind::skipped, CellKind::by_cells}));
  EXPECT_EQ(texts(c.columns[0], 3), (Texts{"007", "7", ""}));
  ASSERT_EQ(c.columns[1].odd.size(), 2u);
  EXPECT_EQ(c.columns[1].odd[0].row, 1);
  EXPECT_EQ(c.columns[1].odd[0].line, 3);
  EXPECT_EQ(c.columns[1].odd[0].text, "wide");
  EXPECT_EQ(c.columns[1].text(2), "inf");
  EXPECT_FALSE(c.columns[1].missing(2));
  EXPECT_TRUE(std::isnan(c.columns[1].numbers[1]));
  EXPECT_EQ(c.columns[2].kind, CellKind::skipped);
  EXPECT_TRUE(c.columns[2].numbers.empty() && c.columns[2].codes.empty());
  EXPECT_EQ(c.columns[3].numbers[2], 4);
}

TEST(Cells, RowsAreKeptWithTheirLinesAndOddCells) {
  Cells c = parse("a,b\n1,x\n\n\"2\",\"two\nlines\"\ninf,y\n4,z\n");
  ASSERT_EQ(c.rows(), 4);
  EXPECT_EQ(c.place(0), "t.csv:2");
  EXPECT_EQ(c.place(1), "t.csv:4");
  EXPECT_EQ(c.place(2), "t.csv:6");
  c.keep({true, false, true, true});
  ASSERT_EQ(c.rows(), 3);
  EXPECT_EQ(c.place(1), "t.csv:6");
  EXPECT_EQ(c.place(2), "t.csv:7");
  EXPECT_EQ(texts(c.columns[0], 3), (Texts{"1", "inf", "4"}));
  EXPECT_EQ(texts(c.columns[1], 3), (Texts{"x", "y", "z"}));
}

TEST(Cells, NamesComeFromTheHeaderOrFromWhoAsks) {
  EXPECT_EQ(parse("# \"RMSD\",\"F1\"\n1,2\n").head.names, (Texts{"RMSD", "F1"}));
  EXPECT_EQ(parse("1,2\n3,4\n").head.names, (Texts{"column_1", "column_2"}));
  const CellsAsked named{.names = {"x", "y"}};
  EXPECT_EQ(parse("red,blue\n1,2\n", named).rows(), 2) << "names that are given say that there is no header";
  EXPECT_EQ(parse("x,y\n1,2\n", named).rows(), 1) << "but for one of just these";
  EXPECT_EQ(parse("red,blue\n1,2\n", named).head.names, (Texts{"x", "y"}));
  expect_error(ErrorKind::data, {"t.csv:1", "each of 3 columns, got 2"}, [&] { parse("1,2,3\n", named); });
  EXPECT_EQ(parse("|noise\n1,2\n", {.skip_lines = 1}).place(0), "t.csv:2");
}

TEST(Cells, RowsOfSeparatorsAloneAreSkippedAndCounted) {
  const Cells c = parse("a,b\n1,2\n\"\",\n3,4\n,\n");
  EXPECT_EQ(c.rows(), 2);
  EXPECT_EQ(c.blank_rows, 2);
  EXPECT_EQ(c.place(1), "t.csv:4");
  EXPECT_EQ(parse("a\n1\n\"\"\n").blank_rows, 0) << "a column's cell is missing";
}

// A first row of words alone is data where it looks like the rows below it, and a header of which that is said where
// nothing shows it.
TEST(Cells, WordsInTheFirstRowMayBeData) {
  struct Case {
    const char* text;
    bool header, unsure;
  };
  const std::string colours = "red\nblue\nred\nblue\nred\nblue\nred\nblue\nred\nblue\n";
  for (const Case& c : std::initializer_list<Case>{
           {"True;1st\nFalse;--\nTrue;#N/A\n", false, false},
           {"open;place\nFalse;--\nTrue;1st\n", true, false},
           {"2024-01-02,x\n2024-01-03,y\n", false, false},
           {"day,kind\n2024-01-03,y\n", true, false},
           {"place,1/22/20,1/23/20\nnorth,3,4\nsouth,5,6\n", true, false},
           {"\"1,234.50\",x\n\"2,345.00\",y\n", false, false},
           {"NA,x\n3,y\n", false, false},
           {"-,x\n3,y\n", true, true},
           {"red,x\nblue,y\nred,z\n", false, false},
           {"red,x\nblue,5\nred,6\n", true, true},
           {"a,b\nx,y\n", true, true},
           {"a,b\nx,1\na,b\nz,2\n", true, false},
       }) {
    const Cells cells = parse(c.text);
    EXPECT_EQ(cells.head.header, c.header) << c.text;
    EXPECT_EQ(cells.head.header_unsure, c.unsure) << c.text;
  }
  EXPECT_FALSE(parse("colour\n" + colours + colours).head.header_unsure)
      << "the colours occur again, the name does not";
  EXPECT_TRUE(parse("colour\n" + colours).head.header_unsure);
}

// Numbers are names where they are years or places above cells that are not, or where it is said.
TEST(Cells, NumbersInTheFirstRowMayBeNames) {
  struct Case {
    const char* text;
    bool header;
    int64_t rows;
  };
  for (const Case& c : {
           Case{"region,2019,2020,growth\nnorth,5.1,6.2,0.3\n", true, 1},
           Case{"region,2019,2020\nnorth,5.1,6.2\n", true, 1},
           Case{"region,2019,2020\nnorth,2018,2021\n", false, 2},
           Case{"0,1,2,target\n0.5,1.5,2.5,7\n", true, 1},
           Case{"0,1,2,3\n0.5,1.5,2.5,7.5\n", true, 1},
           Case{"0,1,2,3\n1,2,3,4\n", false, 2},
           Case{"0,1,2,3,4\n9,0,9,1,7\n", true, 1},
           Case{"0,1\n1,0\n", false, 2},
           Case{",0,1\n7,0.5,1.5\n", true, 1},
           Case{"1,0,3,Braund,7.25\n2,1,1,Cumings,71.3\n", false, 2},
           Case{"5.1,3.5,setosa\n4.9,3.0,setosa\n", false, 2},
           Case{"A/5,21,male\n34,35,male\n", false, 2},
       }) {
    const Cells cells = parse(c.text);
    EXPECT_EQ(cells.head.header, c.header) << c.text;
    EXPECT_EQ(cells.rows(), c.rows) << c.text;
    EXPECT_TRUE(parse(c.text, {.header = true}).head.header) << c.text;
    EXPECT_EQ(parse(c.text, {.header = false}).rows(), 2) << c.text;
  }
  EXPECT_EQ(parse("2019,2021\n1,2\n", {.needed = {"2021"}}).rows(), 1) << "the names that a model needs";
  EXPECT_EQ(parse("0,1\n1,0\n", {.names = {"x", "y"}, .header = true}).head.names, (Texts{"x", "y"}));
  // R's write.table has one name fewer than columns.
  const Cells r = parse("a,b\nx,1,2\ny,3,4\n");
  EXPECT_EQ(r.head.names, (Texts{"column_1", "a", "b"}));
  EXPECT_TRUE(r.head.index);
}

TEST(Cells, SeparatorsAreThoseOfBothFirstLines) {
  for (const char* text :
       {"a;b\n9,1;2,3\n", "9,1;2,3\n4,5;6,7\n", "a, x;b, y\n1;2\n", "a|b\n1|2\n", "a\tb, c, d\n1\t2\n"}) {
    EXPECT_EQ(parse(text).columns.size(), 2u) << text;
  }
  EXPECT_EQ(parse("a,b\n1,x|y|z\n").columns.size(), 2u);
}

TEST(Cells, IntegersThatDoublesDoNotHoldAreWords) {
  const Cells c = parse("id,n\n9007199254740991,1\n1234567890123456789,2\n1234567890123456790,3\n");
  ASSERT_TRUE(c.columns[0].is_words());
  EXPECT_EQ(c.columns[0].words.size(), 3u);
  EXPECT_EQ(c.columns[0].big_integers, 2);
  EXPECT_EQ(c.columns[0].text(0), "9007199254740991");
  EXPECT_FALSE(parse("a,b\n1e300,1\n9007199254740993.0,2\n").columns[0].is_words());
}

TEST(Cells, Utf16IsReadByItsByteOrderMark) {
  const std::string text = "name,n\nZo\xc3\xab,1\n\xf0\x9f\x98\x80,2\n\xe2\x82\xac,3\n";
  const std::u16string wide = u"\xfeffname,n\nZo\xeb,1\n\xd83d\xde00,2\n\x20ac,3\n";
  for (const bool big : {false, true}) {
    std::string bytes;
    for (const char16_t c : wide) {
      const auto low = static_cast<char>(c & 0xff), high = static_cast<char>(c >> 8);
      bytes += big ? high : low;
      bytes += big ? low : high;
    }
    EXPECT_EQ(texts(parse(bytes).columns[0], 3), texts(parse(text).columns[0], 3)) << big;
    expect_error(ErrorKind::data, {"UTF-16", "damaged"}, [&] { parse(bytes.substr(0, bytes.size() - 1)); });
    expect_error(ErrorKind::data, {"t.csv", big ? "UTF-16BE" : "UTF-16LE", "iconv"}, [&] { parse(bytes.substr(2)); });
  }
}

TEST(Cells, BlanksSeparateNumbersAndSeparatorsAtTheEndOfLinesAreNoColumns) {
  const Cells yacht = parse("-2.3 0.568  4.78\n -5.0 0.6\t4.34 \n\n");
  ASSERT_EQ(yacht.columns.size(), 3u);
  EXPECT_EQ(yacht.rows(), 2);
  EXPECT_EQ(yacht.columns[2].numbers[1], 4.34);
  EXPECT_EQ(parse("a b\n1 2\n").head.names, (Texts{"a", "b"}));
  EXPECT_EQ(parse("name\nAnn Lee\n").columns.size(), 1u) << "words with a blank in them are one cell";
  const Cells energy = parse("# X1\tY1\t\t\r\n1\t2\t\t\r\n3\t4\t\t\r\n\t\t\t\r\n");
  EXPECT_EQ(energy.head.names, (Texts{"X1", "Y1"}));
  EXPECT_EQ(energy.rows(), 2);
  expect_error(ErrorKind::data, {"t.csv:3", "'9'", "column 3", "no name"}, [] { parse("a,b,\n1,2,\n3,4,9\n"); });
}

TEST(Cells, BrokenRowsAreRefusedByTheirLine) {
  expect_error(ErrorKind::data, {"t.csv:3", "got 1 fields", "2"}, [] { parse("a,b\n1,2\n3\n"); });
  expect_error(ErrorKind::data, {"t.csv:3", "got 3 fields", "2"}, [] { parse("a,b\n1,2\n3,4,5\n"); });
  expect_error(ErrorKind::data, {"t.csv:3", "got 2 fields", "3"}, [] { parse("a,b\n1,2,3\n4,5\n"); });
  expect_error(ErrorKind::data, {"t.csv:2", "opened and never closed"}, [] { parse("a,b\n1,\"2\n3,4\n"); });
  expect_error(ErrorKind::data, {"t.csv:2", "text after a closing quote"}, [] { parse("a,b\n1,\"2\" x\n"); });
  expect_error(ErrorKind::data, {"t.csv", "no rows"}, [] { parse(""); });
  std::string text = "a,b\n";
  for (int i = 0; i < 300000; ++i) text += "1,red\n";
  expect_error(ErrorKind::data, {"t.csv:300002", "not UTF-8", "231"}, [&] {
    parse(text +
          "2,fa\xe7"
          "ade\n");
  });
}

TEST(Cells, FilesOfTheSameColumnsAreReadOneAfterTheOther) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "red.csv", std::string_view("a;b\n1;x\n2;y\n"));
  io::write_file_atomic(dir / "white.csv", std::string_view("a;b\n7;z\n"));
  io::write_file_atomic(dir / "other.csv", std::string_view("a;c\n7;z\n"));
  const Cells c = read_cells(std::vector<std::string>{dir / "red.csv", dir / "white.csv"});
  ASSERT_EQ(c.rows(), 3);
  EXPECT_EQ(c.places.file(2), 1u);
  EXPECT_EQ(c.place(2), cat(dir / "white.csv", ":2"));
  EXPECT_EQ(c.columns[0].numbers[2], 7);
  expect_error(ErrorKind::data, {"other.csv:1", "a, c", "a, b"}, [&] {
    read_cells(std::vector<std::string>{dir / "red.csv", dir / "other.csv"});
  });
}

TEST(Cells, PartsOfATableAreTheWhole) {
  const TemporaryDir dir;
  std::string text = "a,b\n";
  for (int i = 0; i < 1000; ++i) text += cat(i, ",w", i % 7, "\n");
  io::write_file_atomic(dir / "t.csv", std::string_view(text));
  CellReader reader({dir / "t.csv"}, of_kinds({CellKind::numbers, CellKind::words}));
  int64_t rows = 0;
  for (;;) {
    const Cells part = reader.next(300);
    if (part.rows() == 0) break;
    for (int64_t i = 0; i < part.rows(); ++i, ++rows) {
      ASSERT_EQ(part.columns[0].numbers[static_cast<size_t>(i)], static_cast<double>(rows));
      ASSERT_EQ(part.columns[1].text(i), cat("w", rows % 7));
      ASSERT_EQ(part.place(i), cat(dir / "t.csv", ":", rows + 2));
    }
  }
  EXPECT_EQ(rows, 1000);
}

TEST(Cells, AHeaderOfTenThousandColumnsIsRead) {
  std::string header, row;
  for (int i = 0; i < 10000; ++i) {
    header += cat(i ? "," : "", "column number ", i);
    row += cat(i ? "," : "", i);
  }
  const Cells c = parse(header + "\n" + row + "\n" + row + "\n");
  ASSERT_EQ(c.columns.size(), 10000u);
  EXPECT_EQ(c.columns[9999].name, "column number 9999");
  EXPECT_EQ(c.columns[9999].numbers[1], 9999);
}

TEST(Cells, ARowHasAHundredThousandCellsAtMost) {
  const auto of = [](size_t cells, const char* separator, const char* cell) {
    std::string row = cell;
    for (size_t i = 1; i < cells; ++i) row += cat(separator, cell);
    return cat(row, "\n", row, "\n");
  };
  for (const char* separator : {",", " "}) {
    for (const char* cell : {"1", "\"1\""}) {
      if (separator[0] == ' ' && cell[0] == '"') continue;  // quotes make no columns between blanks
      EXPECT_EQ(parse(of(99'999, separator, cell)).columns.size(), 99'999u);
      EXPECT_EQ(parse(of(100'000, separator, cell)).columns.size(), 100'000u);
      expect_error(ErrorKind::data, {"t.csv:1", "more than 100000 values"},
                   [&] { parse(of(100'001, separator, cell)); });
    }
  }
}

TEST(Cells, ARowOfAnyLengthIsRefusedInTime) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "t.csv", std::string_view("a,b\n1,2\n"));
  std::filesystem::resize_file(dir / "t.csv", uintmax_t{300} << 20);  // zeros without a line's end, on no disk
  expect_error(ErrorKind::data, {"t.csv:3", "the row is longer than 256.0 MiB"}, [&] { read_cells(dir / "t.csv"); });
}

// Below the limit, at it with an end of a line behind, and one above.
TEST(Cells, ARowHas256Mebibytes) {
  const TemporaryDir dir;
  const std::string path = dir / "t.csv";
  constexpr size_t kMost = size_t{256} << 20;
  for (const auto& [row, end] : {std::pair(kMost - 1, ""), {kMost, "\r\n"}, {kMost + 1, ""}}) {
    io::write_file_atomic(path, std::string_view("a\n"));
    std::filesystem::resize_file(path, 2 + row);  // zeros, on no disk
    std::ofstream(path, std::ios::app | std::ios::binary) << end;
    if (row > kMost) {
      expect_error(ErrorKind::data, {"t.csv:2", "the row is longer than 256.0 MiB"}, [&] { read_cells(path); });
      continue;
    }
    const Cells c = read_cells(path);
    ASSERT_EQ(c.rows(), 1);
    EXPECT_EQ(c.columns[0].text(0).size(), row);
  }
}

// Each of the quotes was asked again whether blanks alone stand in front of it: minutes for a request of 1 MB.
TEST(Cells, QuotesBehindManyBlanksAreReadOnce) {
  std::string text = "a,b\n" + std::string(500'000, ' ');
  for (int i = 0; i < 200'000; ++i) text += "\"x";
  const Cells c = parse(text + ",1\n2,3\n");
  ASSERT_EQ(c.rows(), 2);
  EXPECT_EQ(c.columns[0].text(0).size(), 400'000u);
  EXPECT_EQ(c.columns[1].text(0), "1");
}

// The rules for numbers are std::from_chars', bit for bit.
TEST(Cells, NumbersAreReadToTheLastBit) {
  std::mt19937_64 random(7);
  const auto same = [](const std::string& cell) {
    double got = 0;
    const std::string padded = cell + std::string(kReadableBehind, '\0');
    const std::string_view view(padded.data(), cell.size());
    if (!plain_number(view, got)) return true;
    const std::optional<double> right = number_in(cell);
    return right && std::memcmp(&*right, &got, sizeof(got)) == 0;
  };
  int64_t plain = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string cell = random() % 2 ? "-" : "";
    const uint64_t before = random() % 10, behind = random() % 10;
    for (uint64_t k = 0; k < before; ++k) cell += static_cast<char>('0' + random() % 10);
    if (random() % 4) cell += '.';
    for (uint64_t k = 0; k < behind; ++k) cell += static_cast<char>('0' + random() % 10);
    if (random() % 50 == 0) cell.insert(random() % (cell.size() + 1), 1, "+-. e:/x"[random() % 8]);
    ASSERT_TRUE(same(cell)) << cell;
    double ignored = 0;
    plain += plain_number({(cell + std::string(kReadableBehind, '\0')).data(), cell.size()}, ignored) ? 1 : 0;
  }
  EXPECT_GT(plain, 50000) << "the fast way is taken for most cells";
  for (const char* cell :
       {"0", "-0", "1.", ".5", "-.5", "1e5", "nan", "inf", "0x1", "+1", "--1", "1.2.3", ".", "-", "1 2"}) {
    EXPECT_TRUE(same(cell)) << cell;
  }
}

// Random texts of the characters that matter, with rows that lie across the pieces that are read at once.
TEST(Cells, TheFastReaderReadsAsThePlainOneDoes) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text = "alpha,beta\n";
    const uint32_t length = random() % 200;
    for (uint32_t i = 0; i < length; ++i) text += "ab1.,,,\n\n\r\"\" \t"[random() % 14];
    std::vector<PlainRow> rows;
    std::string refused;
    try {
      rows = PlainCsv(text, "t.csv").rows();
    } catch (const Error& e) {
      refused = e.what();
    }
    CellsAsked words = of_kinds({CellKind::words, CellKind::words});
    words.names = {"alpha", "beta"};  // those of the header, so that a longer row is at fault
    try {
      const Cells c = parse(text, words);
      ASSERT_EQ(refused, "") << text;
      int64_t at = 0;
      for (size_t i = 1; i < rows.size(); ++i) {
        const Texts& row = rows[i].fields;
        const auto blank = [](const std::string& cell) { return trimmed(cell).empty(); };
        if (row.size() > 1 && std::all_of(row.begin(), row.end(), blank)) continue;
        ASSERT_EQ(row.size(), 2u) << text;
        ASSERT_LT(at, c.rows()) << text;
        for (size_t k = 0; k < 2; ++k) ASSERT_EQ(c.columns[k].text(at), trimmed(rows[i].fields[k])) << text;
        ASSERT_EQ(c.places.line(at++), rows[i].line) << text;
      }
      ASSERT_TRUE(at == 0 || at == c.rows()) << text;
    } catch (const Error& e) {
      const bool width = std::string_view(e.what()).find("fields, the first row has") != std::string_view::npos;
      const bool empty = std::string_view(e.what()).find("no rows") != std::string_view::npos;
      ASSERT_TRUE(width || empty || refused == e.what()) << e.what() << "\nnot " << refused << "\n" << text;
    }
  }
}

TEST(Cells, RowsAcrossPiecesAndPackedFilesAreRead) {
  const TemporaryDir dir;
  std::string text = "a,b,c\n";
  const std::string filler(3000, 'x');
  for (int i = 0; i < 2000; ++i)
    text += cat(i, ",\"", i % 3 ? "one, \"\"two\"\"\r\n" : "", filler, "\",", 2 * i, "\r\n");
  io::write_file_atomic(dir / "t.csv", std::string_view(text));
  const Cells c = read_cells(dir / "t.csv");
  ASSERT_EQ(c.rows(), 2000);
  EXPECT_EQ(c.columns[1].words.size(), 2u);
  EXPECT_EQ(c.columns[1].text(1), "one, \"two\"\r\n" + filler);
  for (size_t i = 0; i < 2000; ++i) ASSERT_EQ(c.columns[2].numbers[i], 2.0 * static_cast<double>(i));
}

}  // namespace
}  // namespace freight::data
