// See folder_listing.h.
#include "freight/data/folder_listing.h"

#include <algorithm>
#include <filesystem>

#include "freight/base/error.h"

namespace freight::data {

namespace fs = std::filesystem;

const std::vector<FolderListing::Entry>& FolderListing::entries(const std::string& folder) const {
  const std::string key = (fs::path(folder) / "").lexically_normal().string();  // "photos//train" is "photos/train/"
  if (const auto known = read_.find(key); known != read_.end()) return known->second;
  std::vector<Entry> all;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.starts_with(".")) continue;
    std::error_code unknown;  // a link to nothing is neither
    all.push_back({.name = std::move(name), .folder = it->is_directory(unknown), .file = it->is_regular_file(unknown)});
  }
  if (error) fail(ErrorKind::data, folder, "the folder cannot be read: ", error.message());
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return read_.emplace(key, std::move(all)).first->second;
}

}  // namespace freight::data
