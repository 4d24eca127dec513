// Which files make up a text data set, the numbering of its classes, and its parts. Files: text_file.cpp. See text.h.
#include "freight/data/text.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/data/class_names.h"
#include "freight/data/columns.h"
#include "freight/data/groups.h"
#include "freight/data/unicode.h"
#include "freight/io/image.h"

namespace freight::data {

namespace fs = std::filesystem;

namespace {
const std::vector<std::string> kTrainParts = {"train"}, kTestParts = {"test"},
                               kValParts = {"val", "valid", "validation", "dev"};
// Folders and files that lie beside the documents of well-known sets and are none.
constexpr const char* kUnlabeled = "unsup";  // aclImdb: reviews without a label

enum class Form { none, csv, tsv, jsonl, fasttext, corpus };

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}
bool is_text_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string without_gz(const std::string& name) {
  return ends_with(name, ".gz") ? name.substr(0, name.size() - 3) : name;
}

bool begins_with_label(const std::string& path) {
  std::string head(4096, '\0');
  if (ends_with(path, ".gz")) {
    const io::Bytes bytes = io::read_file_gunzip(path);
    head.assign(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), head.size()));
  } else {
    std::ifstream in(path, std::ios::binary);
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  }
  if (starts_with(head, "\xef\xbb\xbf")) head.erase(0, 3);
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string::npos && head.compare(first, 9, "__label__") == 0;
}

Form form_of(const fs::path& path) {
  if (!is_file(path)) return Form::none;
  const std::string name = path.filename().string(), plain = lower(without_gz(name));
  const auto is = [&](const char* ending) { return ends_with(plain, ending); };
  if (is(".csv")) return Form::csv;
  if (is(".tsv") || name == "SMSSpamCollection") return Form::tsv;
  if (is(".jsonl") || is(".ndjson")) return Form::jsonl;
  if (is(".ft")) return Form::fasttext;
  if (!is(".txt")) return Form::none;
  const bool about = starts_with(plain, "readme") || starts_with(plain, "license") || starts_with(plain, "licence");
  if (about || plain == "classes.txt" || plain == "labels.txt") return Form::none;
  return begins_with_label(path.string()) ? Form::fasttext : Form::corpus;
}

std::vector<fs::path> entries(const FolderListing& listing, const fs::path& dir) {
  std::vector<fs::path> out;
  for (const FolderListing::Entry& e : listing.entries(dir.string())) out.push_back(dir / e.name);
  return out;
}

bool is_document(const fs::path& path) { return ends_with(lower(path.filename().string()), ".txt") && is_file(path); }

bool holds_documents(const FolderListing& listing, const fs::path& dir) {
  try {
    const std::vector<fs::path> all = entries(listing, dir);
    return std::any_of(all.begin(), all.end(), is_document);
  } catch (const Error&) {  // a folder that cannot be read is none of the classes
    return false;
  }
}

// True where folders in here hold documents.
bool has_class_folders(const FolderListing& listing, const fs::path& dir) {
  if (!is_text_folder(dir)) return false;
  const std::vector<fs::path> all = entries(listing, dir);
  return std::any_of(all.begin(), all.end(), [&](const fs::path& p) {
    return is_text_folder(p) && p.filename() != kUnlabeled && holds_documents(listing, p);
  });
}

// The parts of a set: files or folders; "" where there is none.
struct TextParts {
  std::string train, val, test;
  bool folders = false;
  std::string note;
};

std::string one_of(const std::string& root, const std::vector<std::string>& names,
                   const std::vector<fs::path>& candidates) {
  std::vector<std::string> found;
  for (const fs::path& p : candidates) {
    const std::string stem = fs::path(without_gz(p.filename().string())).stem().string();
    if (std::find(names.begin(), names.end(), stem) != names.end()) found.push_back(p.string());
  }
  if (found.size() > 1) fail(ErrorKind::data, root, "has ", found[0], " and ", found[1], ": keep one of them");
  return found.empty() ? "" : found[0];
}

