// The sample files that `freight data sample` writes.
#include "freight/data/sample_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "freight/base/error.h"
#include "freight/io/image.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {

namespace fs = std::filesystem;

TEST(SampleFiles, AreWrittenOnceAndNeverReplaceOtherFiles) {
  const io::ScratchDir scratch;
  EXPECT_EQ(write_sample_files("all", scratch.path()), 300 + 10 + 2 + 2);
  EXPECT_EQ(write_sample_files("housing", scratch.path()), 2);  // equal files stay
  const std::string mine = scratch.path() + "/housing.csv";
  std::ofstream(mine) << "mine\n";
  testing::expect_error(ErrorKind::runtime, {"housing.csv exists with other contents", "--output"},
                        [&] { write_sample_files("housing", scratch.path()); });
  EXPECT_EQ(io::read_text(mine), "mine\n");
  testing::expect_error(ErrorKind::usage, {"got houses", "all, photos, digits, housing, reviews"},
                        [&] { write_sample_files("houses", scratch.path()); });
}

TEST(SampleFiles, ImagesAndTextsHaveTheirClasses) {
  const io::ScratchDir scratch;
  write_sample_files("all", scratch.path());
  for (const char* shape : {"circle", "square", "triangle"}) {
    const fs::path folder = fs::path(scratch.path()) / "photos" / shape;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 100);
    EXPECT_EQ(io::load_image((folder / "07.png").string()).shape(), (Shape{64, 64, 3}));
  }
  EXPECT_EQ(io::load_image(scratch.path() + "/digits/3.png").shape(), (Shape{28, 28, 1}));
  const std::string reviews = io::read_text(scratch.path() + "/reviews.csv");
  EXPECT_EQ(reviews.rfind("text,label\n", 0), 0u);
  EXPECT_EQ(std::count(reviews.begin(), reviews.end(), '\n'), 401);
  const std::string houses = io::read_text(scratch.path() + "/housing.csv");
  EXPECT_EQ(houses.rfind("rooms,region,age,median_house_value\n", 0), 0u);
  EXPECT_EQ(std::count(houses.begin(), houses.end(), '\n'), 1001);
}

}  // namespace
}  // namespace freight::data
