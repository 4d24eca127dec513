// `freight data get`: downloads the files of a built-in data set (io/fetch.h).
#pragma once
#include <string>
#include <vector>

#include "freight/io/fetch.h"

namespace freight::data {

struct DownloadOptions {
  std::vector<std::string> base_urls = {};  // tried in order before the catalog's mirrors: --url, FREIGHT_DATA_URL
  std::string data_dir = {};                // --data-dir
  io::FetchOptions fetch = {};
};

// Fetches all files of a named set; returns their directory. Throws Error(usage) for unknown names, Error(data) for a
// set whose address is unknown, and where the download fails.
std::string download_set(const std::string& name, const DownloadOptions& options = {});

}  // namespace freight::data