// No part at all where this is no text set.
TextParts parts_in(const std::string& path, const FolderListing& listing) {
  TextParts l;
  if (!is_text_folder(path)) {
    if (form_of(path) != Form::none) l.train = path;
    return l;
  }
  std::vector<fs::path> folders, files;
  for (const fs::path& p : entries(listing, path)) {
    if (is_text_folder(p)) folders.push_back(p);
    if (form_of(p) != Form::none) files.push_back(p);
  }
  if (has_class_folders(listing, path + "/train")) {
    l = {path + "/train", one_of(path, kValParts, folders), one_of(path, kTestParts, folders), true, {}};
    return l;
  }
  l.train = one_of(path, kTrainParts, files);
  l.val = one_of(path, kValParts, files);
  l.test = one_of(path, kTestParts, files);
  if (!l.train.empty()) return l;
  if (files.size() == 1) {
    l = {files[0].string(), {}, {}, false, {}};
    const std::string name = files[0].filename().string();
    if (starts_with(name, "test.")) l.note = cat("only ", name, " is here: it is divided into train and test");
    return l;
  }
  if (has_class_folders(listing, path)) return {path, {}, {}, true, {}};
  return {};
}

std::optional<int64_t> integer_of(const std::string& text) { return parse_number<int64_t>(text); }

// Distinct labels: integers by value, names in byte order.
std::vector<std::string> classes_of(const std::vector<TextRow>& rows) {
  std::vector<std::string> all;
  for (const TextRow& r : rows) all.push_back(r.label);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (std::all_of(all.begin(), all.end(), [](const std::string& s) { return integer_of(s).has_value(); })) {
    std::stable_sort(all.begin(), all.end(),
                     [](const std::string& a, const std::string& b) { return *integer_of(a) < *integer_of(b); });
  }
  return all;
}

// The names of a file with one per line; a name that stands twice would be two classes that read alike.
std::vector<std::string> read_class_names(const std::string& file) {
  std::vector<std::string> names;
  std::map<std::string, int64_t> lines;
  int64_t number = 0;
  for (const std::string& line : split(io::read_text(file), '\n')) {
    ++number;
    const std::string name(trimmed(starts_with(line, "\xef\xbb\xbf") ? line.substr(3) : line));
    if (name.empty()) continue;
    if (const auto [at, fresh] = lines.emplace(name, number); !fresh) {
      fail(ErrorKind::data, cat(file, ":", number), "class ", name, " is in line ", at->second,
           " already: expected a different name for every class");
    }
    names.push_back(name);
  }
  return names;
}

// classes.txt beside the file names labels 0, 1, ... or 1, 2, ...
std::vector<std::string> names_of(const std::vector<std::string>& classes, const fs::path& folder) {
  const fs::path file = folder / "classes.txt";
  if (!is_file(file)) return classes;
  const std::vector<std::string> names = read_class_names(file.string());
  for (const int64_t first : {0, 1}) {
    bool fits = names.size() == classes.size();
    for (size_t i = 0; fits && i < classes.size(); ++i)
      fits = integer_of(classes[i]) == static_cast<int64_t>(i) + first;
    if (fits) return names;
  }
  return classes;
}

class Reader {
 public:
  Reader(const TextOptions& options, const FolderListing& listing) : options_(options), listing_(listing) {}

  std::vector<TextRow> rows(const std::string& at, bool folders) { return folders ? folder_rows(at) : file_rows(at); }

