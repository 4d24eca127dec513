// The server as others see it: Triton's client from PyPI, and a visitor's browser.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "freight/tables/learners.h"
#include "freight/train/trainer.h"
#include "running_server.h"
#include "tests/support/folders.h"
#include "tests/support/python.h"

namespace freight::serve {
namespace {

using freight::testing::peer_python;
using freight::testing::read_text;
using freight::testing::TemporaryDir;

struct Ran {
  int code;
  std::string output;
};
Ran run_python(const std::string& script, const std::string& arguments, const TemporaryDir& dir) {
  const std::string log = dir / "log";
  const int status = std::system(
      cat(peer_python(), " ", source_dir(), "/tests/serve/", script, " ", arguments, " > ", log, " 2>&1").c_str());
  return {WEXITSTATUS(status), read_text(log)};
}

TEST(ServerAndPeers, AnUnmodifiedTritonClientWorks) {
  if (peer_python().empty()) GTEST_SKIP() << "the packages of tests/requirements.txt are not there";
  const RunningServer server;
  const TemporaryDir dir;
  const Ran r = run_python("triton_client.py", cat("127.0.0.1:", server.port()), dir);
  EXPECT_EQ(r.code, 0) << r.output;
}

// A small net trained for a few steps on the built-in digits: enough to know a plain 3.
std::string trained_digits(const TemporaryDir& dir) {
  train::Config c = train::recipe("digits");
  c.model = "lenet";
  c.max_steps = 250;
  c.output_dir = dir / "digits";
  train::Observer silent;
  return train::train(c, silent).model_path;
}

std::string trained_reviews(const TemporaryDir& dir) {
  std::ofstream file(dir / "reviews.csv");
  file << "text,label\n";
  for (int i = 0; i < 200; ++i) file << "the film number " << i % 17 << (i % 2 ? " is a joy,5\n" : " is a bore,1\n");
  file.close();
  train::Config c = train::recipe(dir / "reviews.csv");
  c.model = "text_bow";
  c.lr = 0.02;
  c.output_dir = dir / "reviews";
  train::Observer silent;
  return train::train(c, silent).model_path;
}

// A model of rows of two columns.
std::string fitted_flowers(const TemporaryDir& dir) {
  tables::register_learners();
  std::ofstream file(dir / "flowers.csv");
  file << "length,colour,species\n";
  for (int i = 0; i < 60; ++i) file << (i % 3 ? "3,red,rose\n" : "1,blue,daisy\n");
  file.close();
  train::Config c;
  c.data = dir / "flowers.csv";
  c.model = "baseline";
  c.output_dir = dir / "flowers";
  train::Observer silent;
  return train::train(c, silent).model_path;
}

TEST(ServerAndPeers, AVisitorDrawsAThreeAndTypesAReview) {
  if (peer_python().empty()) GTEST_SKIP() << "the packages of tests/requirements.txt are not there";
  const TemporaryDir dir;
  Server server({{"digits", trained_digits(dir)}, {"reviews", trained_reviews(dir)}, {"flowers", fitted_flowers(dir)}},
                {.port = 0, .token = "open sesame", .max_batch = 1, .deterministic = true});
  server.start();
  const Ran r = run_python("page.py", cat("http://127.0.0.1:", server.port(), "/ ", dir.path(), " 'open sesame'"), dir);
  if (r.code == 77) GTEST_SKIP() << r.output;
  EXPECT_EQ(r.code, 0) << r.output;
}

}  // namespace
}  // namespace freight::serve
