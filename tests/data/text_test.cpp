// Text data sets: every layout, the columns of tables, splits, and every kind of file that is not what it should be.
#include "freight/data/text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "freight/data/catalog.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;
namespace fs = std::filesystem;

using Words = std::vector<std::string>;

// "label:text" of every document of a file.
Words rows_of(const std::string& content, TextForm form, const TextOptions& options = {}) {
  Words out;
  for (const TextRow& r : parse_text(bytes_of(content), "f", form, options).rows) out.push_back(r.label + ":" + r.text);
  return out;
}

TEST(TextFile, CsvFollowsRfc4180) {
  const std::string csv = "\xef\xbb\xbftext,label\r\n\"a, \"\"b\"\"\nc\",pos\r\nplain,neg\r\n";
  EXPECT_EQ(rows_of(csv, TextForm::csv), (Words{"pos:a, \"b\"\nc", "neg:plain"}));
}

TEST(TextFile, HeaderNamesAreFoundInAnyCaseAndOrder) {
  EXPECT_EQ(rows_of("Id,Sentiment,Review\n1,good,x y\n2,bad,z\n", TextForm::csv), (Words{"good:x y", "bad:z"}));
  EXPECT_EQ(rows_of("Class Index,Title,Description\n3,a,b\n1,c,d\n", TextForm::csv), (Words{"3:a b", "1:c d"}));
}

TEST(TextFile, TsvHasNoQuotes) {
  EXPECT_EQ(rows_of("sentence\tlabel\n\"half a quote\t1\nb\t0\n", TextForm::tsv), (Words{"1:\"half a quote", "0:b"}));
}

TEST(TextFile, WithoutHeaderTheLabelIsTheColumnOfNumbersOrOfFewWords) {
  // AG News: title and description are joined.
  EXPECT_EQ(rows_of("\"3\",\"Title\",\"Body, text\"\n\"1\",\"T2\",\"B2\"\n", TextForm::csv),
            (Words{"3:Title Body, text", "1:T2 B2"}));
  EXPECT_EQ(rows_of("ham\tsee you at the station\nspam\twin a prize now\nham\tok then\nham\tlater, as always\n",
                    TextForm::tsv)[1],
            "spam:win a prize now");
  EXPECT_EQ(rows_of("it is good\t1\nit is bad\t0\n", TextForm::tsv), (Words{"1:it is good", "0:it is bad"}));
  expect_error(ErrorKind::data, {"f", "cannot infer which column", "--text-column"},
               [] { rows_of("one thing,another\nthird thing,fourth\n", TextForm::csv); });
  expect_error(ErrorKind::data, {"f", "got one column"}, [] { rows_of("alone\nagain\n", TextForm::csv); });
}

TEST(TextFile, ATableOfNumbersIsNotReadAsTexts) {
  const std::string prices = "rooms,age,near,price\n3,20,sea,300\n4,11.5,hill,250\n3,,sea,300\n5,7,hill,250\n";
  expect_error(ErrorKind::data, {"f", "expected texts, got a table (numbers in column 2, 4)", "--target COL"},
               [&] { rows_of(prices, TextForm::csv); });
  expect_error(ErrorKind::data, {"f", "expected texts, got a table (numbers in column 1)"},
               [] { rows_of("1.5,a\n2.5,a\n2.5,b\n1,a\n2,b\n", TextForm::csv); });
  expect_error(ErrorKind::data, {"f", "expected texts, got a table (numbers in column 1)"},
               [] { rows_of("x,target\n0.5,1.25\n0.75,2.5\n0.25,1\n0.125,2\n", TextForm::csv); });
  expect_error(ErrorKind::data, {"f", "got a table (numbers in column 1, 2, 3)"},
               [] { rows_of("a,b,price\n1,2.5,3.25\n2,3.5,1.5\n7,4.5,2.5\n3,1.5,9.5\n", TextForm::csv); });
  EXPECT_EQ(rows_of(prices, TextForm::csv, {.text_column = "near", .label_column = "rooms"})[0], "3:sea");
}