  // A corpus, whole.
  std::string corpus(const std::string& file) const {
    if (form_of(file) != Form::corpus) fail(ErrorKind::data, file, "is not plain text, as the training set is");
    const io::Bytes bytes = io::read_file_gunzip(file);
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (starts_with(text, "\xef\xbb\xbf")) text.erase(0, 3);
    if (const auto at = utf8_fault(text)) {
      const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*at), '\n') + 1;
      fail(ErrorKind::data, cat(file, ":", line), "not UTF-8: byte ", *at, " of the file");
    }
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) fail(ErrorKind::data, file, "the text is empty");
    return text;
  }

  std::vector<std::string> notes;
  std::vector<std::string> targets;  // names of the target columns of the last file

 private:
  std::vector<TextRow> file_rows(const std::string& file) {
    const std::optional<TextForm> form = document_form(file);
    if (!form) fail(ErrorKind::data, file, "is plain text: expected documents with labels, as in the training set");
    TextRows read = parse_text(io::read_file_gunzip(file), file, *form, options_);
    targets = read.targets;
    const bool said = std::find(notes.begin(), notes.end(), read.note) != notes.end();
    if (!read.note.empty() && !said) notes.push_back(read.note);
    return std::move(read.rows);
  }

  std::vector<TextRow> folder_rows(const std::string& dir) {
    std::vector<TextRow> out;
    std::vector<std::string> others;
    for (const fs::path& folder : entries(listing_, dir)) {
      if (!is_text_folder(folder)) {
        if (is_document(folder) && form_of(folder) != Form::none) others.push_back(folder.string());
        continue;
      }
      const std::string label = folder.filename().string();
      if (label == kUnlabeled) {
        notes.push_back(cat(folder.string(), " has no labels and is skipped"));
        continue;
      }
      const size_t before = out.size();
      bool any = false;
      for (const fs::path& file : entries(listing_, folder)) {
        if (!is_document(file)) {
          others.push_back(file.string());
          continue;
        }
        any = true;
        std::string text = io::read_text(file.string());
        if (starts_with(text, "\xef\xbb\xbf")) text.erase(0, 3);
        if (const std::string fault = document_fault(text); !fault.empty()) {
          refuse(file.string(), fault);
          continue;
        }
        out.push_back({std::move(text), label, file.string()});
      }
      if (!any) {
        fail(ErrorKind::data, folder.string(), "the folder of class ", label,
             " has no .txt files; remove it or fill it");
      }
      if (out.size() == before) notes.push_back(cat("no document of class ", label, " in ", dir, " can be read"));
    }
    if (!others.empty()) {
      notes.push_back(cat(with_commas(static_cast<int64_t>(others.size())),
                          others.size() == 1 ? " file was" : " files were",
                          " not read, since documents are the .txt files in the folders of their classes: ",
                          io::count_by_ending(others), "; the first is ", others[0]));
    }
    return out;
  }

  void refuse(const std::string& where, const std::string& why) const {
    if (options_.bad.on_bad == OnBad::error) {
      fail(ErrorKind::data, where, why, advice_on_bad("documents"));
    }
    if (options_.bad.report) options_.bad.report({where, why});
  }

  const TextOptions& options_;
  const FolderListing& listing_;
};

// `numbers`: class number by label.
TextPart part_of(std::vector<TextRow>&& rows, const std::map<std::string, int64_t>& numbers,
                 const std::vector<std::string>& classes, const std::string& train) {
  TextPart part;
  for (TextRow& r : rows) {
    const auto it = numbers.find(r.label);
    if (it == numbers.end()) {
      fail(ErrorKind::data, r.where, "label out of range: class ", r.label, " is not in ", train, ": ", classes.size(),
           " classes, ", classes.front(), " to ", classes.back(), class_hint(r.label, classes));
    }
    part.labels.push_back(it->second);
    part.texts.push_back(std::move(r.text));
  }
  return part;
}

// The same for documents with values or several labels each. `known`: names of the labels, filled with those of the
// training set where it is empty.
TextPart part_of(std::vector<TextRow>&& rows, const TargetOptions& asked, const std::vector<std::string>& columns,
                 const std::string& file, std::vector<std::string>& known, std::vector<std::string>& notes) {
  TextPart part;
  TargetRows targets(asked.kind, columns);
  for (TextRow& r : rows) {
    targets.add(r.targets, r.where);  // the reader of the file has checked them
    part.texts.push_back(std::move(r.text));
  }
  Targets read = targets.finished(file, asked.kind == TargetKind::labels ? known : std::vector<std::string>());
  known = read.names;
  notes.insert(notes.end(), read.notes.begin(), read.notes.end());
  part.targets = read.array;
  return part;
}

// The names of the groups; none where no column has them.
std::vector<std::string> groups_of(const std::vector<TextRow>& rows, const TargetOptions& asked) {
  std::vector<std::string> groups;
  for (const TextRow& r : rows) {
    if (!asked.group_column.empty()) groups.push_back(r.group);
  }
  return groups;
}

double share_of(const TextOptions& o, double usual, const std::string& path) {
  const double share = o.val_split < 0 ? usual : o.val_split;
  need_validation(share, path);
  return share;
}

// The last part of a corpus, from a code point's border on.
std::pair<TextPart, TextPart> cut(const std::string& text, double share, const std::string& path) {
  auto at = static_cast<size_t>(std::llround((1 - share) * static_cast<double>(text.size())));
  while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) ++at;
  if (at == 0 || at >= text.size()) fail(ErrorKind::data, path, "the text is too short for a validation split");
  TextPart train{{text.substr(0, at)}, {}, {}}, test{{text.substr(at)}, {}, {}};
  test.note = cat("the last ", fixed(100 * share, 1), " % of ", path, " for validation");
  return {train, test};
}

