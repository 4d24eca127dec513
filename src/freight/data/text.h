// Data sets of text: documents with a class each, in CSV, TSV, JSON lines or fastText files or as a folder of .txt per
// class, and corpora for language models (one plain text). All of it lies in memory. Layouts and rules: docs/data.md;
// what comes after: tokenizer.h. Faults are Error(data) that names file and line.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/data/folder_listing.h"
#include "freight/io/file.h"

namespace freight::data {

// Settings of reading and dividing texts.
struct TextOptions {
  // For CSV, TSV and JSON lines: a column by its name in the header, or its number from 1; empty: told by the file.
  std::string text_column = {}, label_column = {};
  double val_split = -1;    // as ImageOptions; of a corpus the share at its end, below 0: kDefaultCorpusSplit
  uint64_t split_seed = 0;  // which documents are held out
  // Which part is TextSet::test where there are both. By default the part for validation; of the sets known by name
  // the test part.
  std::optional<HeldOut> held_out = {};
  Undivided undivided = Undivided::divide;  // what becomes of data without a test part
  BadSamples bad = {};                      // documents that cannot be read
};
// The share at the end of a corpus that is held out by default.
inline constexpr double kDefaultCorpusSplit = 0.1;
// A document of this many bytes is taken for a file that is not what it seems.
inline constexpr size_t kMaxDocumentBytes = 1'000'000;

// One part of a set of text.
struct TextPart {
  std::vector<std::string> texts;                                       // valid UTF-8, none is blank; of a corpus one
  std::vector<int64_t> labels;                                          // class numbers; none of a corpus
  std::string note;                                                     // as Dataset::note
  int64_t count() const { return static_cast<int64_t>(texts.size()); }  // texts
};

// Both parts of a set of text.
struct TextSet {
  std::string name;                  // of the set
  std::vector<std::string> classes;  // names by class number; none of a corpus
  TextPart train, test;              // both parts
  bool undivided = false;            // the data has no part for the test: see Undivided

  bool test_apart = false;  // the data has a test part, and `test` is another: one for validation
  bool validation = false;  // `test` is a validation set: held out of training data, or named so

  bool corpus() const { return classes.empty(); }  // one plain text without classes
};

// "60,614 documents, 2 classes"; "1,003,854 characters".
std::string describe(const TextSet& set, const TextPart& part);
// A hash of all texts and labels.
uint64_t fingerprint(const TextPart& part);

// Told by names and, for .txt, by the first bytes: a file, a folder with train.csv (.tsv, .jsonl, .txt, also .gz) or a
// single such file, or class folders with .txt files below train or directly.
bool is_text_source(const std::string& path, const FolderListing& listing = {});
// True where that is one plain text without labels.
bool is_corpus_source(const std::string& path, const FolderListing& listing = {});
// Reads both parts. Throws Error(data) that names file and line.
TextSet load_text_source(const std::string& path, const std::string& name, const TextOptions& options = {},
                         const FolderListing& listing = {});

// One document as it stands in a file; `where` is "file:line".
struct TextRow {
  std::string text, label, where;  // as it stands, and its place
  std::string fault = {};          // of parse_unlabeled: why it cannot be read
};
enum class TextForm { csv, tsv, jsonl, fasttext };  // forms of files
// The documents of one file.
struct TextRows {
  std::vector<TextRow> rows;  // in order
  std::string note;           // how the columns were understood, where that does not go without saying
};
// The documents of a file. Bad ones go the way of options.bad.
TextRows parse_text(io::ByteView bytes, const std::string& name, TextForm form, const TextOptions& options = {});
// The form of a file of documents: told by its name and, for .txt, by the first bytes; none for a file of plain lines.
std::optional<TextForm> document_form(const std::string& path);
// The documents of a file, for who asks what their labels should be: one for each row, in order, blank ones and those
// with a fault, too. `column`: the name or number of the text's, as the model was trained on; empty: told by the file.
// Throws Error(data) where nothing says which column is the text.
TextRows parse_unlabeled(io::ByteView bytes, const std::string& name, TextForm form, const std::string& column = {});
// Why this cannot be a document: not UTF-8, blank, or too long. Empty where it can.
std::string document_fault(const std::string& text);

}  // namespace freight::data
