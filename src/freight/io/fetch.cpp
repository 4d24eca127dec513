// See fetch.h. One libcurl transfer per try; an interruption keeps what has arrived, and the next try asks for the rest
// by Range.
#include "freight/io/fetch.h"

// Libraries before 7.85 need options that newer headers warn of.
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/library.h"
#include "freight/io/digest.h"
#include "freight/io/file.h"

namespace freight::io {

namespace {

// libcurl is loaded for the first download: it brings thirty libraries with it, and belongs to the system, which keeps
// its certificates.
struct CurlFunctions {
  decltype(&::curl_global_init) global_init;
  decltype(&::curl_easy_init) easy_init;
  decltype(&::curl_easy_setopt) easy_setopt;
  decltype(&::curl_easy_perform) easy_perform;
  decltype(&::curl_easy_getinfo) easy_getinfo;
  decltype(&::curl_easy_strerror) easy_strerror;
  decltype(&::curl_easy_cleanup) easy_cleanup;
  decltype(&::curl_slist_append) slist_append;
  decltype(&::curl_slist_free_all) slist_free_all;
};
const CurlFunctions& curl() {
  static const auto kLoaded = [] {
    Loaded<CurlFunctions> l;
    l.library = load_library({"libcurl.so.4", "libcurl-gnutls.so.4"}, "libcurl4", "curl_",
                             {"global_init", "easy_init", "easy_setopt", "easy_perform", "easy_getinfo",
                              "easy_strerror", "easy_cleanup", "slist_append", "slist_free_all"},
                             &l.functions, "another version of libcurl.so.4", LibraryKind::system);
    if (l.library.why.empty()) l.functions.global_init(CURL_GLOBAL_DEFAULT);
    return l;
  }();
  if (!kLoaded.library.why.empty()) fail(ErrorKind::runtime, "downloads", kLoaded.library.why);
  return kLoaded.functions;
}

int64_t size_of_file(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 ? static_cast<int64_t>(st.st_size) : 0;
}

// A file that this process alone writes to, until it ends or the object does.
class PartFile {
 public:
  // Waits while another process has it. `ready` is asked before each look: true gives up waiting, fd() is -1 then.
  PartFile(std::string path, const FetchOptions& options, const std::function<bool()>& ready) : path_(std::move(path)) {
    while (!ready()) {
      fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
      if (fd_ < 0) fail(ErrorKind::runtime, path_, "cannot write: ", std::strerror(errno));
      const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
      // The other process may have renamed or removed the file before it let it go.
      struct stat mine {
      }, there{};
      const bool same = ::fstat(fd_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino;
      if (locked && same) return;
      ::close(std::exchange(fd_, -1));
      if (options.cancelled && options.cancelled()) {
        fail(ErrorKind::data, path_, "download cancelled, which another process continues");
      }
      if (!locked) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  ~PartFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  void clear() const {
    if (::ftruncate(fd_, 0) != 0) fail(ErrorKind::runtime, path_, "cannot write: ", std::strerror(errno));
  }

 private:
  std::string path_;
  int fd_ = -1;
};

// The state of one transfer, which libcurl's callbacks share.
struct Transfer {
  const FetchOptions& options;
  std::string name = {};
  const PartFile* part = nullptr;  // what the bytes go to, or
  std::string* text = nullptr;
  int64_t have = 0;        // bytes in the .part when the transfer began
  std::string fault = {};  // of writing
  bool checked = false;    // whether the server's answer to Range has been looked at
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  char message[CURL_ERROR_SIZE] = "";

  ~Transfer() {
    if (headers) curl().slist_free_all(headers);
    if (handle) curl().easy_cleanup(handle);
  }
};

constexpr size_t kMostText = size_t{64} << 20;

size_t on_data(char* data, size_t, size_t n, void* user) {
  auto* t = static_cast<Transfer*>(user);
  if (t->text) {
    if (t->text->size() + n > kMostText) return 0;
    t->text->append(data, n);
    return n;
  }
  if (!t->checked) {
    t->checked = true;
    long status = 0;
    curl().easy_getinfo(t->handle, CURLINFO_RESPONSE_CODE, &status);
    // A server that ignores Range sends the whole file from its start.
    if (t->have > 0 && status == 200) {
      if (::ftruncate(t->part->fd(), 0) != 0) t->fault = std::strerror(errno);
      t->have = 0;
    }
  }
  for (size_t done = 0; done < n && t->fault.empty();) {
    const ssize_t w = ::write(t->part->fd(), data + done, n - done);
    if (w < 0 && errno == EINTR) continue;
    if (w < 0) {
      t->fault = std::strerror(errno);
    } else {
      done += static_cast<size_t>(w);
    }
  }
  return t->fault.empty() ? n : 0;
}

int on_progress(void* user, curl_off_t total, curl_off_t done, curl_off_t, curl_off_t) {
  const auto* t = static_cast<Transfer*>(user);
  if (t->options.cancelled && t->options.cancelled()) return 1;
  if (t->options.progress && t->part && done > 0) {
    t->options.progress({t->name, t->have + done, total > 0 ? t->have + total : 0});
  }
  return 0;
}

// A server may not redirect to files of this machine.
void allow_protocols(CURL* handle) {
  const CURLcode code = curl().easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https,file");
  curl().easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  if (code != CURLE_UNKNOWN_OPTION) return;
  // libcurl before 7.85 knows bits alone.
  curl().easy_setopt(handle, CURLOPT_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS | CURLPROTO_FILE});
  curl().easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
}

CURLcode perform(Transfer& t, const std::string& url) {
  t.handle = curl().easy_init();
  if (!t.handle) fail(ErrorKind::runtime, url, "cannot start libcurl");
  for (const std::string& line : t.options.headers) t.headers = curl().slist_append(t.headers, line.c_str());
  curl().easy_setopt(t.handle, CURLOPT_URL, url.c_str());
  curl().easy_setopt(t.handle, CURLOPT_ERRORBUFFER, t.message);
  curl().easy_setopt(t.handle, CURLOPT_HTTPHEADER, t.headers);
  curl().easy_setopt(t.handle, CURLOPT_FOLLOWLOCATION, 1L);
  curl().easy_setopt(t.handle, CURLOPT_FAILONERROR, 1L);
  curl().easy_setopt(t.handle, CURLOPT_NOSIGNAL, 1L);
  curl().easy_setopt(t.handle, CURLOPT_CONNECTTIMEOUT, 20L);
  curl().easy_setopt(t.handle, CURLOPT_LOW_SPEED_LIMIT, 100L);
  curl().easy_setopt(t.handle, CURLOPT_LOW_SPEED_TIME, 30L);
  allow_protocols(t.handle);
  curl().easy_setopt(t.handle, CURLOPT_USERAGENT, "freight");
  curl().easy_setopt(t.handle, CURLOPT_WRITEFUNCTION, on_data);
  curl().easy_setopt(t.handle, CURLOPT_WRITEDATA, &t);
  curl().easy_setopt(t.handle, CURLOPT_NOPROGRESS, 0L);
  curl().easy_setopt(t.handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl().easy_setopt(t.handle, CURLOPT_XFERINFODATA, &t);
  if (t.have > 0) curl().easy_setopt(t.handle, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(t.have));
  return curl().easy_perform(t.handle);
}

enum class Outcome { complete, again, give_up };
struct Result {
  Outcome outcome;
  std::string reason;
};

// The message of a failed transfer, and if another try can help.
Result result_of(const Transfer& t, CURLcode code, long status) {
  const std::string reason = *t.message ? t.message : curl().easy_strerror(code);
  switch (code) {
    case CURLE_HTTP_RETURNED_ERROR: {
      const std::string meaning = t.options.meaning ? t.options.meaning(status) : "";
      return {status >= 500 || status == 429 ? Outcome::again : Outcome::give_up,
              meaning.empty() ? reason : cat("HTTP ", status, ": ", meaning)};
    }
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return {Outcome::give_up, cat(reason, " (is this machine offline?)")};
    case CURLE_COULDNT_CONNECT: return {Outcome::again, cat(reason, " (is this machine offline?)")};
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_FILE_COULDNT_READ_FILE: return {Outcome::give_up, reason};
    default: return {Outcome::again, reason};
  }
}

Result transfer_once(const std::string& url, const PartFile& part, const std::string& name,
                     const FetchOptions& options) {
  Transfer t{.options = options, .name = name, .part = &part, .have = size_of_file(part.path())};
  const CURLcode code = perform(t, url);
  long status = 0;
  curl().easy_getinfo(t.handle, CURLINFO_RESPONSE_CODE, &status);
  if (!t.fault.empty()) fail(ErrorKind::runtime, part.path(), "cannot write: ", t.fault);
  if (code == CURLE_OK) return {Outcome::complete, ""};
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    fail(ErrorKind::data, url, "download cancelled; the partial file stays in ", part.path());
  }
  if (code == CURLE_RANGE_ERROR || code == CURLE_BAD_DOWNLOAD_RESUME) {  // the server cannot continue: start over
    part.clear();
    return {Outcome::again, *t.message ? t.message : curl().easy_strerror(code)};
  }
  // Nothing is left after the .part: it is complete or garbage, the hash decides.
  if (code == CURLE_HTTP_RETURNED_ERROR && status == 416) return {Outcome::complete, ""};
  return result_of(t, code, status);
}

// The pause before another try; false where the user stops.
bool waited(double seconds, const FetchOptions& options) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (options.cancelled && options.cancelled()) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, 0.1)));
  }
  return true;
}

}  // namespace

