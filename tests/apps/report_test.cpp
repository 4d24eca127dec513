// `freight report` as a user meets it.
#include <gtest/gtest.h>

#include <filesystem>

#include "run_command.h"
#include "tests/support/small_digits.h"

namespace freight::test {
namespace {

TEST(ReportCommand, WritesAPageBesideTheRunAndSaysWhereDataIsMissing) {
  const std::string dir = scratch_dir(), run = dir + "/run";
  write_small_digits(dir);
  ASSERT_EQ(run_freight({"train", dir, "--model", "mlp", "--max-steps", "5", "-q", "-o", run}).code, 0);
  const Ran r = run_freight({"report", run});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out.rfind(run + "/report.html: ", 0), 0u) << r.out;
  const std::string page = read_file(run + "/report.html");
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_NE(page.find("class=\"confusion\""), std::string::npos);
  EXPECT_NE(page.find("data:image/png;base64,"), std::string::npos);

  const Ran plain = run_freight({"report", run, "--no-examples", "-o", "-"});
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.out.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_EQ(plain.out.find("class=\"confusion\""), std::string::npos);

  const std::string written = read_file(run + "/run.json");
  EXPECT_EQ(r.err.find("damaged"), std::string::npos) << r.err;
  write_file(run + "/run.json", "{bad");
  const Ran damaged = run_freight({"report", run, "--no-examples", "-o", "-"});
  EXPECT_EQ(damaged.code, 0) << damaged.err;
  EXPECT_NE(damaged.err.find("warning: " + run + ": run.json is damaged: "), std::string::npos) << damaged.err;
  write_file(run + "/run.json", written);

  std::filesystem::remove(dir + "/t10k-images-idx3-ubyte");
  const Ran gone = run_freight({"report", run, run, "-o", dir + "/both.html"});
  EXPECT_EQ(gone.code, 0) << gone.err;
  EXPECT_NE(gone.err.find("warning: the model of " + run + " was not run: "), std::string::npos) << gone.err;
  EXPECT_NE(read_file(dir + "/both.html").find("was not evaluated on its validation data"), std::string::npos);
  std::filesystem::remove(run + "/model.safetensors");
  std::filesystem::remove_all(run + "/checkpoints");
  EXPECT_NE(run_freight({"report", run}).err.find("no saved model"), std::string::npos);
}

TEST(ReportCommand, RefusesWhatIsNoRun) {
  const std::string dir = scratch_dir();
  const Ran none = run_freight({"report", dir});
  EXPECT_EQ(none.code, 3);
  EXPECT_NE(none.err.find("not the directory of a run"), std::string::npos) << none.err;
  EXPECT_EQ(run_freight({"report", dir + "/nowhere"}).code, 3);
  EXPECT_EQ(run_freight({"report"}).code, 2);
  EXPECT_EQ(run_freight({"report", dir, "--exmples"}).code, 2);
}

}  // namespace
}  // namespace freight::test
