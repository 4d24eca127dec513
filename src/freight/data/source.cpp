// See source.h.
#include "freight/data/source.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/data/arrays.h"
#include "freight/data/cells.h"
#include "freight/data/cifar.h"
#include "freight/data/digits.h"
#include "freight/data/folder_listing.h"
#include "freight/data/idx.h"
#include "freight/data/memory_table_internal.h"
#include "freight/io/file.h"
#include "freight/io/image.h"
#include "freight/io/memory_need.h"

namespace freight::data {

namespace fs = std::filesystem;

namespace {

constexpr uintmax_t kQuicklyRead = uintmax_t{32} << 20;  // bytes
constexpr int64_t kFewFiles = 10'000;
constexpr int kDeepest = 16;  // folders within each other: more is a loop of links

const std::vector<std::string>& fashion_classes() {
  static const std::vector<std::string> kNames = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                                  "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  return kNames;
}

// The formats whose samples are read into memory. They are recognized by the files; the first that fits reads them.
struct Format {
  bool (*fits)(const std::string& path);
  TrainTest (*load)(const std::string& path, const std::string& name, const LoadOptions& options);
  const char* files;  // by which it is recognized, for messages
};
bool is_cifar(const std::string& path) {
  CifarKind kind;
  return is_cifar_dir(path, kind);
}
TrainTest cifar_sets(const std::string& path, const std::string& name, const LoadOptions&) {
  CifarKind kind;
  is_cifar_dir(path, kind);
  return load_cifar_dir(path, name, kind);
}
TrainTest idx_sets(const std::string& path, const std::string& name, const LoadOptions&) {
  return load_idx_dir(path, name, name == "fashion-mnist" ? fashion_classes() : numbered_classes(10));
}
TrainTest array_sets(const std::string& path, const std::string&, const LoadOptions& options) {
  return load_array_source(path, options.arrays);
}
constexpr Format kFormats[] = {
    {is_array_source, array_sets, "x_train.npy and y_train.npy, one .npz"},
    {is_idx_dir, idx_sets, "IDX files (train-images-idx3-ubyte[.gz] ...)"},
    {is_cifar, cifar_sets, "CIFAR binaries (data_batch_1.bin ... or train.bin)"},
};
const Format* format_of(const std::string& path) {
  for (const Format& f : kFormats) {
    if (f.fits(path)) return &f;
  }
  return nullptr;
}

bool holds_data(const std::string& path, const FolderListing& listing) {
  return format_of(path) || is_image_source(path, listing) || is_text_source(path, listing);
}

// A known set lies where its first file does. Those of IDX may be unpacked, or have the names' other spelling.
bool lies_at(const CatalogEntry& entry, const std::string& path, const FolderListing& listing) {
  if (entry.text) return is_text_source(path, listing);
  const std::string& first = entry.files.front().name;
  if (entry.table && io::file_exists(cat(path, "/", entry.table->train.files.front()))) return true;
  return io::file_exists(cat(path, "/", first)) || (first.ends_with("-ubyte.gz") && is_idx_dir(path));
}

std::vector<std::string> names_of_sets() {
  std::vector<std::string> out;
  for (const CatalogEntry& e : catalog()) out.push_back(e.name);
  return out;
}

}  // namespace

// Each fact is determined when it is first asked for, and kept.
struct Source::State {
  std::string name, data_dir, text_column;
  bool in_memory = false;
  const CatalogEntry* entry = nullptr;
  std::string path;
  std::optional<Error> missing;
  FolderListing listing;
  mutable std::optional<Content> content;
  std::optional<TrainTest> sets;
  std::optional<TextSet> texts;
  TableSet table;  // in memory

