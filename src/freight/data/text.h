// Text datasets: labeled documents in CSV, TSV, JSON lines or fastText files or as .txt files in class folders, and
// corpora for language models (one plain text). All text is kept in memory. Layouts and rules: docs/texts.md;
// tokenizer.h converts text to tokens. Errors are Error(data) that names file and line.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/data/folder_listing.h"
#include "freight/data/targets.h"
#include "freight/io/file.h"

namespace freight::data {

// Settings of reading texts, and of the validation split.
struct TextOptions {
  // For CSV, TSV and JSON lines: a column by its name in the header, or its number from 1; empty: inferred.
  std::string text_column = {}, label_column = {};
  double val_split = -1;    // as in ImageOptions; for a corpus the fraction at its end, below 0: kDefaultCorpusSplit
  uint64_t split_seed = 0;  // chooses the documents that are held out
  // The set that is TextSet::test if the data has both val and test. Default: the validation set; for built-in datasets
  // the test set.
  std::optional<HeldOut> held_out = {};
  Undivided undivided = Undivided::divide;  // the treatment of data without a held-out set
  BadSamples bad = {};                      // the treatment of documents that cannot be read
  TargetOptions targets = {};               // of files; its columns are used in place of label_column
};
// The fraction at the end of a corpus that is held out by default.
inline constexpr double kDefaultCorpusSplit = 0.1;
// A longer document is an error, since it is probably not one document.
inline constexpr size_t kMaxDocumentBytes = 1'000'000;

// One split of a text dataset.
struct TextPart {
  std::vector<std::string> texts;  // valid UTF-8, not blank; one for a corpus
  std::vector<int64_t> labels;     // class numbers; empty for a corpus, and where there are targets
  std::string note;                // as Dataset::note
  Array targets = {};              // of documents with values or several labels each, as Targets::array
  Array groups = {};               // as Dataset::groups

  int64_t count() const { return static_cast<int64_t>(texts.size()); }  // texts
};

// A text dataset with its two splits.
struct TextSet {
  std::string name;                  // of the dataset
  std::vector<std::string> classes;  // names by number of the class or label; empty for a corpus and for values
  std::vector<std::string> targets;  // names of the values
  TextPart train, test;              // the two splits
  bool undivided = false;            // the data has no held-out set: see Undivided

  bool test_apart = false;  // the data has a test set, and `test` is not that, but a validation set
  bool validation = false;  // `test` is a validation set: held out of training data, or named so

  // True for one plain text without classes.
  bool corpus() const { return classes.empty() && targets.empty(); }
  // The documents have a class each, neither values nor several labels.
  bool classification() const { return !classes.empty() && !train.targets.defined(); }
};

// The documents with these numbers, in this order.
TextPart selected(const TextPart& all, const std::vector<int64_t>& documents);
// "60,614 documents, 2 classes"; "1,003,854 characters".
std::string describe(const TextSet& set, const TextPart& part);
// A hash of all texts and labels.
uint64_t fingerprint(const TextPart& part);

// Recognized by names and, for .txt, by the first bytes: a file, a folder with train.csv (.tsv, .jsonl, .txt, also .gz)
// or with a single such file, or class folders with .txt files, below train or directly.
bool is_text_source(const std::string& path, const FolderListing& listing = {});
// True if it is one plain text without labels.
bool is_corpus_source(const std::string& path, const FolderListing& listing = {});
// Reads both splits. Throws Error(data) that names file and line.
TextSet load_text_source(const std::string& path, const std::string& name, const TextOptions& options = {},
                         const FolderListing& listing = {});

// One document of a file; `where` is "file:line".
struct TextRow {
  std::string text, label, where;         // unchanged, and its place
  std::string fault = {};                 // set by parse_unlabeled: the reason why it cannot be read
  std::vector<std::string> targets = {};  // the cells of the target columns, in place of a label
  std::string group = {};                 // if there is a column of groups
};
enum class TextForm { csv, tsv, jsonl, fasttext };  // file formats
// The documents of one file.
struct TextRows {
  std::vector<TextRow> rows;              // in the order of the file
  std::string note;                       // the choice of columns, unless it is obvious
  std::vector<std::string> targets = {};  // names of the target columns
};
// Parses the documents of a file. Bad ones are treated as options.bad specifies.
TextRows parse_text(io::ByteView bytes, const std::string& name, TextForm form, const TextOptions& options = {});
// The format of a file of documents, by its name and, for .txt, its first bytes; empty for a file of plain lines.
std::optional<TextForm> document_form(const std::string& path);
// Parses the documents of a file for prediction: one for each row, in order, including blank and bad ones. `column`:
// the name or number of the text column that the model was trained on; empty: inferred. Throws Error(data) if the text
// column cannot be inferred.
TextRows parse_unlabeled(io::ByteView bytes, const std::string& name, TextForm form, const std::string& column = {});
// The reason why a text cannot be a document: not UTF-8, blank, or too long; empty if it can.
std::string document_fault(const std::string& text);

}  // namespace freight::data
