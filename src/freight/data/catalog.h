// The data sets Freight knows by name, where they are looked for, and the one door to all of them:
//   auto [train, test] = freight::data::load("mnist");
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/data/picture_folder.h"

namespace freight::data {

struct CatalogFile {
  std::string name;
  std::string sha256;  // lower-case hex; "" where it is not known
  int64_t bytes = 0;   // 0 where it is not known
};

struct CatalogEntry {
  std::string name, description;
  int64_t train = 0, test = 0, classes = 0;
  std::string shape;                 // of one sample: "1x28x28"
  std::vector<CatalogFile> files;    // empty for a set that is drawn by code
  std::vector<std::string> folders;  // usual names of its folder, the first is where `get` puts it
  std::vector<std::string> mirrors;  // base URLs; a file's URL is base + "/" + file name
  bool builtin() const { return files.empty(); }
};

const std::vector<CatalogEntry>& catalog();
// The entry of that name, or null.
const CatalogEntry* find_entry(const std::string& name);

struct LoadOptions {
  std::string data_dir = {};  // the --data-dir flag: looked in first
  PictureOptions pictures = {};
};

// The directory or file that `name_or_path` means. A path is taken as it is; a name is looked for in options.data_dir,
// $FREIGHT_DATA and the cache, under its usual folder names. "" for a built-in set. Throws Error(data) that lists where
// it looked and how to get the set, Error(usage) for a name that is neither a set nor a path.
std::string find(const std::string& name_or_path, const LoadOptions& options = {});
TrainTest load(const std::string& name_or_path, const LoadOptions& options = {});
// Whether that is a set of pictures on disk. False for what cannot be found.
bool holds_pictures(const std::string& name_or_path, const LoadOptions& options = {});

// What `freight data verify` checks: the hash of every file (known sets) and that everything parses; of pictures, that
// every one decodes.
struct Verification {
  struct File {
    std::string path;
    std::string sha256;
    enum class State { matches, differs, unknown } state = State::unknown;
  };
  std::string where;
  std::vector<File> files;
  int64_t pictures = 0;  // decoded or not
  std::vector<BadPicture> bad;
  std::string train, test;  // describe() of the splits
  uint64_t train_fingerprint = 0, test_fingerprint = 0;
  bool ok() const;
};
// Throws Error(data) when a file does not parse; hashes that differ and pictures that do not decode are in the result.
// `poll` is told of the pictures done; false stops, with Error(runtime).
Verification verify(const std::string& name_or_path, const LoadOptions& options = {},
                    const std::function<bool(int64_t done, int64_t total)>& poll = {});

// Directories in which named sets are looked for, in order.
std::vector<std::string> search_dirs(const LoadOptions& options);
// Where `freight data get` puts sets: --data-dir, else $FREIGHT_DATA, else the cache.
std::string download_dir(const LoadOptions& options);
std::string sha256_of(const std::string& path);

}  // namespace freight::data
