// See fetch.h. One libcurl transfer per try; a break keeps what has come, and the next try asks for the rest by Range.
#include "freight/data/fetch.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"

namespace freight::data {

namespace {
int64_t size_of_file(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 ? static_cast<int64_t>(st.st_size) : 0;
}

// The state of one transfer, which libcurl's callbacks share.
struct Transfer {
  const FetchOptions* options;
  std::string part, name;
  int64_t have = 0;  // bytes in the .part when the transfer began
  int64_t written = 0;
  int fd = -1;
  CURL* curl = nullptr;
  std::string fault;     // of writing
  bool checked = false;  // whether the server's answer to Range has been looked at

  ~Transfer() {
    if (fd >= 0) ::close(fd);
    if (curl) curl_easy_cleanup(curl);
  }
};

size_t on_data(char* data, size_t, size_t n, void* user) {
  auto* t = static_cast<Transfer*>(user);
  if (!t->checked) {
    t->checked = true;
    long status = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    // A server that ignores Range sends the whole file from its start.
    if (t->have > 0 && status == 200) {
      if (::ftruncate(t->fd, 0) != 0 || ::lseek(t->fd, 0, SEEK_SET) < 0) t->fault = std::strerror(errno);
      t->have = 0;
    }
  }
  for (size_t done = 0; done < n && t->fault.empty();) {
    const ssize_t w = ::write(t->fd, data + done, n - done);
    if (w < 0 && errno == EINTR) continue;
    if (w < 0) {
      t->fault = std::strerror(errno);
    } else {
      done += static_cast<size_t>(w);
    }
  }
  t->written += static_cast<int64_t>(n);
  return t->fault.empty() ? n : 0;
}

int on_progress(void* user, curl_off_t total, curl_off_t done, curl_off_t, curl_off_t) {
  const auto* t = static_cast<Transfer*>(user);
  if (t->options->cancelled && t->options->cancelled()) return 1;
  if (t->options->progress && done > 0) {
    t->options->progress({t->name, t->have + done, total > 0 ? t->have + total : 0});
  }
  return 0;
}

enum class Outcome { complete, again, give_up };
struct Result {
  Outcome outcome;
  std::string reason;
};

Result transfer_once(const std::string& url, const std::string& part, const std::string& name,
                     const FetchOptions& options) {
  static std::once_flag started;
  std::call_once(started, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  Transfer t;
  t.options = &options;
  t.part = part;
  t.name = name;
  t.have = size_of_file(part);
  t.fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (t.fd < 0) fail(ErrorKind::runtime, part, "cannot write: ", std::strerror(errno));
  t.curl = curl_easy_init();
  if (!t.curl) fail(ErrorKind::runtime, url, "cannot start libcurl");
  char text[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(t.curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(t.curl, CURLOPT_ERRORBUFFER, text);
  curl_easy_setopt(t.curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(t.curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(t.curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(t.curl, CURLOPT_CONNECTTIMEOUT, 20L);
  curl_easy_setopt(t.curl, CURLOPT_LOW_SPEED_LIMIT, 100L);
  curl_easy_setopt(t.curl, CURLOPT_LOW_SPEED_TIME, 30L);
  curl_easy_setopt(t.curl, CURLOPT_PROTOCOLS_STR, "http,https,file");
  curl_easy_setopt(t.curl, CURLOPT_USERAGENT, "freight");
  curl_easy_setopt(t.curl, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(t.curl, CURLOPT_WRITEDATA, &t);
  curl_easy_setopt(t.curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(t.curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(t.curl, CURLOPT_XFERINFODATA, &t);
  if (t.have > 0) curl_easy_setopt(t.curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(t.have));
  const CURLcode code = curl_easy_perform(t.curl);
  long status = 0;
  curl_easy_getinfo(t.curl, CURLINFO_RESPONSE_CODE, &status);
  if (!t.fault.empty()) fail(ErrorKind::runtime, part, "cannot write: ", t.fault);
  if (code == CURLE_OK) return {Outcome::complete, ""};
  const std::string reason = *text ? text : curl_easy_strerror(code);
  switch (code) {
    case CURLE_ABORTED_BY_CALLBACK: fail(ErrorKind::data, url, "download cancelled; the partial file stays in ", part);
    case CURLE_RANGE_ERROR:
    case CURLE_BAD_DOWNLOAD_RESUME:  // the server cannot continue: start over
      ::unlink(part.c_str());
      return {Outcome::again, reason};
    case CURLE_HTTP_RETURNED_ERROR:
      if (status == 416) {  // nothing left after the .part: it is complete or garbage, the hash decides
        return {Outcome::complete, ""};
      }
      return {status >= 500 || status == 429 ? Outcome::again : Outcome::give_up, reason};
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return {Outcome::give_up, cat(reason, " (is this machine offline?)")};
    case CURLE_COULDNT_CONNECT: return {Outcome::again, cat(reason, " (is this machine offline?)")};
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_FILE_COULDNT_READ_FILE: return {Outcome::give_up, reason};
    default: return {Outcome::again, reason};
  }
}

// "" when the file is what is expected.
std::string mismatch(const std::string& path, const CatalogFile& expected) {
  const int64_t size = size_of_file(path);
  if (expected.bytes > 0 && size != expected.bytes) return cat("expected ", expected.bytes, ", got ", size, " bytes");
  if (expected.sha256.empty()) return "";
  const std::string got = sha256_of(path);
  return got == expected.sha256 ? "" : cat("SHA-256 differs: expected ", expected.sha256, ", got ", got);
}

std::string without_slash(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  return url;
}
}  // namespace

void fetch_file(const std::vector<std::string>& urls, const std::string& path, const CatalogFile& expected,
                const FetchOptions& options) {
  if (io::file_exists(path) && mismatch(path, expected).empty()) return;
  const std::string part = path + ".part";
  std::vector<std::string> reasons;
  for (const std::string& url : urls) {
    double pause = options.retry_seconds;
    for (int attempt = 0; attempt < options.tries; ++attempt) {
      if (attempt > 0) {
        std::this_thread::sleep_for(std::chrono::duration<double>(pause));
        pause *= 2;
      }
      Result r = transfer_once(url, part, expected.name, options);
      if (r.outcome == Outcome::complete) {
        const std::string fault = mismatch(part, expected);
        if (fault.empty()) {
          if (::rename(part.c_str(), path.c_str()) != 0) {
            fail(ErrorKind::runtime, path, "cannot rename ", part, " to it: ", std::strerror(errno));
          }
          return;
        }
        // A part that does not match cannot be continued either.
        ::unlink(part.c_str());
        r = {Outcome::give_up, fault};
      }
      if (r.outcome == Outcome::give_up || attempt + 1 == options.tries) {
        reasons.push_back(cat(url, ": ", r.reason));
        break;
      }
    }
  }
  fail(ErrorKind::data, path, "download failed: ", join(reasons, "; "),
       io::file_exists(part) ? "; run the command again to resume" : "",
       "; another source: --url BASE or FREIGHT_DATA_URL, or put the file there yourself");
}

std::string fetch_set(const std::string& name, const FetchOptions& options) {
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
  for (const CatalogFile& file : entry->files) {
    std::vector<std::string> urls;
    urls.reserve(bases.size());
    for (const std::string& base : bases) urls.push_back(without_slash(base) + "/" + file.name);
    fetch_file(urls, dir + "/" + file.name, file, options);
  }
  return dir;
}

}  // namespace freight::data