  std::string found() const;
  std::string found_set() const;
  // A list that has images and texts is one of texts where their column is asked for.
  bool is_image_set() const {
    return is_image_source(path, listing) && (text_column.empty() || !is_text_source(path, listing));
  }
  Content told_content() const;
  TrainTest load_path(const std::string& set_name, const LoadOptions& options) const;
  // The set's name in listings: the catalog's, or the folder's.
  std::string listed_name() const;
  // Says that a folder goes before the known set of its name.
  void say_folder(std::string& note) const;
  bool reaches(const std::string& folder, int depth, uintmax_t& bytes, int64_t& files) const;
};

std::string Source::State::found() const {
  if (entry) return entry->builtin() ? "" : found_set();
  if (io::file_exists(name)) return name;
  // A folder of the user's own beside the known sets.
  if (name.find('/') == std::string::npos && !name.empty()) {
    for (const std::string& dir : search_dirs({.data_dir = data_dir})) {
      std::string beside = cat(dir, "/", name);
      if (holds_data(beside, listing)) return beside;
    }
  }
  fail(ErrorKind::data, name, "no such dataset, file or directory",
       did_you_mean(name, names_of_sets(), cat(": built-in datasets are ", join(names_of_sets(), ", "))));
}

std::string Source::State::found_set() const {
  std::vector<std::string> looked;
  for (const std::string& dir : search_dirs({.data_dir = data_dir})) {
    for (const std::string& folder : entry->folders) {
      std::string at = folder == "." ? dir : cat(dir, "/", folder);
      looked.push_back(at);
      if (lies_at(*entry, at, listing)) return at;
    }
  }
  fail(ErrorKind::data, name, "dataset not found: looked in ", join(looked, ", "), "; `freight data get ", entry->name,
       "` downloads it, --data-dir DIR or FREIGHT_DATA names another place");
}

Content Source::State::told_content() const {
  if (entry) {
    if (entry->table) return Content::table;
    return !entry->text ? Content::arrays : entry->classes > 0 ? Content::documents : Content::corpus;
  }
  if (missing) return Content::arrays;
  try {
    if (format_of(path)) return Content::arrays;
    if (is_image_set()) return Content::images;
    if (is_corpus_source(path, listing)) return Content::corpus;
    return is_text_source(path, listing) ? Content::documents : Content::arrays;
  } catch (const Error&) {  // reading says what is wrong
    return Content::arrays;
  }
}

std::string Source::State::listed_name() const {
  if (find_entry(name)) return name;
  fs::path p(path);
  if (!p.has_filename()) p = p.parent_path();  // "dir/"
  return p.filename().string();
}

void Source::State::say_folder(std::string& note) const {
  if (entry || !find_entry(name)) return;
  const std::string said = cat("the folder ", name, " is used instead of the built-in dataset of that name (",
                               "--data-dir DIR sets its location)");
  note = note.empty() ? said : cat(said, "; ", note);
}

Source::Source(const std::string& name_or_path, const LoadOptions& options) {
  auto s = std::make_shared<State>();
  s->name = name_or_path;
  s->data_dir = options.data_dir;
  s->text_column = options.text.text_column;
  // A folder here of the name of a known set that holds data is meant rather than the set, unless --data-dir says where
  // sets lie.
  s->entry = find_entry(name_or_path);
  const bool folder_here = s->entry && options.data_dir.empty() && io::file_exists(name_or_path);
  if (folder_here && holds_data(name_or_path, s->listing)) s->entry = nullptr;
  try {
    s->path = s->found();
  } catch (const Error& e) {
    s->missing = e;
  }
  state_ = std::move(s);
}

Source::Source(TrainTest sets) {
  auto s = std::make_shared<State>();
  s->name = sets.train.name;
  s->in_memory = true;
  s->content = sets.train.files ? Content::images : Content::arrays;
  s->sets = std::move(sets);
  state_ = std::move(s);
}

Source::Source(TextSet texts) {
  auto s = std::make_shared<State>();
  s->name = texts.name;
  s->in_memory = true;
  s->content = texts.corpus() ? Content::corpus : Content::documents;
  s->texts = std::move(texts);
  state_ = std::move(s);
}

Source::Source(const std::vector<MemoryColumn>& train, const std::string& name, const std::vector<MemoryColumn>& test) {
  TableSet set;
  const auto put = [&](TablePart& part, const std::vector<MemoryColumn>& columns) {
    const auto cells = std::make_shared<const Cells>(cells_in_memory(columns, name));
    part.cells = [cells](const CellsAsked& asked) { return in_asked_kinds(*cells, asked); };
    part.cell_count = static_cast<double>(cells->rows()) * static_cast<double>(cells->columns.size());
  };
  put(set.train, train);
  if (!test.empty()) put(set.test, test);
  *this = of_table(std::move(set), name);
}

Source Source::of_table(TableSet table, const std::string& name) {
  auto s = std::make_shared<State>();
  s->name = name;
  s->in_memory = true;
  s->content = Content::table;
  s->table = std::move(table);
  Source source;
  source.state_ = std::move(s);
  return source;
}

bool Source::is(const std::string& name_or_path, const LoadOptions& options) const {
  return state_ && (state_->in_memory || (state_->name == name_or_path && state_->data_dir == options.data_dir &&
                                          state_->text_column == options.text.text_column));
}

bool Source::in_memory() const { return state_->in_memory; }
void Source::need() const {
  if (state_->missing) throw Error(*state_->missing);
}
const std::string& Source::name() const { return state_->name; }
const std::string& Source::data_dir() const { return state_->data_dir; }
const CatalogEntry* Source::entry() const { return state_->entry; }

const std::string& Source::path() const {
  need();
  return state_->path;
}

const std::string& Source::where() const { return state_->path.empty() ? state_->name : state_->path; }

Content Source::content() const {
  if (!state_->content) state_->content = state_->told_content();
  return *state_->content;
}

bool Source::could_be_table() const {
  if (content() == Content::table) return true;
  std::error_code ignored;
  if (state_->missing || !fs::is_regular_file(state_->path, ignored) || is_array_source(state_->path)) return false;
  return content() != Content::images && content() != Content::corpus;
}

bool Source::State::reaches(const std::string& folder, int depth, uintmax_t& bytes, int64_t& files) const {
  if (depth > kDeepest) return false;
  std::error_code error;
  for (const FolderListing::Entry& e : listing.entries(folder)) {
    const std::string at = cat(folder, "/", e.name);
    if (e.folder && reaches(at, depth + 1, bytes, files)) return true;
    if (!e.file) continue;
    if (const uintmax_t size = fs::file_size(at, error); !error) bytes += size;
    if (bytes >= kQuicklyRead || ++files >= kFewFiles) return true;
  }
  return false;
}

bool Source::takes_time_to_read() const {
  if (state_->path.empty()) return false;
  std::error_code error;
  if (fs::is_regular_file(state_->path, error)) return fs::file_size(state_->path, error) >= kQuicklyRead;
  uintmax_t bytes = 0;
  int64_t files = 0;
  try {
    return fs::is_directory(state_->path, error) && state_->reaches(state_->path, 0, bytes, files);
  } catch (const Error&) {  // a folder that cannot be read
    return false;
  }
}

TrainTest Source::State::load_path(const std::string& set_name, const LoadOptions& options) const {
  if (const Format* format = format_of(path)) {
    TrainTest read = format->load(path, set_name, options);
    // The test part is normalized as the training part is, whatever its reader computed.
    read.test.mean = read.train.mean;
    read.test.std = read.train.std;
    return read;
  }
  if (is_image_set()) return load_image_source(path, set_name, options.images, listing);
  if (is_text_source(path, listing)) fail(ErrorKind::data, path, "holds text: expected arrays or images here");
  std::string files;
  for (const Format& f : kFormats) files += cat(f.files, ", ");
  fail(ErrorKind::data, path, "no dataset recognized: expected ", files, "or images (", io::image_endings(),
       ") as train/CLASS/* and val/CLASS/*, as CLASS/*, or listed in train.csv, or text (train.csv, .tsv, .jsonl, "
       ".txt, or train/CLASS/*.txt; docs/data.md)");
}

TrainTest Source::load(const LoadOptions& options) const {
  const State& s = *state_;
  if (s.sets) return *s.sets;
  if (s.in_memory || (s.entry && s.entry->table)) {
    fail(ErrorKind::data, s.name, "is a table: expected arrays or images here; use a model for tables (--model gbdt)");
  }
  need();
  TrainTest sets =
      s.path.empty() ? make_digits() : io::reading(s.path, [&] { return s.load_path(s.listed_name(), options); });
  s.say_folder(sets.train.note);
  return sets;
}

TextSet Source::load_text(const LoadOptions& options) const {
  const State& s = *state_;
  if (s.texts) return *s.texts;
  if (s.in_memory) fail(ErrorKind::data, s.name, "is not a text dataset: it contains arrays or a table");
  need();
  TextOptions o = options.text;
  if (!o.held_out && s.entry) o.held_out = HeldOut::test;
  TextSet set = io::reading(s.path, [&] { return load_text_source(s.path, s.listed_name(), o, s.listing); });
  s.say_folder(set.train.note);
  return set;
}

TableSet Source::table() const {
  const State& s = *state_;
  if (s.sets) fail(ErrorKind::data, s.name, "is not a table: it contains arrays");
  if (s.in_memory) return s.table;
  if (s.entry && !s.entry->table) fail(ErrorKind::data, s.name, "is not a table: ", s.entry->description);
  return table_at(s.missing ? s.name : s.path);
}

}  // namespace freight::data
