// The progress line and the signal flags.
#include "freight/train/progress.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "freight/base/log.h"
#include "freight/job/signals.h"

namespace freight {
namespace {

std::string written(Progress::Mode mode, void (*body)(Progress&)) {
  char* data = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&data, &size);
  {
    Progress progress(mode, out);
    body(progress);
  }
  std::fclose(out);
  std::string text(data, size);
  free(data);
  return text;
}

TEST(ProgressText, HasTheDocumentedForm) {
  ProgressFigures f;
  f.epoch = 3, f.epochs = 90, f.step = 412, f.steps = 5005, f.loss = 2.9131, f.mean_loss = 3.1042, f.lr = 0.1;
  f.top1 = 41.23, f.samples_per_s = 1284.4, f.data_percent = 2.1, f.eta_s = 2467;
  f.memory_bytes = int64_t{98} << 27, f.memory_limit_bytes = int64_t{236} << 27;
  EXPECT_EQ(progress_text(f),
            "epoch 3/90  412/5005  loss 2.913 (3.104)  top1 41.2  lr 0.1  1284 img/s  data 2%  mem 12.2/29.5 GiB  "
            "eta 0:41:07");
  EXPECT_EQ(progress_text(f, 200), progress_text(f));
  EXPECT_EQ(progress_text(f, 90),
            "epoch 3/90  412/5005  loss 2.913 (3.104)  top1 41.2  1284 img/s  data 2%  eta 0:41:07");
  EXPECT_EQ(progress_text(f, 79), "epoch 3/90  412/5005  loss 2.913  top1 41.2  1284 img/s  data 2%  eta 0:41:07");
  f.top1.reset(), f.data_percent.reset(), f.memory_bytes.reset(), f.eta_s.reset();
  EXPECT_EQ(progress_text(f), "epoch 3/90  412/5005  loss 2.913 (3.104)  lr 0.1  1284 img/s");
}

TEST(ProgressText, ClockCountsDays) {
  EXPECT_EQ(clock_text(59.6), "0:01:00");
  EXPECT_EQ(clock_text(2 * 86400 + 3 * 3600 + 4 * 60 + 5), "2d 3:04:05");
}

TEST(ProgressText, TruncationKeepsWholeCharacters) {
  EXPECT_EQ(truncated("abcdef", 6), "abcdef");
  EXPECT_EQ(truncated("abcdefg", 6), "abc...");
  EXPECT_EQ(truncated("\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4", 6), "\u00e4\u00f6\u00fc...");
  EXPECT_EQ(truncated("abcdef", 2), "..");
}

TEST(Progress, RewritesOneLineOnATerminal) {
  const std::string text = written(Progress::Mode::rewriting, [](Progress& p) {
    p.update("one");
    p.update("too soon");
    p.line("kept");
  });
  EXPECT_EQ(text, "\rone\033[K\r\033[Kkept\n");
}

TEST(Progress, AWarningTakesTheRewritingLineAway) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(Progress::Mode::rewriting);
    progress.update("one");
    logging::warn("full");
    progress.clear();
    logging::warn("empty");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "\rone\033[K\r\033[Kfreight: warning: full\n\r\033[Kfreight: warning: empty\n");
}

TEST(Progress, WritesWholeLinesElsewhere) {
  const std::string text = written(Progress::Mode::lines, [](Progress& p) {
    p.update("one");
    p.update("too soon");
    p.line("kept");
  });
  EXPECT_EQ(text, "one\nkept\n");
}

// Warnings that come while results are written piece by piece follow them.
TEST(Logging, LinesWaitWhileResultsAreWritten) {
  std::string copied;
  logging::set_copy([&](const std::string& line) { copied += line + "\n"; });
  ::testing::internal::CaptureStderr();
  {
    const logging::Held outer;
    {
      const logging::Held inner;
      logging::warn("other programs");
    }
    std::fputs("result ends\n", stderr);
  }
  logging::warn("later");
  logging::set_copy({});
  logging::warn("not copied");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "result ends\nfreight: warning: other programs\nfreight: warning: later\nfreight: warning: not copied\n");
  EXPECT_EQ(copied, "freight: warning: other programs\nfreight: warning: later\n");
}

TEST(Progress, IsPlainWhenNotATerminal) {
  written(Progress::Mode::automatic, [](Progress& p) { EXPECT_EQ(p.mode(), Progress::Mode::lines); });
}

TEST(Progress, SaysNothingWhenOff) {
  EXPECT_EQ(written(Progress::Mode::off, [](Progress& p) { p.update("one"), p.line("two"); }), "");
}

TEST(Signals, FirstStopIsAFlagSecondEndsTheProcess) {
  signals::install();
  signals::reset();
  EXPECT_FALSE(signals::stop_requested());
  raise(SIGUSR1);
  EXPECT_TRUE(signals::take_save_request());
  EXPECT_FALSE(signals::take_save_request());
  raise(SIGTERM);
  EXPECT_TRUE(signals::stop_requested());
  EXPECT_EQ(signals::exit_code(), 143);
  raise(SIGTERM);  // within a second, as `timeout` sends it to the group behind the process
  EXPECT_EQ(signals::exit_code(), 143);
  EXPECT_EXIT(raise(SIGINT), testing::ExitedWithCode(130), "");
  EXPECT_EXIT((usleep(1'100'000), raise(SIGTERM)), testing::ExitedWithCode(143), "");
  signals::reset();
}

TEST(Signals, AProgramThatHoldsSigtermGetsItsHandlerBackWithTheSignalThatCame) {
  static int got = 0;
  std::signal(SIGTERM, [](int number) { got = number; });
  signals::hold_termination();
  EXPECT_EQ(signals::release_termination(), 0);
  raise(SIGTERM);
  EXPECT_EQ(std::exchange(got, 0), SIGTERM);
  signals::hold_termination();
  raise(SIGTERM);
  EXPECT_TRUE(signals::stop_requested());
  EXPECT_EQ(signals::release_termination(), SIGTERM);
  EXPECT_FALSE(signals::stop_requested());
  EXPECT_EQ(got, 0);
  raise(SIGTERM);
  EXPECT_EQ(got, SIGTERM);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace
}  // namespace freight