TEST(TextFile, ColumnsAreGivenByNameOrNumber) {
  const std::string csv = "id,body,stars\n7,fine,5\n8,poor,1\n";
  const Words want = {"5:fine", "1:poor"};
  EXPECT_EQ(rows_of(csv, TextForm::csv, {.text_column = "body", .label_column = "stars"}), want);
  EXPECT_EQ(rows_of(csv, TextForm::csv, {.text_column = "BODY", .label_column = "3"}), want);
  // By number alone: a word over a column of numbers is a header.
  EXPECT_EQ(rows_of(csv, TextForm::csv, {.text_column = "2", .label_column = "3"}), want);
  EXPECT_EQ(rows_of("good,x\nbad,y\n", TextForm::csv, {.text_column = "2"}), (Words{"good:x", "bad:y"}));
  EXPECT_EQ(
      rows_of("{\"body\":\"x\",\"stars\":4}\n", TextForm::jsonl, {.text_column = "body", .label_column = "stars"}),
      (Words{"4:x"}));
  expect_error(ErrorKind::usage, {"--text-column", "bodi", "did you mean body?"},
               [&] { rows_of(csv, TextForm::csv, {.text_column = "bodi", .label_column = "stars"}); });
  expect_error(ErrorKind::usage, {"--label-column", "columns 1 to 3"},
               [&] { rows_of(csv, TextForm::csv, {.text_column = "body", .label_column = "4"}); });
  expect_error(ErrorKind::usage, {"--label-column", "text column too"},
               [&] { rows_of(csv, TextForm::csv, {.text_column = "body", .label_column = "2"}); });
  EXPECT_EQ(rows_of(csv, TextForm::csv, {.text_column = "body"}), want);
  expect_error(ErrorKind::data, {"which column is the label"},
               [&] { rows_of("who,body,what\na,b,c\n", TextForm::csv, {.text_column = "body"}); });
}

TEST(TextFile, JsonLinesAndFastText) {
  EXPECT_EQ(rows_of("{\"text\":\"a \\u00e9\",\"label\":\"pos\"}\n\n{\"label\":0,\"text\":\"b\",\"more\":[]}\n",
                    TextForm::jsonl),
            (Words{"pos:a \xc3\xa9", "0:b"}));
  EXPECT_EQ(rows_of("__label__neg  not good\n__label__pos fine\r\n", TextForm::fasttext),
            (Words{"neg:not good", "pos:fine"}));
}

struct Bad {
  const char* name;
  TextForm form;
  std::string content;  // its second document is bad, on line 3
  std::string reason;
};

class BadDocuments : public ::testing::TestWithParam<Bad> {};

TEST_P(BadDocuments, AreErrorsWithFileAndLineOrReportedAndLeftOut) {
  const Bad& b = GetParam();
  expect_error(ErrorKind::data, {"f:3", b.reason, "--on-bad-sample skip"}, [&] { rows_of(b.content, b.form); });
  std::vector<BadSample> told;
  const TextOptions skip{.bad = {.on_bad = OnBad::skip, .report = [&](const BadSample& s) { told.push_back(s); }}};
  EXPECT_EQ(rows_of(b.content, b.form, skip).size(), 2u);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].path, "f:3");
  EXPECT_NE(told[0].reason.find(b.reason), std::string::npos) << told[0].reason;
}