std::pair<TextPart, TextPart> divide(TextPart&& all, size_t classes, const std::vector<std::string>& groups,
                                     const Splitting& splitting, const std::string& path) {
  const bool targets = all.targets.defined();
  const Strata strata = targets ? strata_of(all.targets) : Strata{all.labels, classes};
  const std::vector<bool> is_validation = held_out_samples(strata, groups, splitting, path);
  std::vector<int64_t> in_train, in_test;
  TextPart train, test;
  for (size_t i = 0; i < is_validation.size(); ++i) {
    TextPart& to = is_validation[i] ? test : train;
    to.texts.push_back(std::move(all.texts[i]));
    if (!targets) to.labels.push_back(all.labels[i]);
    (is_validation[i] ? in_test : in_train).push_back(static_cast<int64_t>(i));
  }
  if (targets) {
    train.targets = selected_rows(all.targets, in_train);
    test.targets = selected_rows(all.targets, in_test);
  }
  if (all.groups.defined()) train.groups = selected_rows(all.groups, in_train);
  if (test.texts.empty()) {
    fail(ErrorKind::data, path, "too few documents for a validation split: expected a class with two or more");
  }
  test.note = cat(describe_split(is_validation, groups, splitting, cat(targets ? "" : "each class of ", path)),
                  " for validation, seed ", splitting.seed);
  return {std::move(train), std::move(test)};
}

}  // namespace

TextPart selected(const TextPart& all, const std::vector<int64_t>& documents) {
  TextPart part;
  for (const int64_t i : documents) {
    part.texts.push_back(all.texts[static_cast<size_t>(i)]);
    if (!all.labels.empty()) part.labels.push_back(all.labels[static_cast<size_t>(i)]);
  }
  if (all.targets.defined()) part.targets = selected_rows(all.targets, documents);
  if (all.groups.defined()) part.groups = selected_rows(all.groups, documents);
  return part;
}

std::string describe(const TextSet& set, const TextPart& part) {
  if (!set.corpus()) {
    return cat(with_commas(part.count()), " documents, ",
               set.classification()  ? cat(set.classes.size(), " classes")
               : set.classes.empty() ? std::string("values")
                                     : cat(set.classes.size(), " labels"));
  }
  int64_t characters = 0;
  for (const std::string& text : part.texts) {
    characters +=
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; });
  }
  return cat(with_commas(characters), " characters");
}

uint64_t fingerprint(const TextPart& part) {
  uint64_t h = part.texts.size();
  for (const std::string& text : part.texts) h = hash_of(text.data(), text.size(), h);
  if (part.targets.defined()) return hash_of(part.targets.raw(), part.targets.bytes(), h);
  return hash_of(part.labels.data(), part.labels.size() * sizeof(int64_t), h);
}

std::optional<TextForm> document_form(const std::string& path) {
  switch (form_of(path)) {
    case Form::csv: return TextForm::csv;
    case Form::tsv: return TextForm::tsv;
    case Form::jsonl: return TextForm::jsonl;
    case Form::fasttext: return TextForm::fasttext;
    case Form::none:
    case Form::corpus: break;
  }
  return {};
}

bool is_text_source(const std::string& path, const FolderListing& listing) {
  return !parts_in(path, listing).train.empty();
}

bool is_corpus_source(const std::string& path, const FolderListing& listing) {
  const TextParts l = parts_in(path, listing);
  return !l.folders && !l.train.empty() && form_of(l.train) == Form::corpus;
}

