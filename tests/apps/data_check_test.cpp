// `freight data check` and `freight data preview` as a user meets them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "freight/io/json_library.h"
#include "run_command.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;

std::string sample_photos(const std::string& dir) {
  EXPECT_EQ(run_freight({"data", "sample", "photos", "-o", dir}).code, 0);
  return dir + "/photos";
}

// The images of each class in train and val folders, the last five in val.
std::string divided_photos(const std::string& dir) {
  const std::string all = sample_photos(dir), photos = dir + "/divided";
  for (const auto& folder : fs::directory_iterator(all)) {
    const std::string name = folder.path().filename().string();
    for (const char* part : {"/train/", "/val/"}) fs::create_directories(photos + part + name);
    std::vector<fs::path> images;
    for (const auto& image : fs::directory_iterator(folder.path())) images.push_back(image.path());
    std::sort(images.begin(), images.end());
    for (size_t i = 0; i < images.size(); ++i) {
      const char* const part = i + 5 < images.size() ? "/train/" : "/val/";
      fs::copy_file(images[i], photos + part + name + "/" + images[i].filename().string());
    }
  }
  return photos;
}

TEST(DataCheck, NamesLeaksAndSkippedFilesAndEndsWithTheCodeOfData) {
  const std::string photos = divided_photos(scratch_dir());
  const Ran good = run_freight({"data", "check", photos});
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_NE(good.out.find("mean     0."), std::string::npos) << good.out;
  const std::string image = photos + "/train/circle/00.png";
  fs::copy_file(image, photos + "/val/circle/copy.png");
  write_file(photos + "/train/circle/bad.png", "no image");
  write_file(photos + "/train/circle/photo.heic", "");
  const Ran bad = run_freight({"data", "check", photos});
  EXPECT_EQ(bad.code, 3);
  for (const std::string& part : {std::string("leak     validation "), std::string("is the same as train " + image),
                                  std::string("skipped  "), std::string("bad.png"), std::string(".heic")}) {
    EXPECT_NE(bad.out.find(part), std::string::npos) << bad.out;
  }
  const auto j = nlohmann::json::parse(run_freight({"data", "check", photos, "--json"}).out);
  EXPECT_EQ(j["ok"], false);
  EXPECT_EQ(j["leaks"].size(), 1u);
  EXPECT_EQ(j["leaks"][0]["same"], true);
  EXPECT_EQ(j["bad"].size(), 1u);
  EXPECT_EQ(run_freight({"data", "check", "titanic"}).code, 2);
  EXPECT_EQ(run_freight({"data", "check", photos + "/nowhere"}).code, 3);
}

TEST(DataPreview, WritesAPageOfImagesAsTheRunSeesThem) {
  const std::string dir = scratch_dir(), photos = sample_photos(dir), page = dir + "/page.html";
  const Ran r = run_freight({"data", "preview", photos, "--train-crop-size", "32", "--mixup-alpha", "0.4",
                             "--preview-epochs", "2", "--preview-samples", "6", "-o", page});
  EXPECT_EQ(r.code, 0) << r.err;
  const std::string html = read_file(page);
  size_t images = 0;
  for (size_t at = html.find("data:image/png;base64,"); at != std::string::npos;
       at = html.find("data:image/png;base64,", at + 1)) {
    ++images;
  }
  EXPECT_EQ(images, 12u);
  for (const char* part : {"Epoch 2", "--mixup-alpha", "0.4", " %, "}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(run_freight({"data", "preview", photos}).code, 2);
  EXPECT_EQ(run_freight({"data", "preview", dir + "/nowhere", "-o", page}).code, 3);
}

TEST(DataPreview, ShowsTextsAsTheirTokens) {
  const std::string dir = scratch_dir();
  ASSERT_EQ(run_freight({"data", "sample", "reviews", "-o", dir}).code, 0);
  const Ran r =
      run_freight({"data", "preview", dir + "/reviews.csv", "--preview-epochs", "1", "-o", dir + "/page.html"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(read_file(dir + "/page.html").find(" tokens) "), std::string::npos);
}

}  // namespace
}  // namespace freight::test