const std::string kLong(1'000'000, 'a');
INSTANTIATE_TEST_SUITE_P(
    TextFile, BadDocuments,
    ::testing::Values(
        Bad{"NotUtf8", TextForm::csv, "text,label\na,x\n\xff\xfe,y\nb,y\n", "not UTF-8: byte 0"},
        Bad{"CutUtf8", TextForm::tsv, "text\tlabel\na\tx\nab\xc3\ty\nb\ty\n", "not UTF-8: byte 2"},
        Bad{"Empty", TextForm::csv, "text,label\na,x\n,y\nb,y\n", "the document is empty"},
        Bad{"Blank", TextForm::csv, "text,label\na,x\n\" \t\",y\nb,y\n", "the document is empty"},
        Bad{"Long", TextForm::tsv, "text\tlabel\na\tx\n" + kLong + "\ty\nb\ty\n", "1,000,000 bytes"},
        Bad{"Ragged", TextForm::csv, "text,label\na,x\nb,y,z\nc,y\n", "expected 2 fields as in the first line, got 3"},
        Bad{"Short", TextForm::csv, "text,label\na,x\nb\nc,y\n", "expected 2 fields as in the first line, got 1"},
        Bad{"NoLabel", TextForm::csv, "text,label\na,x\nb,\nc,y\n", "the label is missing"},
        Bad{"NoJson", TextForm::jsonl, "{\"text\":\"a\",\"label\":1}\n\n{\"text\":\n{\"text\":\"a\",\"label\":1}",
            "not a JSON object"},
        Bad{"JsonBytes", TextForm::jsonl,
            "{\"text\":\"a\",\"label\":1}\n\n{\"text\":\"\xff\",\"label\":1}\n{\"text\":\"a\",\"label\":1}",
            "not UTF-8"},
        Bad{"JsonNoLabel", TextForm::jsonl,
            "{\"text\":\"a\",\"label\":1}\n\n{\"text\":\"b\"}\n{\"text\":\"a\",\"label\":1}",
            "the label is missing: no 'label'"},
        Bad{"JsonNoText", TextForm::jsonl,
            "{\"text\":\"a\",\"label\":1}\n\n{\"label\":1,\"text\":3}\n{\"text\":\"a\",\"label\":1}",
            "no text under the key 'text'"},
        Bad{"FastTextNoLabel", TextForm::fasttext, "__label__a b\n\nno label here\n__label__b c\n",
            "does not begin with __label__"},
        Bad{"FastTextTwo", TextForm::fasttext, "__label__a b\n\n__label__a __label__b x\n__label__b c\n",
            "got 2 labels"}),
    [](const auto& row) { return row.param.name; });

TEST(TextFile, AnOpenQuoteIsAnErrorWhateverIsSkipped) {
  const TextOptions skip{.bad = {.on_bad = OnBad::skip}};
  expect_error(ErrorKind::data, {"f:3", "never closed"},
               [&] { rows_of("text,label\na,x\n\"b,y\nc,y\n", TextForm::csv, skip); });
}

TEST(TextSource, PartsAreFilesByName) {
  for (const char* ending : {".csv", ".tsv", ".jsonl", ".txt"}) {
    const TemporaryDir dir;
    const auto content = [&](const char* a, const char* b) {
      const std::string e = ending;
      if (e == ".jsonl") return cat("{\"text\":\"", a, "\",\"label\":\"p\"}\n{\"text\":\"", b, "\",\"label\":\"n\"}\n");
      if (e == ".txt") return cat("__label__p ", a, "\n__label__n ", b, "\n");
      const char* sep = e == ".csv" ? "," : "\t";
      return cat("text", sep, "label\n", a, sep, "p\n", b, sep, "n\n");
    };
    put(dir / cat("train", ending, ".gz"), gzip_stored(content("a", "b")));
    put(dir / cat("dev", ending), content("c", "d"));
    put(dir / cat("test", ending), content("e", "f"));
    ASSERT_TRUE(is_text_source(dir.path())) << ending;
    const TextSet set = load_text_source(dir.path(), "s");
    EXPECT_EQ(set.classes, (Words{"n", "p"}));
    EXPECT_EQ(set.train.texts, (Words{"a", "b"}));
    EXPECT_EQ(set.train.labels, (std::vector<int64_t>{1, 0}));
    EXPECT_EQ(set.test.texts, (Words{"c", "d"}));  // the part for validation; the test part is left alone
    EXPECT_EQ(load_text_source(dir.path(), "s", {.held_out = HeldOut::test}).test.texts, (Words{"e", "f"}));
  }
}

