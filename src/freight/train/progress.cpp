// See progress.h.
#include "freight/train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/env.h"
#include "freight/base/log.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"

namespace freight {

namespace {

constexpr auto kRewriteEvery = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(10);

size_t columns(std::FILE* out) {
  winsize size = {};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

// Up to four significant digits without an exponent for the usual range of losses.
std::string figure(double v) {
  if (!std::isfinite(v)) return std::isnan(v) ? "nan" : "inf";
  const double magnitude = std::fabs(v);
  if (magnitude >= 1000) return fixed(v, 0);
  return fixed(v, magnitude >= 100 ? 1 : magnitude >= 10 ? 2 : magnitude >= 0.1 || magnitude == 0 ? 3 : 4);
}

std::string rate(double v) { return fixed(v, v < 10 ? 1 : 0); }

}  // namespace

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  char buf[48];
  std::snprintf(buf, sizeof buf, "%lld:%02lld:%02lld", static_cast<long long>(s / 3600 % 24),
                static_cast<long long>(s / 60 % 60), static_cast<long long>(s % 60));
  return s >= 86400 ? cat(s / 86400, "d ", buf) : std::string(buf);
}

std::string epoch_text(int64_t epoch, int64_t epochs) { return epochs > 0 ? cat(epoch, "/", epochs) : cat(epoch); }

std::string progress_text(const ProgressFigures& f) {
  std::string text = cat(f.pass, " ", epoch_text(f.epoch, f.epochs));
  if (f.steps > 1) text += cat("  ", f.step, "/", f.steps);
  text += cat("  ", f.loss_name, " ", figure(f.loss));
  if (f.mean_loss) text += cat(" (", figure(*f.mean_loss), ")");
  if (f.top1) text += cat("  top1 ", fixed(*f.top1, 1));
  if (f.lr) text += cat("  lr ", significant(*f.lr, 3));
  text += cat("  ", rate(f.samples_per_s), " ", f.unit);
  if (f.data_percent) text += cat("  data ", fixed(*f.data_percent, 0), "%");
  if (f.memory_bytes) {
    const double unit = 1024.0 * 1024.0 * 1024.0;
    text += "  mem " + (f.memory_limit_bytes ? cat(fixed(static_cast<double>(*f.memory_bytes) / unit, 1), "/",
                                                   fixed(static_cast<double>(*f.memory_limit_bytes) / unit, 1), " GiB")
                                             : human_bytes(static_cast<double>(*f.memory_bytes)));
  }
  if (f.eta_s) text += cat("  eta ", clock_text(*f.eta_s));
  return text;
}

std::string progress_text(ProgressFigures f, size_t width) {
  std::string text = progress_text(f);
  if (text.size() > width) f.memory_bytes.reset(), text = progress_text(f);
  if (text.size() > width) f.lr.reset(), text = progress_text(f);
  if (text.size() > width) f.mean_loss.reset(), text = progress_text(f);
  if (text.size() > width) f.data_percent.reset(), text = progress_text(f);
  return text;
}

std::string truncated(const std::string& text, size_t width) {
  const auto starts_character = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80; };
  size_t count = 0, cut = text.size();
  const size_t keep = width > 3 ? width - 3 : 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!starts_character(i)) continue;
    if (count == keep) cut = i;
    ++count;
  }
  if (count <= width) return text;
  return text.substr(0, cut) + std::string(std::min<size_t>(3, width), '.');
}

Progress::Progress(Mode mode, std::FILE* out) : mode_(mode), out_(out) {
  if (mode_ != Mode::automatic) return;
  const bool plain = env::is_set("CI") || env::get("TERM", "dumb") == "dumb";
  mode_ = isatty(fileno(out_)) && !plain ? Mode::rewriting : Mode::lines;
}

Progress::~Progress() { clear(); }

bool Progress::due() const {
  if (mode_ == Mode::off) return false;
  const auto now = std::chrono::steady_clock::now();
  if (mode_ == Mode::rewriting) return !shown_ || now - last_ >= kRewriteEvery;
  return now - last_ >= kLineEvery;
}

void Progress::update(const std::string& text) {
  if (!due()) return;
  last_ = std::chrono::steady_clock::now();
  if (mode_ == Mode::lines) {
    std::fprintf(out_, "%s\n", text.c_str());
    return;
  }
  // Erase after the text rather than before it: no flicker. One column stays free, where some terminals wrap.
  std::fprintf(out_, "\r%s\033[K", truncated(text, width()).c_str());
  std::fflush(out_);
  shown_ = true;
  if (out_ == stderr) logging::set_rewriting(true);
}

size_t Progress::width() const {
  return mode_ == Mode::rewriting ? columns(out_) - 1 : std::numeric_limits<size_t>::max();
}

void Progress::line(const std::string& text) {
  if (mode_ == Mode::off) return;
  clear();
  std::fprintf(out_, "%s\n", printable(text, "\n\t").c_str());
  std::fflush(out_);
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", out_);
  std::fflush(out_);
  shown_ = false;
  if (out_ == stderr) logging::set_rewriting(false);
}

}  // namespace freight
