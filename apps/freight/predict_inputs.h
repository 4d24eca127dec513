// `freight predict` reads these: images by path, images of folders, texts of lines or of a column, or paths from
// standard input, as samples in their order. Threads read and decode ahead of the step, a bounded number of inputs.
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

// A file's lines, or those of standard input ("-"), without their ends; gzip files are unpacked.
class LineReader {
 public:
  // Throws Error(data) where the file cannot be read.
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  enum class Got { line, wait, end };  // wait: nothing for a tenth of a second
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

// True where the walk through a folder takes a file of this name.
bool is_wanted(const std::string& name, bool text);

struct Sources {
  std::vector<std::string> texts, files;  // files: images or files of lines, folders of them, or "-"
  std::string text_column = {};           // of files of documents: that of training, by name or number; empty: told
};

struct Input {
  std::string name;   // the path or the text
  std::string place;  // for messages: the path, or FILE:LINE
  Array sample;       // not defined where the input is bad
  std::optional<Error> fault;
};

// Several processes go through the same inputs, and each reads every so many batches of them.
struct Turns {
  int rank = 0, world = 1;
  size_t batch = 1;  // inputs
  bool mine(size_t input) const { return input / batch % static_cast<size_t>(world) == static_cast<size_t>(rank); }
};

class InputStream {
 public:
  // `workers` decode, at most `ahead` inputs before the one that next() gives. Inputs of others have a name alone.
  InputStream(const deploy::Predictor& predictor, Sources sources, int64_t workers, size_t ahead,
              const Turns& turns = {});
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  // Up to `most` inputs, in order; fewer at the end (then none), when standard input has no more for now, or after a
  // signal to stop. Throws what stopped the reading (a folder without images, a missing list).
  std::vector<Input> next(size_t most);
  // What was understood of files, and which files of folders were not read. To be asked once everything was read.
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
  const Turns turns_;
  size_t pulled_ = 0;                // inputs
  std::deque<std::string> pending_;  // entries of folders that are being walked, the next one first
  std::unique_ptr<LineReader> lines_;
  std::deque<data::TextRow> documents_;  // of the file that is being read
  std::vector<std::string> others_;      // files of folders that are not read
  std::vector<std::string> notes_;
  std::string folder_;  // the argument that is being walked
  bool found_ = false;  // something in it

  // Of the sources; of what follows. pull_mutex_ is taken first.
  mutable std::mutex pull_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item*> queue_;  // in order
  bool ended_ = false, waiting_ = false, stop_ = false;
  std::optional<Error> fault_;
  std::vector<std::thread> threads_;
};

}  // namespace freight::app