TEST(TextSource, ClassFoldersAreReadLikeAclImdb) {
  const TemporaryDir dir;
  for (const char* part : {"train", "test"}) {
    put(dir / cat(part, "/pos/1_9.txt"), cat(part, " good"));
    put(dir / cat(part, "/neg/0_2.txt"), cat("\xef\xbb\xbf", part, " bad\nindeed"));
  }
  put(dir / "train/unsup/5_0.txt", "no label");
  put(dir / "train/pos/notes.md", "x");
  ASSERT_TRUE(is_text_source(dir.path()));
  const TextSet set = load_text_source(dir.path(), "s");
  EXPECT_EQ(set.classes, (Words{"neg", "pos"}));
  EXPECT_EQ(set.train.texts, (Words{"train bad\nindeed", "train good"}));
  EXPECT_EQ(set.test.texts, (Words{"test bad\nindeed", "test good"}));
  EXPECT_NE(set.train.note.find("unsup has no labels"), std::string::npos);
  EXPECT_NE(set.train.note.find("since documents are the .txt files in the folders of their classes: "),
            std::string::npos);
  put(dir / "test/odd/1.txt", "x");
  expect_error(ErrorKind::data, {"test/odd/1.txt", "class odd", "neg to pos"},
               [&] { load_text_source(dir.path(), "s"); });
  fs::remove_all(dir / "test/odd");
  put(dir / "test/neg/9.txt", "  \n");
  expect_error(ErrorKind::data, {"test/neg/9.txt", "the document is empty"},
               [&] { load_text_source(dir.path(), "s"); });
}

TEST(TextSource, ClassesAreDistinctLabelsAndMayBeNamedByAFile) {
  const TemporaryDir dir;
  put(dir / "train.csv", "4,late\n10,x\n4,y\n2,z\n");
  EXPECT_EQ(load_text_source(dir.path(), "s", {.val_split = 0.5}).classes, (Words{"2", "4", "10"}));
  put(dir / "train.csv", "1,a b\n2,c d\n1,e\n2,f\n");
  put(dir / "classes.txt", "World\nSports\n");
  const TextSet set = load_text_source(dir.path(), "s");
  EXPECT_EQ(set.classes, (Words{"World", "Sports"}));
  put(dir / "test.csv", "3,unknown class\n");
  expect_error(ErrorKind::data, {"test.csv:1", "class 3"}, [&] { load_text_source(dir.path(), "s"); });
}

TEST(TextSource, WithoutATestPartAShareOfEachClassIsHeldOut) {
  const TemporaryDir dir;
  std::string tsv;
  for (int i = 0; i < 100; ++i) tsv += cat("text ", i, "\t", i < 20 ? 1 : 0, "\n");
  put(dir / "all.tsv", tsv);
  const TextSet set = load_text_source(dir / "all.tsv", "s", {.val_split = 0.25, .split_seed = 3});
  EXPECT_EQ(set.train.count(), 75);
  EXPECT_EQ(std::count(set.test.labels.begin(), set.test.labels.end(), 1), 5);
  std::set<std::string> all(set.train.texts.begin(), set.train.texts.end());
  all.insert(set.test.texts.begin(), set.test.texts.end());
  EXPECT_EQ(all.size(), 100u);
  EXPECT_NE(set.test.note.find("25.0 % of each class"), std::string::npos);
  const auto again = [&](uint64_t seed) {
    return load_text_source(dir / "all.tsv", "s", {.val_split = 0.25, .split_seed = seed}).test.texts;
  };
  EXPECT_EQ(again(3), set.test.texts);
  EXPECT_NE(again(4), set.test.texts);
  expect_error(ErrorKind::usage, {"--val-split", "got 1"},
               [&] { load_text_source(dir / "all.tsv", "s", {.val_split = 1}); });
  expect_error(ErrorKind::usage, {"--val-split", "got 0"},
               [&] { load_text_source(dir / "all.tsv", "s", {.val_split = 0}); });
}

