// Caches the entries of folders: a dataset's folders are listed repeatedly while its format is determined and its
// samples are listed, but each is read from the disk once.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace freight::data {

// Reads each folder once. Not thread-safe.
class FolderListing {
 public:
  // A file or folder in a folder.
  struct Entry {
    std::string name;     // without the folder
    bool folder = false;  // a folder, or a link to one
    bool file = false;    // a regular file, or a link to one
  };
  // The entries in byte order, without names that begin with a dot. Throws Error(data) if the folder cannot be read.
  const std::vector<Entry>& entries(const std::string& folder) const;

 private:
  mutable std::map<std::string, std::vector<Entry>> read_;
};

}  // namespace freight::data
