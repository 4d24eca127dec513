// See predict_inputs.h.
#include "predict_inputs.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <new>
#include <system_error>

#include "freight/base/strings.h"
#include "freight/io/image.h"
#include "freight/job/signals.h"

namespace freight::app {

namespace fs = std::filesystem;

namespace {
constexpr size_t kLongestLine = size_t{16} << 20;  // far more than a document may have (data::document_fault)

// Runs f in a thread, where no caller could catch an exception: it becomes an error of that input.
template <class F>
std::optional<Error> fault_of(const std::string& name, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::capacity, name, "there is not enough memory to read it");
  } catch (const std::exception& e) {
    return Error(ErrorKind::runtime, name, e.what());
  }
  return {};
}
}  // namespace

LineReader::LineReader(const std::string& path) : path_(path) {
  if (path == "-") {
    fd_ = STDIN_FILENO;
    return;
  }
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe's writer may open it later: next() waits
  if (fd_ < 0) fail(ErrorKind::data, path, "cannot open: ", std::strerror(errno));
  uint8_t magic[2] = {};
  if (::pread(fd_, magic, 2, 0) == 2 && io::is_gzip({magic, 2})) {
    const io::Bytes bytes = io::read_file_gunzip(path);
    buffer_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    end_ = true;
  }
}

LineReader::~LineReader() {
  if (fd_ > STDIN_FILENO) ::close(fd_);
}

LineReader::Got LineReader::next(std::string& line) {
  for (;;) {
    const size_t found = buffer_.find('\n', at_);
    if (found != std::string::npos || (end_ && at_ < buffer_.size())) {
      const size_t last = std::min(found, buffer_.size());
      line = buffer_.substr(at_, last - at_);
      if (ends_with(line, "\r")) line.pop_back();
      at_ = std::min(last + 1, buffer_.size());
      if (++number_ == 1 && starts_with(line, "\xef\xbb\xbf")) line.erase(0, 3);  // a byte order mark
      return Got::line;
    }
    if (end_) return Got::end;
    buffer_.erase(0, at_);
    at_ = 0;
    if (buffer_.size() > kLongestLine) {
      fail(ErrorKind::data, path_ == "-" ? "standard input" : path_, "line ", number_ + 1, " is longer than ",
           human_bytes(static_cast<double>(kLongestLine)), ": this is not a list of paths or texts");
    }
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, 100) <= 0) return Got::wait;
    char block[1 << 16];
    const ssize_t n = ::read(fd_, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return Got::wait;
    if (n < 0) fail(ErrorKind::data, path_ == "-" ? "standard input" : path_, "cannot read: ", std::strerror(errno));
    end_ = n == 0;
    buffer_.append(block, static_cast<size_t>(n));
  }
}

InputStream::InputStream(const deploy::Predictor& predictor, Sources sources, int64_t workers, size_t ahead,
                         const InputShard& shard)
    : predictor_(predictor),
      text_(predictor.bundle().preprocessing.text()),
      sources_(std::move(sources)),
      ahead_(ahead),
      shard_(shard) {
  // One thread makes the tokens of texts: a tokenizer serves one thread at a time, and is fast.
  for (int64_t i = 0; i < (text_ ? 1 : std::max<int64_t>(workers, 1)); ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // the system has no more threads, so there are fewer
      if (threads_.empty()) throw;
      break;
    }
  }
}

InputStream::~InputStream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
  for (const Item* item : queue_) delete item;
}

bool is_wanted(const std::string& name, bool text) {
  return text ? ends_with(name, ".txt") || ends_with(name, ".txt.gz") : io::is_image_name(name);
}

// Lists the entries of a folder, ordered by bytes, before the pending inputs. Links to folders are not followed, since
// they may form cycles.
void InputStream::walk(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name[0] == '.') continue;
    const bool is_folder = it->is_directory() && !it->is_symlink();
    if (is_folder || (is_wanted(name, text_) && !it->is_directory())) {
      names.push_back(name + (is_folder ? "/" : ""));
    } else {
      others_.push_back(it->path().string());
    }
  }
  if (error) fail(ErrorKind::data, folder, "cannot list: ", error.message());
  std::sort(names.begin(), names.end(), std::greater<>());
  for (const std::string& name : names) pending_.push_front((fs::path(folder) / name).string());
}

// Opens a file: a file of labeled documents yields its texts; in any other file each line is a text or a path.
void InputStream::open(const std::string& file) {
  const auto form = text_ ? data::document_form(file) : std::nullopt;
  if (!form) {
    lines_ = std::make_unique<LineReader>(file);
    return;
  }
  data::TextRows read = data::parse_unlabeled(io::read_file_gunzip(file), file, *form, sources_.text_column);
  documents_.assign(std::make_move_iterator(read.rows.begin()), std::make_move_iterator(read.rows.end()));
  if (!read.note.empty()) notes_.push_back(std::move(read.note));
}

