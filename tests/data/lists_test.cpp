// Lists of images and tables of texts as the field's tools write them: what their headers mean, what is refused, and
// names of classes that only look alike.
#include <gtest/gtest.h>

#include <filesystem>

#include "freight/data/arrays.h"
#include "freight/data/catalog.h"
#include "freight/data/cells.h"
#include "freight/data/class_names.h"
#include "freight/data/columns.h"
#include "freight/data/source.h"
#include "freight/data/text.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;
using Words = std::vector<std::string>;

constexpr const char* kComposed = "ros\xc3\xa9";     // é in one
constexpr const char* kDecomposed = "rose\xcc\x81";  // e and an accent

struct List {
  const char* name;
  std::string header, row_a, row_b;  // each row twice over
  Words classes;
  std::string note;  // a part of it; "" where nothing is said
};

std::string table_of(const List& l) {
  std::string text = l.header.empty() ? "" : l.header + "\n";
  for (int i = 0; i < 3; ++i) text += l.row_a + "\n" + l.row_b + "\n";
  return text;
}

class ImageLists : public ::testing::TestWithParam<List> {};
TEST_P(ImageLists, AreRecognized) {
  const List& l = GetParam();
  const TemporaryDir dir;
  put(dir / "list.csv", table_of(l));
  ASSERT_EQ(Source(dir / "list.csv").content(), Content::images);
  const TrainTest sets = load(dir / "list.csv");
  EXPECT_EQ(sets.train.classes, l.classes);
  EXPECT_EQ(sets.train.count() + sets.test.count(), 6);
  EXPECT_EQ(sets.train.files->paths[0].substr(0, dir.path().size() + 4), dir / "im/") << "no blanks before the path";
  if (l.note.empty()) {
    EXPECT_EQ(sets.train.note, "");
  } else {
    EXPECT_NE(sets.train.note.find(l.note), std::string::npos) << sets.train.note;
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, ImageLists,
    ::testing::Values(
        List{"plain", "path,label", "im/a.png,cat", "im/b.png,dog", {"cat", "dog"}, ""},
        List{"hugging_face", "file_name,label", "im/a.png,cat", "im/b.png,dog", {"cat", "dog"}, ""},
        List{"keras", "filename,class", "im/a.png,cat", "im/b.png,dog", {"cat", "dog"}, ""},
        List{"fastai", "fname,labels", "im/a.png,cat", "im/b.png,dog", {"cat", "dog"}, ""},
        List{"kaggle", "image_id,target", "im/a.jpg,3", "im/b.jpg,1", {"0", "1", "2", "3"}, ""},
        List{"pandas_index",
             ",image_path,label",
             "0,im/a.png,cat",
             "1,im/b.png,dog",
             {"cat", "dog"},
             "not read: column 1"},
        List{"blanks", "path, label", "im/a.png, cat", " im/b.png , dog ", {"cat", "dog"}, ""},
        List{"blanks_and_quotes",
             "\"path\", \"label\"",
             "im/a.png, \"cat, big\"",
             "im/b.png, \"dog\"",
             {"cat, big", "dog"},
             ""},
        List{"other_ending", "path,label", "im/a.img,cat", "im/b.img,dog", {"cat", "dog"}, "6 names"},
        List{"no_ending", "image,label", "im/a,cat", "im/b,dog", {"cat", "dog"}, "do not end in jpg"},
        List{"own_label_word", "Image,Id", "im/a.jpg,w_1", "im/b.jpg,w_2", {"w_1", "w_2"}, "labels those of 'id'"},
        List{"own_words", "bild,klasse", "im/a.jpg,x", "im/b.jpg,y", {"x", "y"}, "images are in column 'bild'"},
        List{"ids_called_image",
             "image,filename,label",
             "17,im/a.jpg,x",
             "18,im/b.jpg,y",
             {"x", "y"},
             "column 'filename'"},
        List{"with_text",
             "image,text,label",
             "im/a.jpg,some words,x",
             "im/b.jpg,more of them,y",
             {"x", "y"},
             "not read: text"},
        List{"label_first", "", "cat,im/a.jpg", "dog,im/b.jpg", {"cat", "dog"}, ""}),
    [](const auto& p) { return p.param.name; });

class TextTables : public ::testing::TestWithParam<List> {};
TEST_P(TextTables, AreRecognized) {
  const List& l = GetParam();
  const TemporaryDir dir;
  put(dir / "table.csv", table_of(l));
  ASSERT_EQ(Source(dir / "table.csv").content(), Content::documents);
  const TextSet set = load_text(dir / "table.csv");
  EXPECT_EQ(set.classes, l.classes);
  EXPECT_EQ(set.train.count() + set.test.count(), 6);
  for (const std::string& text : set.train.texts) EXPECT_TRUE(text == "good film" || text == "bad film") << text;
  if (l.note.empty()) {
    EXPECT_EQ(set.train.note, "");
  } else {
    EXPECT_NE(set.train.note.find(l.note), std::string::npos) << set.train.note;
  }
}
INSTANTIATE_TEST_SUITE_P(
    All, TextTables,
    ::testing::Values(List{"hugging_face", "text,label", "good film,1", "bad film,0", {"0", "1"}, ""},
                      List{"imdb_of_kaggle",
                           "review,sentiment",
                           "good film,positive",
                           "bad film,negative",
                           {"negative", "positive"},
                           ""},
                      List{"stars", "id,body,stars", "7,good film,5", "8,bad film,1", {"1", "5"}, "not read: id"},
                      List{"fastai",
                           "label,text,is_valid",
                           "pos,good film,False",
                           "neg,bad film,True",
                           {"neg", "pos"},
                           "not read: is_valid"},
                      List{"names_of_labels",
                           "text,label,label_text",
                           "good film,1,pos",
                           "bad film,0,neg",
                           {"0", "1"},
                           "not read: label_text"},
                      List{"blanks", "text, label", "good film, pos", "bad film, neg ", {"neg", "pos"}, ""},
                      List{"own_label_word",
                           "review,urteil",
                           "good film,gut",
                           "bad film,schlecht",
                           {"gut", "schlecht"},
                           "the label 'urteil'"},
                      List{"own_text_word",
                           "rezension,label,id",
                           "good film,gut,1",
                           "bad film,schlecht,2",
                           {"gut", "schlecht"},
                           "the text is column 'rezension'"},
                      List{"own_words_over_numbers",
                           "rezension,urteil",
                           "good film,1",
                           "bad film,0",
                           {"0", "1"},
                           "the text is column 'rezension'"},
                      List{"file_name_is_an_id",
                           "file_name,review,sentiment",
                           "a1,good film,x",
                           "a2,bad film,y",
                           {"x", "y"},
                           "not read: file_name"}),
    [](const auto& p) { return p.param.name; });

struct Refused {
  const char* name;
  std::string content;
  Words says;
};
class RefusedTables : public ::testing::TestWithParam<Refused> {};
TEST_P(RefusedTables, NameTheMend) {
  const TemporaryDir dir;
  put(dir / "table.csv", GetParam().content);
  put(dir / "docs/a.txt", "some text");
  Words says = GetParam().says;
  says.push_back("table.csv");
  expect_error(ErrorKind::data, says, [&] { load_text(dir / "table.csv"); });
}
const std::string kTwoWords = "one two,x\nthree four,y\nfive six,x\nseven,y\neight,x\nnine ten,y\neleven,x\ntwelve,y\n";
INSTANTIATE_TEST_SUITE_P(All, RefusedTables,
                         ::testing::Values(Refused{"unknown_words_over_words",
                                                   "rezension,urteil\n" + kTwoWords,
                                                   {"looks like a header", "--text-column", "rezension | urteil"}},
                                           Refused{"two_texts",
                                                   "premise,hypothesis,label\na b,c d,1\ne f,g h,0\n",
                                                   {"which column is the text", "premise"}},
                                           Refused{"paths_of_documents",
                                                   "text,label\ndocs/a.txt,x\ndocs/a.txt,y\n",
                                                   {"'text' has names of files", "docs/a.txt", "train/CLASS"}},
                                           Refused{"paths_of_images_in_a_wide_table",
                                                   "a.png,x,1\nb.png,y,0\nc.png,x,1\nd.png,y,0\n",
                                                   {"names of images", "path and label"}}),
                         [](const auto& p) { return p.param.name; });

TEST(TextTables, ColumnsThatNumberTheRowsAreNoLabels) {
  const TemporaryDir dir;
  std::string text;
  for (int i = 0; i < 8; ++i) text += cat(i, ",film ", i, " it is,", i % 2 ? "pos" : "neg", "\n");
  put(dir / "t.csv", text);
  const TextSet set = load_text(dir / "t.csv");
  EXPECT_EQ(set.classes, (Words{"neg", "pos"}));
  EXPECT_NE(set.train.note.find("numbers the rows: column 1"), std::string::npos) << set.train.note;
}

TEST(TextTables, AFirstDocumentMayHaveAHeadersWordForItsLabel) {
  const TemporaryDir dir;
  std::string text;
  for (int i = 0; i < 6; ++i) text += cat("film ", i, i % 2 ? ",class\n" : ",label\n");
  put(dir / "t.csv", text);
  const TextSet set = load_text(dir / "t.csv");
  EXPECT_EQ(set.classes, (Words{"class", "label"}));
  EXPECT_EQ(set.train.count() + set.test.count(), 6);
}

TEST(TextTables, TheColumnOfTextsMayBeAskedForBesidePictures) {
  const TemporaryDir dir;
  put(dir / "t.csv", "image,text,label\na.jpg,good film,x\nb.jpg,bad film,y\nc.jpg,good film,x\nd.jpg,bad film,y\n");
  const LoadOptions options{.text = {.text_column = "text"}};
  EXPECT_EQ(Source(dir / "t.csv", options).content(), Content::documents);
  EXPECT_EQ(load_text(dir / "t.csv", options).classes, (Words{"x", "y"}));
}

// It was made of as many texts, gigabytes of them, by whoever asked what the file is.
TEST(ImageLists, OfMillionsOfCommasAreRefusedByTheirLine) {
  const TemporaryDir dir;
  const std::string commas(3'000'000, ',');
  put(dir / "early.csv", "path,label\na.png,x\n" + commas + "\nb.png,y\n");
  EXPECT_NE(Source(dir / "early.csv").content(), Content::images);
  expect_error(ErrorKind::data, {"early.csv:3", "more than 100000 values"}, [&] { read_cells(dir / "early.csv"); });
  // Behind the rows that tell what a file is.
  std::string rows = "path,label\n";
  for (int i = 0; i < 30; ++i) rows += cat(i, ".png,x\n");
  put(dir / "late.csv", rows + commas + "\n");
  ASSERT_EQ(Source(dir / "late.csv").content(), Content::images);
  expect_error(ErrorKind::data, {"late.csv:32", "more than 100000 values"}, [&] { load(dir / "late.csv"); });
  put(dir / "empty.csv", rows + ",\n");
  expect_error(ErrorKind::data, {"empty.csv:32", "the path is empty"}, [&] { load(dir / "empty.csv"); });
}

TEST(TextTables, ARowHasAHundredThousandFieldsAtMost) {
  const auto parsed = [](TextForm form, size_t fields) {
    const char separator = form == TextForm::tsv ? '\t' : ',';
    const std::string head = cat("text", separator, "label", std::string(fields - 2, separator), "\n");
    const std::string row = cat("a good day", separator, "yes", std::string(fields - 2, separator), "\n");
    return parse_text(bytes_of(head + row + row), "t", form, {.text_column = "text", .label_column = "label"})
        .rows.size();
  };
  for (const TextForm form : {TextForm::csv, TextForm::tsv}) {
    EXPECT_EQ(parsed(form, 99'999), 2u);
    EXPECT_EQ(parsed(form, 100'000), 2u);
    expect_error(ErrorKind::data, {"t:1", "more than 100000 values"}, [&] { parsed(form, 100'001); });
  }
}

TEST(TextTables, ADocumentHasAMillionBytesAtMost) {
  EXPECT_EQ(document_fault(std::string(kMaxDocumentBytes - 2, 'a')), "");
  EXPECT_EQ(document_fault(std::string(kMaxDocumentBytes - 1, 'a')), "");
  EXPECT_NE(document_fault(std::string(kMaxDocumentBytes, 'a')).find("too long"), std::string::npos);
}

TEST(JsonLines, UsualKeysAreFound) {
  const TemporaryDir dir;
  std::string text;
  for (int i = 0; i < 4; ++i) text += cat(R"({"id": 1, "review": "film )", i, R"(", "stars": )", i % 2, "}\n");
  put(dir / "t.jsonl", text);
  EXPECT_EQ(load_text(dir / "t.jsonl").classes, (Words{"0", "1"}));
}

TEST(JsonLines, HalfASurrogatePairIsNamed) {
  const TemporaryDir dir;
  const auto line = [](const char* text) { return cat(R"({"text":")", text, R"(","label":"a"})", "\n"); };
  for (const char* half : {R"(bad \ud83d end)", R"(bad \\\ud83d)", R"(bad \ude00)", R"(\ud83d\ud83d\ude00)"}) {
    put(dir / "t.jsonl", line("fine \\ud83d\\ude00") + line(half));
    expect_error(ErrorKind::data, {"t.jsonl:2", "half a surrogate pair"}, [&] { load_text(dir / "t.jsonl"); });
  }
  put(dir / "t.jsonl", line("a") + "{\"text\": \"\\\\ud83d\"");
  expect_error(ErrorKind::data, {"t.jsonl:2", "not a JSON object"}, [&] { load_text(dir / "t.jsonl"); });
}

TEST(ClassNames, AFileThatNamesOneTwiceIsRefused) {
  const TemporaryDir dir;
  put(dir / "train.csv", "1,a b\n2,c d\n3,e\n1,f\n2,g\n3,h\n");
  put(dir / "classes.txt", "good\nbad\n\n bad \n");
  expect_error(ErrorKind::data, {"classes.txt:4", "class bad is in line 2 already"}, [&] { load_text(dir.path()); });
  put(dir / "classes.txt", "\xef\xbb\xbfgood\r\nbad\r\nnone \n");
  EXPECT_EQ(load_text(dir.path()).classes, (Words{"good", "bad", "none"}));
}

TEST(ClassNames, ThatDifferInUnicodeFormAloneAreToldSo) {
  EXPECT_NE(class_hint(kDecomposed, {"z", kComposed}).find("only in Unicode form"), std::string::npos);
  EXPECT_EQ(class_hint("cat", {"cats", "dog"}), "; did you mean cats?");
  const TemporaryDir dir;
  for (const char* name : {kComposed, "z"}) put(dir / cat("train/", name, "/1.png"), "x");
  for (const char* name : {kDecomposed, "z"}) put(dir / cat("val/", name, "/1.png"), "x");
  expect_error(ErrorKind::data, {"val/", "only in Unicode form"}, [&] { load(dir.path()); });
  put(dir / "l.csv", cat("path,label\na.png,", kComposed, "\nb.png,", kDecomposed, "\nc.png,z\nd.png,z\n"));
  EXPECT_NE(load(dir / "l.csv").train.note.find("only in Unicode form"), std::string::npos);
}

TEST(NamedSets, AFolderHereGoesBeforeThem) {
  const TemporaryDir dir;
  const auto here = std::filesystem::current_path();
  for (const char* name : {"digits/a/1.png", "digits/a/2.png", "digits/b/1.png", "digits/b/2.png"})
    put(dir / name, "x");
  std::filesystem::create_directories(dir / "mnist");  // holds nothing
  std::filesystem::current_path(dir.path());
  const auto restore = [&](auto&& f) {
    f();
    std::filesystem::current_path(here);
  };
  restore([&] {
    EXPECT_EQ(Source("digits").path(), "digits");
    EXPECT_EQ(Source("digits").content(), Content::images);
    const TrainTest sets = load("digits");
    EXPECT_EQ(sets.train.classes, (Words{"a", "b"}));
    EXPECT_NE(sets.train.note.find("the folder digits is used instead of the built-in dataset"), std::string::npos);
    EXPECT_EQ(Source("digits", {.data_dir = dir.path()}).path(), "");
    EXPECT_NE(Source("mnist").entry(), nullptr);
  });
}

TEST(Undivided, DataWithoutATestPartIsMeasuredWhole) {
  const TemporaryDir dir;
  put(dir / "t.csv", "text,label\na,x\nb,x\nc,x\n");
  const TextSet set = load_text(dir / "t.csv", {.text = {.undivided = Undivided::whole}});
  EXPECT_TRUE(set.undivided);
  EXPECT_EQ(set.test.texts, (Words{"a", "b", "c"}));
  put(dir / "l.csv", "path,label\na.png,x\nb.png,y\nc.png,x\n");
  const TrainTest sets = load(dir / "l.csv", {.images = {.undivided = Undivided::whole}});
  EXPECT_TRUE(sets.train.undivided);
  EXPECT_EQ(sets.test.count(), 3);
  const Array x(DType::f32, {20, 3});
  const Array y(DType::i64, {20});
  std::fill_n(x.data<float>(), 60, 0.5f);
  std::fill_n(y.data<int64_t>(), 20, 0);
  const io::NamedArrays arrays{{"x", x}, {"y", y}};
  EXPECT_EQ(sets_of_arrays(arrays, "a.npz", "a", {.undivided = Undivided::whole}).test.count(), 20);
  const TrainTest divided = sets_of_arrays(arrays, "a.npz", "a");
  EXPECT_EQ(divided.test.count(), 2);
  EXPECT_NE(divided.test.note.find("last tenth"), std::string::npos);
}

}  // namespace
}  // namespace freight::data
