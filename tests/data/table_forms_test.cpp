// Tables that are no separated cells: JSON lines and archives of arrays. They give the cells that a CSV of the same
// table gives, and what does not fit is refused by its line and name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "freight/base/strings.h"
#include "freight/data/cells.h"
#include "freight/io/npy.h"
#include "tests/support/files.h"
#include "tests/support/packed.h"

namespace freight::data {
namespace {
using namespace freight::testing;
using Texts = std::vector<std::string>;

Cells parse(const std::string& text, const std::string& name = "t.jsonl") { return parse_cells(bytes_of(text), name); }
Texts texts(const CellColumn& column, int64_t rows) {
  Texts out;
  for (int64_t i = 0; i < rows; ++i) out.push_back(column.text(i));
  return out;
}

void expect_same(const Cells& a, const Cells& b) {
  ASSERT_EQ(a.head.names, b.head.names);
  ASSERT_EQ(a.rows(), b.rows());
  for (size_t k = 0; k < a.columns.size(); ++k) {
    EXPECT_EQ(a.columns[k].kind, b.columns[k].kind) << a.columns[k].name;
    EXPECT_EQ(texts(a.columns[k], a.rows()), texts(b.columns[k], b.rows())) << a.columns[k].name;
  }
}

TEST(JsonRows, AreTheCellsOfTheSameCsvWhateverTheOrderOfTheirKeys) {
  const Cells json = parse(
      "\xef\xbb\xbf{\"n\": 1, \"word\": \"a, \\\"b\\\"\", \"flag\": true, \"x\": 2.5e-3}\r\n"
      "\n"
      "  {\"x\": -7, \"flag\": false, \"n\": null}\n"
      "{\"word\": \"\\u00e9\\n\", \"n\": \"12\", \"late\": 18446744073709551615, \"x\": 0.1}\n"
      "{}");
  const Cells csv = parse(
      "n,word,flag,x,late\n1,\"a, \"\"b\"\"\",true,0.0025,\n,,false,-7,\n12,\"\xc3\xa9\n\",,0.1,18446744073709551615\n"
      "NA,,,NA,\n",
      "t.csv");
  expect_same(json, csv);
  EXPECT_TRUE(json.head.header);
  EXPECT_EQ(json.columns[0].numbers[2], 12) << "a string is the cell that it would be in a CSV";
  EXPECT_EQ(json.place(1), "t.jsonl:3");
  EXPECT_EQ(json.place(3), "t.jsonl:5");
  EXPECT_TRUE(json.columns[0].missing(3)) << "an object without keys is a row";
}

TEST(JsonRows, AreReadInPartsAndPackedAcrossPieces) {
  std::string json, csv = "id,name,last\n";
  for (int i = 0; i < 30000; ++i) {
    const std::string name = cat("name ", i * 7919 % 104729, std::string(static_cast<size_t>(i % 60), '.'));
    const std::string id = cat("\"id\":", i), named = cat("\"name\":\"", name, "\"");
    json += cat("{", i % 2 ? id : named, ",", i % 2 ? named : id, "}\n");
    csv += cat(i, ",", name, ",\n");
  }
  json += "{\"last\": 1, \"id\": 7}\n";  // a column that begins in the last line
  csv += "7,,1\n";
  json = "{\"id\": 1, \"name\": null}\n" + json;
  csv.insert(csv.find('\n') + 1, "1,,\n");
  const TemporaryDir dir;
  io::write_file_atomic(dir / "t.csv", std::string_view(csv));
  io::write_file_atomic(dir / "t.ndjson.gz", std::string_view(gzip_stored(json)));
  expect_same(read_cells(dir / "t.ndjson.gz"), read_cells(dir / "t.csv"));
  CellReader parts({dir / "t.ndjson.gz"});
  int64_t rows = 0, line = 0;
  for (Cells c = parts.next(4000); c.rows() > 0; c = parts.next(4000)) {
    EXPECT_EQ(c.head.names, (Texts{"id", "name", "last"}));
    rows += c.rows();
    line = c.places.line(c.rows() - 1);
  }
  EXPECT_EQ(rows, 30002);
  EXPECT_EQ(line, 30002);
}

TEST(JsonRows, WhatIsNoRowIsRefusedByItsLineAndKey) {
  const auto refused = [](const std::string& text, const Texts& parts) {
    expect_error(ErrorKind::data, parts, [&] { parse(text); });
  };
  refused("{\"a\": 1}\n{\"a\": [1, 2]}\n", {"t.jsonl:2", "key a holds an array", "expected a number"});
  refused("{\"a\": 1}\n\n{\"b\": {\"c\": 1}}\n", {"t.jsonl:3", "key b holds an object"});
  refused("{\"a\": 1}\n{\"a\": 1\n", {"t.jsonl:2", "not valid JSON"});
  refused("{\"a\": 1}\n[1]\n", {"t.jsonl:2", "got [1]", "expected an object"});
  refused("{\"a\": 1} {\"a\": 2}\n", {"t.jsonl:1", "not valid JSON"});
  refused("{\"a\": 1, \"a\": 2}\n", {"t.jsonl:1", "\"a\" appears twice"});
  refused("{\"\": 1}\n", {"t.jsonl:1", "empty key"});
  refused("{\"a\": 1e999}\n", {"t.jsonl:1", "not valid JSON"});
  refused("{\"a\": \"\xff\"}\n", {"t.jsonl:1", "not valid JSON"});
  refused("{\n  \"a\": 1\n}\n", {"t.jsonl:1", "one object in each line", "jq"});
  refused("[{\"a\": 1}, {\"a\": 2}]\n", {"t.jsonl:1", "one object in each line", "jq"});
  refused("1,2\n", {"t.jsonl:1", "got 1,2", "expected an object"});
  refused("", {"t.jsonl", "has no rows"});
  refused("{}\n", {"t.jsonl", "has no rows of columns"});
  refused(cat("{\"a\": \"", std::string(size_t{17} << 20, 'x'), "\"}\n"), {"t.jsonl:1", "longer than 16.0 MiB"});
  std::string many = "{";
  for (int i = 0; i <= 100000; ++i) many += cat(i ? "," : "", "\"k", i, "\":1");
  refused(many + "}\n", {"t.jsonl:1", "k100000", "100000 others"});
  std::string deep = "{\"a\": ";
  for (int i = 0; i < 300; ++i) deep += "[";
  refused(deep + "\n", {"t.jsonl:1", "key a holds an array"});
}

TEST(JsonRows, AreKnownByTheirFirstLineUnderAnyName) {
  EXPECT_EQ(parse("{\"a\": 1}\n{\"a\": 2}\n", "rows.txt").rows(), 2);
  EXPECT_EQ(parse("{a},b\n1,2\n", "braces.csv").head.names, (Texts{"{a}", "b"}));
}

TEST(SparseRows, QueriesOfRankingsAreAColumn) {
  const Cells c = parse("2 qid:7 1:0.5 3:1\n0 qid:7 2:4 # a page\n1 qid:9\n", "train.svm");
  EXPECT_EQ(c.head.names, (Texts{"label", "qid", "feature_1", "feature_2", "feature_3"}));
  EXPECT_EQ(texts(c.columns[1], 3), (Texts{"7", "7", "9"}));
  EXPECT_EQ(c.columns[4].numbers[0], 1);
  EXPECT_EQ(c.columns[3].numbers[1], 4);
  expect_error(ErrorKind::data, {"t.svm:2", "has no qid"}, [] { parse("2 qid:7 1:1\n0 1:1\n", "t.svm"); });
  expect_error(ErrorKind::data, {"t.svm:2", "has a qid"}, [] { parse("2 1:1\n0 qid:3 1:1\n", "t.svm"); });
  expect_error(ErrorKind::data, {"t.svm:2", "qid:9", "INDEX:VALUE"},
               [] { parse("2 qid:7 1:1\n0 qid:8 qid:9\n", "t.svm"); });
}

Cells read_npz(const io::NamedArrays& arrays) {
  const TemporaryDir dir;
  io::save_npz(dir / "t.npz", arrays);
  return read_cells(dir / "t.npz");
}

// They have the limit that cells of a CSV have (Cells, ARowHasAHundredThousandCellsAtMost): below the limit, at it, and
// one above.
TEST(TableLimits, ColumnsOfEveryForm) {
  const auto json = [](int64_t columns) {
    std::string row = "{";
    for (int64_t i = 0; i < columns; ++i) row += cat(i ? "," : "", "\"k", i, "\":1");
    return row + "}\n";
  };
  const auto sparse = [](int64_t features) { return cat("0 0:1 ", features - 1, ":1\n"); };
  const auto archive = [](int64_t columns) { return io::NamedArrays{{"X", Array(DType::u8, {1, columns})}}; };
  for (const int64_t n : {99'999, 100'000}) {
    EXPECT_EQ(parse(json(n)).columns.size(), static_cast<size_t>(n));
    EXPECT_EQ(parse(sparse(n), "t.svm").columns.size(), static_cast<size_t>(n + 1));  // and the label
    EXPECT_EQ(read_npz(archive(n)).columns.size(), static_cast<size_t>(n));
  }
  expect_error(ErrorKind::data, {"t.jsonl:1", "100000"}, [&] { parse(json(100'001)); });
  expect_error(ErrorKind::data, {"t.svm:1", "100000"}, [&] { parse(sparse(100'001), "t.svm"); });
  expect_error(ErrorKind::data, {"t.npz", "100000"}, [&] { read_npz(archive(100'001)); });
}

// Lines of JSON have the limit of JSON, those of LibSVM that of rows: below the limit, at it, and one above.
TEST(TableLimits, BytesOfALine) {
  const auto json = [](size_t bytes) { return cat("{\"a\":\"", std::string(bytes - 8, 'x'), "\"}\n"); };
  constexpr size_t kJson = size_t{16} << 20;
  for (const size_t bytes : {kJson - 1, kJson}) EXPECT_EQ(parse(json(bytes)).columns[0].text(0).size(), bytes - 8);
  expect_error(ErrorKind::data, {"t.jsonl:1", "longer than 16.0 MiB"}, [&] { parse(json(kJson + 1)); });
  const TemporaryDir dir;
  const std::string path = dir / "t.svm";
  constexpr size_t kSparse = size_t{256} << 20;
  for (const size_t bytes : {kSparse - 1, kSparse, kSparse + 1}) {
    io::write_file_atomic(path, std::string_view("1 1:5 #"));
    std::filesystem::resize_file(path, bytes);  // a comment of zeros, on no disk
    if (bytes <= kSparse) {
      EXPECT_EQ(read_cells(path).columns[1].numbers[0], 5);
    } else {
      expect_error(ErrorKind::data, {"t.svm:1", "longer than 256.0 MiB"}, [&] { read_cells(path); });
    }
  }
}

// 2 MB of text would be 2 TB of cells.
TEST(SparseRows, ThatNoMemoryHoldsAreRefusedBeforeTheyAreMade) {
  std::string sparse = "0 99999:1\n", json = "{";
  for (int i = 0; i < 99'999; ++i) json += cat(i ? "," : "", "\"k", i, "\":1");
  json += "}\n";
  for (int i = 0; i < 3'000'000; ++i) {
    sparse += "0 0:1\n";
    json += "{}\n";
  }
  for (const auto& [text, name] : {std::pair(&sparse, "t.svm"), std::pair(&json, "t.jsonl")}) {
    expect_error(ErrorKind::capacity, {name, "3000001 rows", "of memory, and there are"},
                 [&, text = text, name = name] { parse(*text, name); });
  }
}

// Ten gigabytes in ten megabytes kept a reader busy for minutes, each row of a cell for every column.
TEST(PackedRows, ThatUnpackToFarMoreThanTheyAreAreRefusedByName) {
  const TemporaryDir dir;
  const auto rows = [](const std::string& row) {
    std::string text;
    while (text.size() < 1 << 20) text += row;
    return text;
  };
  const std::pair<const char*, std::string> kBombs[] = {{"empty.jsonl.gz", rows("{}\n")},
                                                        {"ones.jsonl.gz", rows("{\"a\":1}\n")},
                                                        {"blank.jsonl.gz", rows("\n")},
                                                        {"ones.svm.gz", rows("1 1:1\n")},
                                                        {"ones.csv.gz", rows("1,1\n")}};
  for (const auto& [name, text] : kBombs) {
    const std::string first = name[0] == 'b' || name[0] == 'e' ? gzip_packed("{\"a\":1}\n") : "";
    io::write_file_atomic(dir / name, std::string_view(first + gzip_bomb(text, 10'000)));
    expect_error(ErrorKind::data, {name, "of gzip data unpack to more than"},
                 [&, name = name] { read_cells(dir / name); });
  }
}

TEST(ArrayRows, AreColumnsOfTheirNamesAndOfTheirPlaces) {
  const Cells c = read_npz({{"X", Array::of<float>({0.1f, 2, NAN, -1e30f, 5, 6}, {3, 2})},
                            {"flag", Array::of<bool>({true, false, true}, {3})},
                            {"n", Array::of<int64_t>({9007199254740993, -1, 0}, {3})},
                            {"small", Array::of<uint8_t>({255, 0, 7}, {3, 1})},
                            {"y", Array::of<double>({0.1, INFINITY, 3}, {3})}});
  EXPECT_EQ(c.head.names, (Texts{"X.0", "X.1", "flag", "n", "small", "y"}));
  EXPECT_TRUE(c.head.header);
  ASSERT_EQ(c.rows(), 3);
  EXPECT_EQ(c.columns[0].numbers[0], static_cast<double>(0.1f)) << "to the last bit";
  EXPECT_TRUE(c.columns[0].missing(1));
  EXPECT_EQ(c.columns[1].numbers[1], static_cast<double>(-1e30f));
  EXPECT_EQ(texts(c.columns[2], 3), (Texts{"true", "false", "true"}));
  EXPECT_EQ(c.columns[4].numbers[0], 255);
  EXPECT_EQ(c.columns[5].numbers[0], 0.1);
  ASSERT_EQ(c.columns[5].odd.size(), 1u) << "inf is no finite number, as in a CSV";
  EXPECT_EQ(c.place(2).substr(c.place(2).rfind('/') + 1), "t.npz:3");
}

TEST(ArrayRows, WhatIsNoTableIsRefusedByTheNamesOfItsArrays) {
  const auto refused = [](const io::NamedArrays& arrays, const Texts& parts) {
    expect_error(ErrorKind::data, parts, [&] { read_npz(arrays); });
  };
  const Array three = Array::of<float>({1, 2, 3}, {3}), two = Array::of<float>({1, 2}, {2});
  refused({{"age", three}, {"height", two}}, {"t.npz", "height has 2 rows", "age has 3"});
  refused({{"cube", Array(DType::f32, {2, 1, 1})}}, {"t.npz[cube]", "shape [2,1,1]", "(rows, columns)"});
  refused({{"one", Array::of<float>({1}, {})}}, {"t.npz[one]", "(rows)"});
  refused({{"none", Array(DType::f32, {2, 0})}}, {"t.npz[none]"});
  refused({{"X", Array(DType::f32, {2, 2})}, {"X.1", two}}, {"t.npz", "two columns are named X.1"});
  refused({{"z", Array(DType::c64, {2})}}, {"t.npz[z]", "real numbers"});
  refused({{"big", Array::of<uint64_t>({1, UINT64_MAX}, {2})}}, {"t.npz[big]", "above the range of i64"});
  refused({{"empty", Array(DType::f32, {0})}}, {"t.npz", "has no rows"});
  refused({}, {"t.npz", "contains no arrays"});
  expect_error(ErrorKind::data, {"t.npz", "zip"}, [] { parse("no archive", "t.npz"); });
}

TEST(ArrayRows, ObjectsOfPythonAndTextsAreRefusedWithTheMend) {
  std::string npy("\x93NUMPY\x01\x00", 8);
  for (const auto& [descr, mend] :
       {std::pair<std::string, std::string>{"|O", "only Python reads its objects"}, {"<U5", "CSV or JSON lines"}}) {
    std::string head = cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (1,), }\n");
    const std::string file = npy + static_cast<char>(head.size()) + '\0' + head + std::string(20, '\0');
    expect_error(ErrorKind::data, {"words.npy", descr, mend}, [&] { io::parse_npy(bytes_of(file), "words.npy"); });
  }
}

// The first rows of a table in every form, read by its own reader: quotes that hold ends of lines, quotes within cells
// and in strings, and ends of lines without a feed do not confuse where a row ends.
TEST(FirstRows, AreThoseOfTheWholeTableAndTheirShareSaysHowManyThereAre) {
  const auto many = [](const std::string& head, const std::function<std::string(int)>& row) {
    std::string text = head;
    for (int i = 1000; i < 5000; ++i) text += row(i);
    return text;
  };
  const struct {
    const char* name;
    std::string text;
  } tables[] = {
      {"quoted.csv", many("a,word\n", [](int i) { return cat(i, ",\"two\nlines\"\n"); })},
      {"inches.csv", many("a,word\n", [](int i) { return cat(i, i % 3 ? ",plain\n" : ",5\" pipe\n"); })},
      {"returns.csv", many("a,word\r", [](int i) { return cat(i, ",x\r"); })},
      {"rows.jsonl", many("", [](int i) { return cat("{\"a\": ", i, ", \"word\": \"a\\\"b\"}\n"); })},
      {"rows.svm", many("", [](int i) { return cat(i % 2, " 1:", i, " 3:2\n"); })},
  };
  for (const auto& table : tables) {
    const io::ByteView bytes = bytes_of(table.text);
    const Cells all = parse_cells(bytes, table.name);
    ASSERT_EQ(all.rows(), 4000) << table.name;
    EXPECT_EQ(all.share, 1) << table.name;
    const Cells first = parse_cells(bytes, table.name, {.most_bytes = table.text.size() / 4});
    EXPECT_LT(first.rows(), 1400) << table.name;
    EXPECT_NEAR(static_cast<double>(first.rows()) / first.share, 4000, 20) << table.name;
    ASSERT_EQ(first.head.names, all.head.names) << table.name;
    for (size_t k = 0; k < all.columns.size(); ++k) {
      const Texts some = texts(first.columns[k], first.rows());
      EXPECT_EQ(some, texts(all.columns[k], first.rows())) << table.name << " " << k;
    }
    EXPECT_EQ(parse_cells(bytes, table.name, {.most_bytes = 2 * table.text.size()}).rows(), 4000) << table.name;
  }
}

TEST(FirstRows, OfPackedAndOfSeveralFilesCountTheBytesOfAll) {
  const TemporaryDir dir;
  std::string text = "a,b\n";
  for (int i = 1000; i < 9000; ++i) text += cat(i, ",", i % 7, "\n");
  for (const char* name : {"a.csv", "b.csv", "c.csv"}) io::write_file_atomic(dir / name, std::string_view(text));
  ASSERT_EQ(std::system(cat("gzip -k ", dir / "c.csv").c_str()), 0);
  const Cells packed = read_cells(dir / "c.csv.gz", {.most_bytes = text.size() / 2});
  EXPECT_NEAR(packed.share, 0.5, 0.01);
  EXPECT_NEAR(static_cast<double>(packed.rows()) / packed.share, 8000, 10);
  const std::vector<std::string> both = {dir / "a.csv", dir / "b.csv"};
  const Cells most = read_cells(both, {.most_bytes = 3 * text.size() / 2});
  EXPECT_NEAR(most.share, 0.75, 0.01);
  EXPECT_NEAR(static_cast<double>(most.rows()), 12000, 10);
  EXPECT_EQ(most.columns[0].numbers[11990], 1000 + 3990) << "rows of the second file follow those of the first";
}

// Columns whose numbers are read again as words, too.
TEST(TablesOnTheDisk, AreTheTablesInMemory) {
  const TemporaryDir dir;
  std::string text = "n,word,late\n";
  for (int i = 0; i < 20000; ++i) text += cat(i * 0.5, ",w", i % 11, ",", i == 15000 ? "word" : cat(i), "\n");
  const io::ByteView bytes = bytes_of(text);
  const Cells there = parse_cells(bytes, "t.csv", {.folder = dir.path()}), here = parse_cells(bytes, "t.csv");
  expect_same(there, here);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << "files without names";
  expect_error(ErrorKind::runtime, {"/no/such/folder", "TMPDIR"},
               [&] { parse_cells(bytes, "t.csv", {.folder = "/no/such/folder"}); });
}

}  // namespace
}  // namespace freight::data