std::vector<std::string> InputStream::notes() const {
  const std::lock_guard lock(pull_mutex_);
  std::vector<std::string> all = notes_;
  if (others_.empty()) return all;
  const auto count = static_cast<int64_t>(others_.size());
  all.push_back(cat(with_commas(count), count == 1 ? " file was" : " files were",
                    " not read: ", io::count_by_ending(others_), "; the first is ",
                    *std::min_element(others_.begin(), others_.end())));
  return all;
}

InputStream::Pulled InputStream::pull_line(Input& input) {
  std::string line;
  for (;;) {
    const LineReader::Got got = lines_->next(line);
    if (got == LineReader::Got::wait) return Pulled::wait;
    if (got == LineReader::Got::end) {
      lines_.reset();
      return Pulled::end;
    }
    // Skips blank lines in a list of paths; a blank text is a text.
    if (!text_ && line.find_first_not_of(" \t") == std::string::npos) continue;
    input.place = text_ ? cat(lines_->path(), ":", lines_->number()) : line;
    input.name = std::move(line);
    return Pulled::item;
  }
}

// The next input, by name only; after `wait` a line of a list may follow later.
InputStream::Pulled InputStream::pull(Input& input) {
  if (next_text_ < sources_.texts.size()) {
    input.name = sources_.texts[next_text_++];
    input.place = "--text";
    return Pulled::item;
  }
  for (;;) {
    if (lines_) {
      const Pulled got = pull_line(input);
      if (got != Pulled::end) return got;
    }
    if (!documents_.empty()) {
      data::TextRow& row = documents_.front();
      input.place = std::move(row.where);
      input.name = row.fault.empty() ? std::move(row.text) : input.place;
      if (!row.fault.empty()) input.fault = Error(ErrorKind::data, input.place, row.fault);
      documents_.pop_front();
      return Pulled::item;
    }
    if (!pending_.empty()) {
      const std::string path = pending_.front();
      pending_.pop_front();
      if (path.back() == '/') {
        walk(path);
        continue;
      }
      found_ = true;
      if (text_) {
        open(path);
        continue;
      }
      input.name = input.place = path;
      return Pulled::item;
    }
    if (!folder_.empty() && !found_) {
      fail(ErrorKind::data, folder_, "has no ", text_ ? "files of lines (.txt, .txt.gz)" : "images",
           others_.empty() ? "" : cat(": its files are ", io::count_by_ending(others_)));
    }
    folder_.clear();
    if (next_file_ == sources_.files.size()) return Pulled::end;
    const std::string& file = sources_.files[next_file_++];
    std::error_code ignored;
    if (fs::is_directory(file, ignored)) {
      folder_ = file;
      found_ = false;
      walk(file);
    } else if (text_ || file == "-") {
      open(file);
    } else {
      input.name = input.place = file;
      return Pulled::item;
    }
  }
}

void InputStream::read(Input& input) const {
  if (input.fault) return;
  input.fault = fault_of(input.place, [&] {
    input.sample = text_ ? predictor_.sample_of_text(input.name, input.place) : predictor_.sample_of_file(input.name);
  });
}

void InputStream::work() {
  for (;;) {
    auto item = std::make_unique<Item>();
    bool mine = true;
    {
      // The thread that takes an input also queues it, so that the queue keeps the order.
      const std::lock_guard order(pull_mutex_);
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || ended_ || queue_.size() < ahead_; });
        if (stop_ || ended_) return;
      }
      Pulled got = Pulled::end;
      const std::optional<Error> fault = fault_of("inputs", [&] { got = pull(item->input); });
      const std::lock_guard lock(mutex_);
      waiting_ = got == Pulled::wait;
      if (got == Pulled::item) {
        mine = shard_.mine(pulled_++);
        queue_.push_back(item.get());
      } else if (got == Pulled::end) {
        fault_ = fault;
        ended_ = true;
      }
      changed_.notify_all();
      if (got != Pulled::item) continue;
    }
    Item* const queued = item.release();  // owned by the queue
    if (mine) read(queued->input);
    const std::lock_guard lock(mutex_);
    queued->ready = true;
    changed_.notify_all();
  }
}

std::vector<Input> InputStream::next(size_t most) {
  std::vector<Input> got;
  std::unique_lock lock(mutex_);
  while (got.size() < most && !signals::stop_requested()) {
    if (!queue_.empty() && queue_.front()->ready) {
      const std::unique_ptr<Item> item(queue_.front());
      queue_.pop_front();
      got.push_back(std::move(item->input));
      changed_.notify_all();
      continue;
    }
    if (queue_.empty() && (ended_ || (waiting_ && !got.empty()))) break;
    changed_.wait_for(lock, std::chrono::milliseconds(100));  // polls for a signal
  }
  if (got.empty() && fault_) throw Error(*fault_);
  return got;
}

}  // namespace freight::app
