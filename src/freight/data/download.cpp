// See download.h.
#include "freight/data/download.h"

#include <filesystem>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/data/catalog.h"

namespace freight::data {

namespace {
std::string without_slash(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  return url;
}
}  // namespace

std::string download_set(const std::string& name, const DownloadOptions& options) {
  const CatalogEntry* entry = find_entry(name);
  if (!entry) {
    std::vector<std::string> known;
    for (const CatalogEntry& e : catalog()) known.push_back(e.name);
    refuse_unknown(
        name, {.kind = "dataset", .got = name, .known = known, .otherwise = cat("; known are ", join(known, ", "))});
  }
  if (entry->builtin()) return "";
  std::vector<std::string> bases = options.base_urls;
  if (const std::string url = env::get("FREIGHT_DATA_URL"); !url.empty()) bases.push_back(url);
  bases.insert(bases.end(), entry->mirrors.begin(), entry->mirrors.end());
  std::string dir = download_dir({.data_dir = options.data_dir}) + "/" + entry->folders.front();
  if (entry->files.empty()) {
    fail(ErrorKind::data, name, "is distributed as an archive: unpack it, so that there is ", dir);
  }
  if (bases.empty()) {
    fail(ErrorKind::data, name, "no URL is known for its files: set one with --url BASE or FREIGHT_DATA_URL, or put ",
         entry->files.front().name, " and the others into ", dir);
  }
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) fail(ErrorKind::runtime, dir, "cannot make the directory: ", error.message());
  io::FetchOptions fetch = options.fetch;
  fetch.advice = "another source: --url BASE or FREIGHT_DATA_URL, or put the file there yourself";
  for (const CatalogFile& file : entry->files) {
    std::vector<std::string> urls;
    urls.reserve(bases.size());
    for (const std::string& base : bases) urls.push_back(without_slash(base) + "/" + file.name);
    io::fetch_file(urls, dir + "/" + file.name, {.sha256 = file.sha256, .bytes = file.bytes}, fetch);
  }
  return dir;
}

}  // namespace freight::data
