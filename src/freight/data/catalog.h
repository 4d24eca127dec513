// The data sets Freight knows by name, where they are looked for, and how a program reads any set (opening one first,
// to ask what it is: source.h):
//   auto [train, test] = freight::data::load("mnist");
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/data/image_folder.h"
#include "freight/data/table_set.h"
#include "freight/data/text.h"

namespace freight::data {

// A file of a known set.
struct CatalogFile {
  std::string name;    // as it lies in the folder
  std::string sha256;  // lower-case hex; "" where it is not known
  int64_t bytes = 0;   // 0 where it is not known
};

// A set that Freight knows by name.
struct CatalogEntry {
  std::string name = {}, description = {};          // of the set
  int64_t train = 0, test = 0, classes = 0;         // samples of each part, and classes
  std::string shape = {};                           // of one sample: "1x28x28"
  std::vector<CatalogFile> files = {};              // empty for a set that is drawn by code
  std::vector<std::string> folders = {};            // usual names of its folder, the first is where `get` puts it
  std::vector<std::string> mirrors = {};            // base URLs; a file's URL is base + "/" + file name
  bool text = false;                                // documents, or characters of a corpus, which has no classes
  std::optional<TableSet> table = {};               // rows of columns
  bool builtin() const { return folders.empty(); }  // drawn by code, without files
};

const std::vector<CatalogEntry>& catalog();  // all known sets, in the order of listings
// The entry of that name, or null.
const CatalogEntry* find_entry(const std::string& name);

// Settings of finding and reading data.
struct LoadOptions {
  std::string data_dir = {};  // the --data-dir flag: looked in first
  ImageOptions images = {};   // of image folders
  TextOptions text = {};      // of texts
  ArrayOptions arrays = {};   // of npy and npz files
};

// Reads both parts of images or arrays, by name or path.
// Throws Error(data) for a set of text, too: load_text reads those.
TrainTest load(const std::string& name_or_path, const LoadOptions& options = {});
// Reads both parts of a set of text. Throws Error(data) for other data.
TextSet load_text(const std::string& name_or_path, const LoadOptions& options = {});
// The result of `freight data verify`: the hash of every file (known sets) and that everything parses; of images, that
// every one decodes; of text, that every document can be read.
struct Verification {
  // A file of the set.
  struct File {
    std::string path;    // where it lies
    std::string sha256;  // as found, lower-case hex
    // Tells if the hash is the published one, where one is known.
    enum class State { matches, differs, unknown };
    State state = State::unknown;  // unknown where no hash is published
  };
  std::string where;                                     // the folder or file that was read
  std::vector<File> files = {};                          // all of the set
  int64_t images = 0;                                    // decoded or not
  int64_t documents = 0;                                 // that can be read
  std::vector<BadSample> bad;                            // samples that cannot be read
  std::string train, test;                               // describe() of the splits
  uint64_t train_fingerprint = 0, test_fingerprint = 0;  // of the parts' contents
  bool ok() const;                                       // no hash differs and no sample is bad
};
// Throws Error(data) when a file does not parse; hashes that differ and images that do not decode are in the result.
// `poll` is told of the images done; false stops, with Error(runtime).
Verification verify(const std::string& name_or_path, const LoadOptions& options = {},
                    const std::function<bool(int64_t done, int64_t total)>& poll = {});

// Directories in which named sets are looked for, in order.
std::vector<std::string> search_dirs(const LoadOptions& options);
// Where `freight data get` puts sets: --data-dir, else $FREIGHT_DATA, else the cache.
std::string download_dir(const LoadOptions& options);

}  // namespace freight::data
