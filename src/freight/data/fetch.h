// Downloads: `freight data get`. A file arrives as NAME.part, continues there after a break, is checked against its
// SHA-256 and only then gets its name. Faults are Error(data) that names the address and what to do.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "freight/data/catalog.h"

namespace freight::data {

struct Progress {
  std::string file;
  int64_t done = 0, total = 0;  // bytes; total is 0 while unknown
};

struct FetchOptions {
  std::vector<std::string> base_urls = {};  // tried in order before the catalog's mirrors: --url, FREIGHT_DATA_URL
  std::string data_dir = {};                // --data-dir
  int tries = 3;                            // per address, for faults that may pass
  double retry_seconds = 1.0;               // pause before the second try; doubles
  std::function<void(const Progress&)> progress = {};
  std::function<bool()> cancelled = {};  // polled; true stops with an error, the .part stays
};

// Fetches one file to `path`. A complete file with the right hash is kept as it is. Each of `urls` is tried in turn.
void fetch_file(const std::vector<std::string>& urls, const std::string& path, const CatalogFile& expected,
                const FetchOptions& options);
// Fetches all files of a named set; returns their directory.
std::string fetch_set(const std::string& name, const FetchOptions& options = {});

}  // namespace freight::data