TextSet load_text_source(const std::string& path, const std::string& name, const TextOptions& o,
                         const FolderListing& listing) {
  need_val_split(o.val_split, path, {});
  const TextParts l = parts_in(path, listing);
  if (l.train.empty()) fail(ErrorKind::data, path, "no text dataset recognized; see docs/data.md");
  const bool has_both = !l.val.empty() && !l.test.empty();
  const bool wants_test = o.held_out == HeldOut::test;
  std::string held_out = l.val.empty() || (has_both && wants_test) ? l.test : l.val;
  if (!held_out.empty() && o.val_split > 0) {
    need_val_split(o.val_split, path, l.val);
    if (!wants_test) held_out.clear();  // the test part stays untouched
  }
  TextSet set;
  set.name = name;
  set.undivided = held_out.empty();
  set.test_apart = !l.test.empty() && held_out != l.test;
  const bool whole = set.undivided && o.undivided == Undivided::whole;
  set.validation = held_out.empty() ? !whole : held_out != l.test;
  Reader reader(o, listing);
  const bool of_targets = o.targets.kind != TargetKind::classes;
  if (of_targets && (l.folders || form_of(l.train) == Form::corpus)) {
    fail(ErrorKind::usage, "--task", path, l.folders ? " has a folder for each class" : " is a plain text",
         ": expected a file of documents with their targets");
  }
  if (!o.targets.group_column.empty() && (l.folders || form_of(l.train) == Form::corpus)) {
    fail(ErrorKind::usage, "--group-column", path, l.folders ? " has a folder for each class" : " is a plain text",
         ": expected a file of documents with that column");
  }
  if (!l.folders && form_of(l.train) == Form::corpus) {
    if (!held_out.empty()) {
      set.train.texts = {reader.corpus(l.train)};
      set.test.texts = {reader.corpus(held_out)};
    } else if (whole) {
      set.train.texts = set.test.texts = {reader.corpus(l.train)};
    } else {
      std::tie(set.train, set.test) = cut(reader.corpus(l.train), share_of(o, kDefaultCorpusSplit, path), l.train);
    }
    return set;
  }
  std::vector<TextRow> rows = reader.rows(l.train, l.folders);
  if (rows.empty()) fail(ErrorKind::data, l.train, "has no documents");
  const std::vector<std::string> groups = groups_of(rows, o.targets);
  const auto need_apart = [&](const std::vector<TextRow>& others) {
    const std::string note = note_on_crossing(groups, groups_of(others, o.targets), o.targets.group_column);
    if (!note.empty()) reader.notes.push_back(note);
  };
  const auto splitting = [&] {
    return Splitting{
        .share = share_of(o, kDefaultSplit, path), .seed = o.split_seed, .group_column = o.targets.group_column};
  };
  if (of_targets) {
    std::vector<std::string> known = o.targets.labels;
    set.train = part_of(std::move(rows), o.targets, reader.targets, l.train, known, reader.notes);
    set.train.groups = group_numbers(groups);
    if (!held_out.empty()) {
      std::vector<TextRow> others = reader.rows(held_out, false);
      if (others.empty()) fail(ErrorKind::data, held_out, "has no documents");
      need_apart(others);
      set.test = part_of(std::move(others), o.targets, reader.targets, held_out, known, reader.notes);
    } else if (whole) {
      set.test = set.train;
    } else {
      std::tie(set.train, set.test) = divide(std::move(set.train), 0, groups, splitting(), l.train);
    }
    (o.targets.kind == TargetKind::labels ? set.classes : set.targets) = known;
    set.train.note = join(reader.notes, "; ");
    return set;
  }
  const std::vector<std::string> labels = classes_of(rows);
  if (labels.size() < 2 && !whole) {
    fail(ErrorKind::data, l.train, "has only one class, ", labels[0], ": expected two or more");
  }
  std::map<std::string, int64_t> numbers;
  for (size_t i = 0; i < labels.size(); ++i) numbers[labels[i]] = static_cast<int64_t>(i);
  set.classes = l.folders ? labels : names_of(labels, fs::path(l.train).parent_path());
  set.train = part_of(std::move(rows), numbers, labels, l.train);
  set.train.groups = group_numbers(groups);
  if (!held_out.empty()) {
    std::vector<TextRow> others = reader.rows(held_out, l.folders);
    need_apart(others);
    set.test = part_of(std::move(others), numbers, labels, l.train);
    if (set.test.texts.empty()) fail(ErrorKind::data, held_out, "has no documents");
  } else if (whole) {
    set.test = set.train;
  } else {
    std::tie(set.train, set.test) = divide(std::move(set.train), labels.size(), groups, splitting(), l.train);
  }
  if (!l.note.empty()) reader.notes.insert(reader.notes.begin(), l.note);
  if (const std::string note = class_forms_note(set.classes); !note.empty()) reader.notes.push_back(note);
  set.train.note = join(reader.notes, "; ");
  return set;
}

}  // namespace freight::data
