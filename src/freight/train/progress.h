// The progress line of long commands, on stderr: one rewriting line on a terminal, whole lines at a slower pace
// elsewhere (a pipe, CI, TERM=dumb). Results go to stdout, not through this class.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace freight {

// The values of one progress line; empty ones are omitted from the text.
struct ProgressFigures {
  const char* pass = "epoch";     // RunSummary::pass
  int64_t epoch = 0, epochs = 0;  // 1-based; see epoch_text
  int64_t step = 0, steps = 0;    // within the epoch
  const char* loss_name = "loss";
  double loss = 0;
  std::optional<double> mean_loss = {}, top1 = {};  // top1 in percent
  std::optional<double> lr = {};
  double samples_per_s = 0;
  const char* unit = "img/s";
  std::optional<double> data_percent = {};
  std::optional<int64_t> memory_bytes = {}, memory_limit_bytes = {};
  std::optional<double> eta_s = {};
};
// "3/90"; "3" if the number of epochs is not known (0).
std::string epoch_text(int64_t epoch, int64_t epochs);
// "epoch 3/90  412/5005  loss 2.913 (3.104)  top1 41.2  lr 0.1  1284 img/s  data 2%  mem 9.8/23.6 GiB  eta 0:41:07"
std::string progress_text(const ProgressFigures& figures);
// The same in at most `width` columns, if omitting memory, rate, mean loss and data percentage achieves that.
std::string progress_text(ProgressFigures figures, size_t width);
// "0:41:07"; "2d 3:04:05" from a day on.
std::string clock_text(double seconds);
// The first `width` columns of a UTF-8 text of single-width characters, with "..." at the end if it was cut.
std::string truncated(const std::string& text, size_t width);

class Progress {
 public:
  enum class Mode { automatic, rewriting, lines, off };

  // `automatic` is `rewriting` if `out` is a terminal, CI is not set and TERM is not dumb; else `lines`.
  explicit Progress(Mode mode = Mode::automatic, std::FILE* out = stderr);
  ~Progress();  // leaves a clean line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // True if an `update` now would be shown; check it before building a text in a fast loop.
  bool due() const;
  void update(const std::string& text);  // shown at most 10 times a second, as lines at most every 10 seconds
  void line(const std::string& text);    // always shown, and kept
  void clear();                          // removes the rewriting line before others write
  Mode mode() const { return mode_; }
  size_t width() const;  // columns of the rewriting line; no limit elsewhere

 private:
  Mode mode_;
  std::FILE* out_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace freight
