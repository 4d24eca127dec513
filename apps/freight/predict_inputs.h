// Reads the inputs of `freight predict` as samples in order: images by path, images of folders, texts of lines or of a
// column, or paths from standard input. Threads read and decode a bounded number of inputs ahead of the step.
#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "freight/base/error.h"
#include "freight/data/text.h"
#include "freight/deploy/predictor.h"

namespace freight::app {

// Reads the lines of a file, or of standard input ("-"), without their ends; gzip files are unpacked.
class LineReader {
 public:
  // Throws Error(data) if the file cannot be read.
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  enum class Got { line, wait, end };  // wait: nothing arrived for a tenth of a second
  Got next(std::string& line);
  int64_t number() const { return number_; }  // of the last line, from 1
  const std::string& path() const { return path_; }

 private:
  std::string path_, buffer_;
  size_t at_ = 0;
  int fd_ = -1;
  bool end_ = false;
  int64_t number_ = 0;
};

// True if a file of this name in a folder is an input.
bool is_wanted(const std::string& name, bool text);

struct Sources {
  std::vector<std::string> texts, files;  // files: images or files of lines, folders of them, or "-"
  std::string text_column = {};           // of files of documents, by name or number; empty: as in training
};

struct Input {
  std::string name;   // the path or the text
  std::string place;  // for messages: the path, or FILE:LINE
  Array sample;       // undefined if the input is invalid
  std::optional<Error> fault;
};

// Several processes divide the same inputs: each reads every n-th batch.
struct InputShard {
  int rank = 0, world = 1;
  size_t batch = 1;  // in inputs
  bool mine(size_t input) const { return input / batch % static_cast<size_t>(world) == static_cast<size_t>(rank); }
};

class InputStream {
 public:
  // `workers` threads decode at most `ahead` inputs before the one that next() returns. Inputs of other processes have
  // only a name.
  InputStream(const deploy::Predictor& predictor, Sources sources, int64_t workers, size_t ahead,
              const InputShard& shard = {});
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  // Up to `most` inputs, in order; fewer at the end (then none), if standard input has no more for now, or after a
  // signal to stop. Throws what ended the reading (a folder without images, a missing list).
  std::vector<Input> next(size_t most);
  // Notes on the interpretation of files and on skipped files of folders. Called after everything was read.
  std::vector<std::string> notes() const;

 private:
  struct Item {
    Input input;
    bool ready = false;
  };
  enum class Pulled { item, wait, end };
  Pulled pull(Input& input);
  Pulled pull_line(Input& input);
  void open(const std::string& file);
  void walk(const std::string& folder);
  void work();
  void read(Input& input) const;

  const deploy::Predictor& predictor_;
  const bool text_;
  Sources sources_;
  size_t next_text_ = 0, next_file_ = 0, ahead_;
  const InputShard shard_;
  size_t pulled_ = 0;                // number of inputs
  std::deque<std::string> pending_;  // entries of the folders that are being listed, the next one first
  std::unique_ptr<LineReader> lines_;
  std::deque<data::TextRow> documents_;  // of the file that is being read
  std::vector<std::string> others_;      // skipped files of folders
  std::vector<std::string> notes_;
  std::string folder_;  // the argument that is being listed
  bool found_ = false;  // whether it contained an input

  // pull_mutex_ protects the sources, the other one the members below. pull_mutex_ is locked first.
  mutable std::mutex pull_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item*> queue_;  // in order
  bool ended_ = false, waiting_ = false, stop_ = false;
  std::optional<Error> fault_;
  std::vector<std::thread> threads_;
};

}  // namespace freight::app
