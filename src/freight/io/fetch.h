// Downloads of datasets (data/download.h) and of weights (store/weights_source.h). A file is written as NAME.part,
// where an interrupted download resumes, checked against its SHA-256, and then renamed. Errors are Error(data) that
// names the address and what to do.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace freight::io {

struct Progress {
  std::string file;             // its name, without the folder
  int64_t done = 0, total = 0;  // bytes; total is 0 while it is unknown
};

struct FetchOptions {
  int tries = 3;               // per address, for transient errors
  double retry_seconds = 1.0;  // pause before the second try; doubles with each further one
  // Header lines of each request, "Authorization: Bearer ...". They are not sent to another host after a redirect.
  std::vector<std::string> headers = {};
  std::function<void(const Progress&)> progress = {};
  std::function<bool()> cancelled = {};  // polled; true stops with an error and keeps the .part file
  // The meaning of an HTTP status where there is a better one than its number; "" otherwise.
  std::function<std::string(long status)> meaning = {};
  std::string advice = {};  // closes the message of a download that failed
};

// The properties that a fetched file must have.
struct ExpectedFile {
  std::string sha256 = {};  // lower-case hex, or its first digits; "" where it is not known
  int64_t bytes = 0;        // 0 where it is not known
};

// Fetches one file to `path`, whose folder exists. A complete file that is what is expected is kept as it is. Each of
// `urls` is tried in turn. Processes that fetch the same file at the same time take turns, so that one of them does.
void fetch_file(const std::vector<std::string>& urls, const std::string& path, const ExpectedFile& expected,
                const FetchOptions& options);

// The body of a small document, and the HTTP status.
struct Document {
  long status = 0;    // 0 where no answer came
  std::string body;   // of status 200
  std::string fault;  // why there is no body; "" for status 200
};
// Fetches a document of at most 64 MiB. An HTTP error is a result, and so is a connection that cannot be made.
Document fetch_document(const std::string& url, const FetchOptions& options);

// "" where the file is what is expected, else the difference: "SHA-256 differs: expected ..., got ...".
std::string difference(const std::string& path, const ExpectedFile& expected);

}  // namespace freight::io
