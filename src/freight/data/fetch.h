// Downloads for `freight data get`. A file is written as NAME.part, where an interrupted download resumes, checked
// against its SHA-256, and then renamed. Errors are Error(data) that names the address and what to do.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "freight/data/catalog.h"

namespace freight::data {

struct Progress {
  std::string file;
  int64_t done = 0, total = 0;  // bytes; total is 0 while it is unknown
};

struct FetchOptions {
  std::vector<std::string> base_urls = {};  // tried in order before the catalog's mirrors: --url, FREIGHT_DATA_URL
  std::string data_dir = {};                // --data-dir
  int tries = 3;                            // per address, for transient errors
  double retry_seconds = 1.0;               // pause before the second try; doubles with each further one
  std::function<void(const Progress&)> progress = {};
  std::function<bool()> cancelled = {};  // polled; true stops with an error and keeps the .part file
};

// Downloads one file to `path`, unless it is there with the right hash. The `urls` are tried in order.
void fetch_file(const std::vector<std::string>& urls, const std::string& path, const CatalogFile& expected,
                const FetchOptions& options);
// Downloads all files of a built-in dataset and returns their directory.
std::string fetch_set(const std::string& name, const FetchOptions& options = {});

}  // namespace freight::data