std::string difference(const std::string& path, const ExpectedFile& expected) {
  const int64_t size = size_of_file(path);
  if (expected.bytes > 0 && size != expected.bytes) return cat("expected ", expected.bytes, ", got ", size, " bytes");
  if (expected.sha256.empty()) return "";
  const std::string got = sha256_of(path);
  return got.starts_with(expected.sha256) ? "" : cat("SHA-256 differs: expected ", expected.sha256, ", got ", got);
}

void fetch_file(const std::vector<std::string>& urls, const std::string& path, const ExpectedFile& expected,
                const FetchOptions& options) {
  const auto ready = [&] { return file_exists(path) && difference(path, expected).empty(); };
  const PartFile part(path + ".part", options, ready);
  if (part.fd() < 0) return;
  std::vector<std::string> reasons;
  for (const std::string& url : urls) {
    double pause = options.retry_seconds;
    for (int attempt = 0; attempt < options.tries; ++attempt) {
      if (attempt > 0) {
        if (!waited(pause, options)) break;
        pause *= 2;
      }
      const bool resumed = size_of_file(part.path()) > 0;
      Result r = transfer_once(url, part, std::filesystem::path(path).filename().string(), options);
      if (r.outcome == Outcome::complete) {
        const std::string fault = difference(part.path(), expected);
        if (fault.empty()) {
          if (::fsync(part.fd()) != 0 || ::rename(part.path().c_str(), path.c_str()) != 0) {
            fail(ErrorKind::runtime, path, "cannot rename ", part.path(), " to it: ", std::strerror(errno));
          }
          return;
        }
        part.clear();
        r = {resumed ? Outcome::again : Outcome::give_up, fault};  // what was resumed may be of an older file
      }
      if (r.outcome == Outcome::give_up || attempt + 1 == options.tries) {
        reasons.push_back(cat(url, ": ", r.reason));
        break;
      }
    }
  }
  const bool resumable = size_of_file(part.path()) > 0;
  if (!resumable) ::unlink(part.path().c_str());
  fail(ErrorKind::data, path, "download failed: ", join(reasons, "; "),
       resumable ? "; run the command again to resume" : "", options.advice.empty() ? "" : "; ", options.advice);
}

Document fetch_document(const std::string& url, const FetchOptions& options) {
  Document document;
  double pause = options.retry_seconds;
  for (int attempt = 0; attempt < options.tries; ++attempt) {
    if (attempt > 0) {
      if (!waited(pause, options)) break;
      pause *= 2;
    }
    document = {};
    Transfer t{.options = options, .text = &document.body};
    const CURLcode code = perform(t, url);
    curl().easy_getinfo(t.handle, CURLINFO_RESPONSE_CODE, &document.status);
    if (code == CURLE_OK) return document;
    if (code == CURLE_ABORTED_BY_CALLBACK) fail(ErrorKind::data, url, "download cancelled");
    const Result r = result_of(t, code, document.status);
    document.body.clear();
    document.fault = r.reason;
    if (r.outcome == Outcome::give_up) break;
  }
  return document;
}

}  // namespace freight::io
