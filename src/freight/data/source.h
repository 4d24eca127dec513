// Source: a dataset that is opened. Which known set it is, where its files are, what they contain and how large they
// are is determined once; recipe, model, planner and task of a run ask the same source. What a program holds in memory
// is a source as well:
//   data::Source photos("photos");
//   data::Source table({{"size", sizes}, {"color", colors}, {"price", prices}}, "houses");
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "freight/data/catalog.h"

namespace freight::data {

// The kind of content. Only a known name makes files a table: a file of cells may hold texts or a list of images as
// well.
enum class Content { arrays, images, documents, corpus, table };

// A column of a table in memory: numbers, of which NaN is a missing cell, or texts, of which "" is one.
struct MemoryColumn {
  std::string name;                                                   // of the column
  std::variant<std::vector<double>, std::vector<std::string>> cells;  // one for each row
};

// Copies share what was found. Not for several threads at once.
class Source {
 public:
  Source() = default;  // no data
  // A known set, a directory or a file. Of the options the data directory and the text column say what is meant. Data
  // that are not there throw when they are asked for, not here.
  Source(const std::string& name_or_path, const LoadOptions& options = {});  // NOLINT
  Source(const char* name_or_path, const LoadOptions& options = {})
      : Source(std::string(name_or_path), options) {}  // NOLINT
  explicit Source(TrainTest sets);
  // Throws Error(data) for columns of different lengths, or of one name. Without `test` rows of `train` are held out.
  Source(const std::vector<MemoryColumn>& train, const std::string& name, const std::vector<MemoryColumn>& test = {});

  explicit operator bool() const { return state_ != nullptr; }  // false without data
  // True of what was opened by this name with options that mean the same.
  bool is(const std::string& name_or_path, const LoadOptions& options) const;
  bool in_memory() const;  // true of arrays and columns that the program holds
  // Throws Error(data) that lists where it looked where the data are not there.
  void need() const;
  const std::string& name() const;      // as it was asked for
  const std::string& data_dir() const;  // the option; "" if it was not given
  const CatalogEntry* entry() const;    // the known set; null for a path and for memory
  // The directory or file; "" for a built-in set and for memory. Throws as need().
  const std::string& path() const;
  // For messages: the path, or the name of what has none.
  const std::string& where() const;
  // Recognized by names and first bytes. Arrays also for what is not there.
  Content content() const;
  // True of a known table, a table in memory, and a file of cells that lists no images and is no plain text.
  bool could_be_table() const;
  // True where reading takes longer than planning a network does: 32 MiB, or 10,000 files.
  bool takes_time_to_read() const;

  // Both parts of images or arrays. Throws Error(data) for other content.
  TrainTest load(const LoadOptions& options = {}) const;
  // Both parts of a set of texts. Throws Error(data) for other content.
  TextSet load_text(const LoadOptions& options = {}) const;
  // The files or cells of a table. Throws Error(data) for a known set that is none.
  TableSet table() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace freight::data
