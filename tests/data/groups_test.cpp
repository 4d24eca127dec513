// Groups of samples, which no split separates: the choice of groups, and lists of images and texts that name them.
#include "freight/data/groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "freight/base/strings.h"
#include "freight/data/image_folder.h"
#include "freight/data/text.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;
using Numbers = std::set<int64_t>;

TEST(Groups, StayTogetherAndTheShareIsNear) {
  std::vector<int64_t> groups;
  for (int64_t i = 0; i < 1000; ++i) groups.push_back(i * i % 97 % 40);
  std::set<std::vector<bool>> seen;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const std::vector<bool> held = hold_out_groups(groups, 0.2, seed);
    std::vector<int> sides(40);
    for (size_t i = 0; i < groups.size(); ++i) sides[static_cast<size_t>(groups[i])] |= held[i] ? 2 : 1;
    EXPECT_EQ(std::count(sides.begin(), sides.end(), 3), 0) << "a group on both sides";
    EXPECT_NEAR(static_cast<double>(std::count(held.begin(), held.end(), true)), 200, 40);
    EXPECT_EQ(hold_out_groups(groups, 0.2, seed), held);
    seen.insert(held);
  }
  EXPECT_EQ(seen.size(), 5u);
}

TEST(Groups, EitherSideHasOne) {
  const std::vector<bool> two = hold_out_groups({0, 0, 0, 1, 1, 1}, 0.01, 3);
  EXPECT_EQ(std::count(two.begin(), two.end(), true), 3);
  const std::vector<bool> one = hold_out_groups({0, 0, 0}, 0.5, 3);
  EXPECT_EQ(std::count(one.begin(), one.end(), true), 0);
  EXPECT_TRUE(hold_out_groups({}, 0.5, 3).empty());
}

// A list of 60 rows of ten patients: the row's number, and its patient.
std::string list_of(const char* header, const char* ending) {
  std::string csv = cat(header, "\n");
  for (int i = 0; i < 60; ++i) csv += cat("s", i, ending, ",", i % 2 ? "a" : "b", ",patient ", i * 7 % 10, "\n");
  return csv;
}
// The patients of samples by their names "s12.png".
Numbers patients(const std::vector<std::string>& names) {
  Numbers all;
  for (const std::string& name : names) {
    const size_t at = name.rfind('s', name.find_last_of("0123456789"));
    all.insert(std::stoi(name.substr(at + 1)) * 7 % 10);
  }
  return all;
}
void expect_apart(const Numbers& train, const Numbers& held_out) {
  EXPECT_EQ(train.size() + held_out.size(), 10u);
  EXPECT_EQ(held_out.size(), 2u);
  for (const int64_t patient : held_out) EXPECT_FALSE(train.contains(patient)) << patient;
}

TEST(Groups, OfImagesInAListAreOnOneSideOfTheSplit) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "scans.csv", std::string_view(list_of("path,label,patient", ".png")));
  const TrainTest sets = load_image_source(dir / "scans.csv", "scans", {.targets = {.group_column = "patient"}});
  expect_apart(patients(sets.train.files->paths), patients(sets.test.files->paths));
  EXPECT_EQ(sets.train.groups.numel(), 48);
  EXPECT_NE(sets.test.note.find("12 of 60 samples, by groups of patient for validation"), std::string::npos)
      << sets.test.note;
  EXPECT_EQ(sets.train.note.find("not read"), std::string::npos) << sets.train.note;
  const Dataset some = sets.train.selected({3, 5});
  EXPECT_EQ(some.groups.to_vector<int64_t>()[1], sets.train.groups.to_vector<int64_t>()[5]);
  EXPECT_FALSE(load_image_source(dir / "scans.csv", "scans").train.groups.defined());
}

TEST(Groups, OfTextsAreOnOneSideOfTheSplit) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "notes.csv", std::string_view(list_of("text,label,patient", "")));
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += cat(R"({"text":"s)", i, R"(","label":")", i % 2 ? "a" : "b", R"(","patient":)", i * 7 % 10, "}\n");
  }
  io::write_file_atomic(dir / "notes.jsonl", std::string_view(lines));
  for (const char* file : {"notes.csv", "notes.jsonl"}) {
    const TextSet set = load_text_source(dir / file, "notes", {.targets = {.group_column = "patient"}});
    expect_apart(patients(set.train.texts), patients(set.test.texts));
    EXPECT_EQ(set.train.groups.numel(), 48) << file;
  }
  // The label has no usual name: it is the only column left beside the text and the groups.
  io::write_file_atomic(dir / "odd.csv", std::string_view(list_of("text,diagnosis,patient", "")));
  const TextSet odd = load_text_source(dir / "odd.csv", "odd", {.targets = {.group_column = "3"}});
  EXPECT_EQ(odd.classes, (std::vector<std::string>{"a", "b"}));
}

TEST(Groups, OfDataThatIsDividedAlreadyAreNamedWhereTheyCross) {
  const TemporaryDir dir;
  io::write_file_atomic(dir / "train.csv", std::string_view("text,label,who\none,a,x\ntwo,b,y\nthree,a,y\n"));
  io::write_file_atomic(dir / "val.csv", std::string_view("text,label,who\nfour,a,y\nfive,b,z\n"));
  const TextSet set = load_text_source(dir.path(), "s", {.targets = {.group_column = "who"}});
  EXPECT_NE(set.train.note.find("1 group of who (y) is in the training and in the held-out set"), std::string::npos)
      << set.train.note;
}

TEST(Groups, ThatCannotBeReadAreRefusedByName) {
  const TemporaryDir dir;
  const auto text = [&](const std::string& csv, const std::string& column) {
    io::write_file_atomic(dir / "t.csv", std::string_view(csv));
    return [=, path = dir / "t.csv"] { load_text_source(path, "t", {.targets = {.group_column = column}}); };
  };
  expect_error(ErrorKind::usage, {"--group-column", "whom"}, text("text,label,who\none,a,x\ntwo,b,y\n", "whom"));
  expect_error(ErrorKind::usage, {"--group-column", "label"}, text("text,label,who\none,a,x\ntwo,b,y\n", "label"));
  expect_error(ErrorKind::data, {"t.csv:3", "the group is missing"}, text("text,label,who\none,a,x\ntwo,b,\n", "who"));
  expect_error(ErrorKind::data, {"all samples are of one group, x"}, text("text,label,who\none,a,x\ntwo,b,x\n", "who"));
  io::write_file_atomic(dir / "i.csv", std::string_view("path,label,who\na.png,a,x\nb.png,b,\n"));
  expect_error(ErrorKind::data, {"i.csv:3", "the group is empty"},
               [&] { load_image_source(dir / "i.csv", "i", {.targets = {.group_column = "who"}}); });
  io::write_file_atomic(dir / "f.txt", std::string_view("__label__a one\n__label__b two\n"));
  expect_error(ErrorKind::usage, {"--group-column", "fastText"},
               [&] { load_text_source(dir / "f.txt", "f", {.targets = {.group_column = "who"}}); });
}

}  // namespace
}  // namespace freight::data
