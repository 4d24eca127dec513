// Source: an opened dataset. Its name, its files, their content and their size are determined once; recipe, model,
// planner and task of a run use the same source. Data in a program's memory is a source as well:
//   data::Source photos("photos");
//   data::Source table({{"size", sizes}, {"color", colors}, {"price", prices}}, "houses");
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "freight/data/catalog.h"

namespace freight::data {

// The kind of content. Only built-in datasets are recognized as tables, since a file of cells may also contain texts or
// a list of images.
enum class Content { arrays, images, documents, corpus, table };

// A column of a table in memory: numbers, where NaN is a missing value, or texts, where "" is one.
struct MemoryColumn {
  std::string name;                                                   // of the column
  std::variant<std::vector<double>, std::vector<std::string>> cells;  // one for each row
};

// Copies share what was determined. Not thread-safe.
class Source {
 public:
  Source() = default;  // no data
  // Opens a built-in dataset, a directory or a file. Of the options only the data directory and the text column are
  // used. Missing data is an error when it is used, not here.
  Source(const std::string& name_or_path, const LoadOptions& options = {});  // NOLINT
  Source(const char* name_or_path, const LoadOptions& options = {})
      : Source(std::string(name_or_path), options) {}  // NOLINT
  explicit Source(TrainTest sets);
  explicit Source(TextSet texts);
  // Throws Error(data) for columns of different lengths or with equal names. Without `test`, rows of `train` are held
  // out.
  Source(const std::vector<MemoryColumn>& train, const std::string& name, const std::vector<MemoryColumn>& test = {});

  // A table of cells in memory (TablePart::cells).
  static Source of_table(TableSet table, const std::string& name);

  explicit operator bool() const { return state_ != nullptr; }  // false without data
  // True if it was opened with this name and equivalent options.
  bool is(const std::string& name_or_path, const LoadOptions& options) const;
  bool in_memory() const;  // true for arrays and columns of the program
  // Throws Error(data) that lists the searched places if the data is missing.
  void need() const;
  const std::string& name() const;      // the requested name
  const std::string& data_dir() const;  // the option; "" if it was not given
  const CatalogEntry* entry() const;    // the built-in dataset; null for a path and for memory
  // The directory or file; "" for a generated dataset and for memory. Throws as need().
  const std::string& path() const;
  // The path, or else the name, for messages.
  const std::string& where() const;
  // The content, recognized by names and first bytes. Missing data counts as arrays.
  Content content() const;
  // True for a built-in table, a table in memory, and a file of cells that is neither a list of images nor plain text.
  bool could_be_table() const;
  // True if reading takes longer than planning a network: from 32 MiB or 10,000 files on.
  bool takes_time_to_read() const;

  // Reads both splits of images or arrays. Throws Error(data) for other content.
  TrainTest load(const LoadOptions& options = {}) const;
  // Reads both splits of a text dataset. Throws Error(data) for other content.
  TextSet load_text(const LoadOptions& options = {}) const;
  // The files or cells of a table. Throws Error(data) for a built-in dataset that is not a table.
  TableSet table() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace freight::data
