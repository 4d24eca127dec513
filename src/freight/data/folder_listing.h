// The entries of folders. A dataset's folders are asked for again and again while its kind is determined and its
// samples are listed: each is read from the disk once.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace freight::data {

// Reads each folder once; not for several threads at once.
class FolderListing {
 public:
  // A file or folder in a folder.
  struct Entry {
    std::string name;     // without the folder
    bool folder = false;  // or a link to one
    bool file = false;    // a regular file, or a link to one
  };
  // In byte order, without names that begin with a dot. Throws Error(data) for a folder that cannot be read.
  const std::vector<Entry>& entries(const std::string& folder) const;

 private:
  mutable std::map<std::string, std::vector<Entry>> read_;
};

}  // namespace freight::data