TEST(TextSource, ACorpusIsCutAtACharacterNearItsEnd) {
  const TemporaryDir dir;
  std::string text;
  for (int i = 0; i < 101; ++i) text += "\xc3\xa9";
  put(dir / "input.txt", text);
  ASSERT_TRUE(is_corpus_source(dir.path()));
  const TextSet set = load_text_source(dir.path(), "s");
  EXPECT_TRUE(set.corpus());
  EXPECT_EQ(set.train.texts[0] + set.test.texts[0], text);
  EXPECT_EQ(set.train.texts[0].size(), 182u);
  put(dir / "input.txt", "fine\nnot \xff fine\n");
  expect_error(ErrorKind::data, {"input.txt:2", "not UTF-8: byte 9"}, [&] { load_text_source(dir.path(), "s"); });
  put(dir / "input.txt", " \n");
  expect_error(ErrorKind::data, {"input.txt", "empty"}, [&] { load_text_source(dir.path(), "s"); });
}

TEST(TextSource, WhatIsNoTextIsNotTakenForIt) {
  const TemporaryDir dir;
  put(dir / "README.txt", "about");
  put(dir / "picture.png", "x");
  EXPECT_FALSE(is_text_source(dir.path()));
  EXPECT_FALSE(is_text_source(dir / "picture.png"));
  EXPECT_FALSE(is_text_source(dir / "nothing.csv"));
  put(dir / "train.csv", "text,label\nonly one class,a\n");
  expect_error(ErrorKind::data, {"train.csv", "only one class, a"}, [&] { load_text_source(dir.path(), "s"); });
  put(dir / "train.csv", "text,label\n");
  expect_error(ErrorKind::data, {"train.csv", "no documents"}, [&] { load_text_source(dir.path(), "s"); });
  put(dir / "train.tsv", "text\tlabel\n");
  expect_error(ErrorKind::data, {"train.csv", "train.tsv", "keep one"}, [&] { is_text_source(dir.path()); });
}

TEST(TextSource, NamedSetsAreFoundAndTakeTheirTestPart) {
  const std::string data = real_data("sst2/dev.tsv");
  if (data.empty()) GTEST_SKIP() << "no real data here: set FREIGHT_DATA";
  const LoadOptions options{.data_dir = data};
  const TextSet set = load_text("sst2", options);
  EXPECT_EQ(set.train.count(), 60614);
  EXPECT_EQ(set.test.count(), 872);
  EXPECT_EQ(set.classes, (Words{"0", "1"}));
  LoadOptions validation = options;
  validation.text.held_out = HeldOut::validation;
  EXPECT_EQ(load_text("sst2", validation).test.count(), 6735);
  const TextSet spam = load_text("sms_spam", options);
  EXPECT_EQ(spam.train.count() + spam.test.count(), 5574);
  EXPECT_EQ(spam.classes, (Words{"ham", "spam"}));
  EXPECT_EQ(std::count(spam.train.labels.begin(), spam.train.labels.end(), 1) +
                std::count(spam.test.labels.begin(), spam.test.labels.end(), 1),
            747);
  const TextSet news = load_text("ag_news", options);  // the test file alone
  EXPECT_EQ(news.train.count() + news.test.count(), 7600);
  EXPECT_EQ(news.classes, (Words{"World", "Sports", "Business", "Sci/Tech"}));
  const TextSet corpus = load_text("tinyshakespeare", options);
  EXPECT_EQ(corpus.train.texts[0].size() + corpus.test.texts[0].size(), 1115394u);
  expect_error(ErrorKind::data, {"holds text"}, [&] { load("sst2", options); });
}

}  // namespace
}  // namespace freight::data
