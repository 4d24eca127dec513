// See sample_files.h. Every value comes from Philox, so that samples need no storage in the binary.
#include "freight/data/sample_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numbers>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/data/digits.h"
#include "freight/io/image.h"

namespace freight::data {

namespace {
constexpr uint64_t kSampleSeed = 0x667265696768745full;
enum SampleStream : uint32_t { kPhotoStream = 101, kHouseStream = 102, kReviewStream = 103, kLineStream = 104 };

SampleFile text_file(std::string path, const std::string& text) {
  io::Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return {std::move(path), std::move(bytes)};
}

// ---- photos: 64 x 64 RGB images of three shapes ---------------------------------------------------------------------

constexpr int64_t kPhotoSide = 64, kPhotosPerClass = 100;
constexpr const char* kShapes[] = {"circle", "square", "triangle"};

// The signed distance of (x, y) from the outline of a shape of radius 1 around the origin; negative inside.
float shape_distance(size_t shape, float x, float y) {
  if (shape == 0) return std::hypot(x, y) - 1;
  if (shape == 1) return std::max(std::abs(x), std::abs(y)) - 0.85f;
  // An equilateral triangle is where three half-planes meet.
  const float slope = std::numbers::sqrt3_v<float> / 2;
  return std::max({y - 0.5f, -0.5f * y + slope * x - 0.5f, -0.5f * y - slope * x - 0.5f});
}

// u8 (H, W, 3)
Array draw_photo(size_t shape, uint64_t number) {
  PhiloxStream r(kSampleSeed, number, kPhotoStream);
  // Circles are reddish, squares greenish, triangles bluish, so that a small network learns them within seconds.
  std::array<float, 3> paint, background, far;
  const float light = r.uniform(20, 235);
  for (size_t c = 0; c < 3; ++c) {
    background[c] = light + r.uniform(-15, 15);
    far[c] = background[c] + r.uniform(-40, 40);
    paint[c] = r.uniform(20, 110) + (c == shape ? 120.0f : 0.0f);
  }
  const float radius = r.uniform(12, 22), angle = r.uniform(0, 2 * std::numbers::pi_v<float>);
  const float center_x = r.uniform(24, 40), center_y = r.uniform(24, 40);
  const float cosine = std::cos(angle), sine = std::sin(angle);
  Array image(DType::u8, {kPhotoSide, kPhotoSide, 3});
  auto* pixels = image.data<uint8_t>();
  for (int64_t row = 0; row < kPhotoSide; ++row) {
    for (int64_t column = 0; column < kPhotoSide; ++column) {
      const float dx = (static_cast<float>(column) - center_x) / radius;
      const float dy = (static_cast<float>(row) - center_y) / radius;
      const float distance = radius * shape_distance(shape, cosine * dx + sine * dy, cosine * dy - sine * dx);
      const float inside = std::clamp(0.5f - distance, 0.0f, 1.0f);  // the share of the pixel that the shape covers
      const float depth = static_cast<float>(row) / static_cast<float>(kPhotoSide);
      for (size_t c = 0; c < 3; ++c) {
        const float behind = background[c] + (far[c] - background[c]) * depth;
        const float value = behind + (paint[c] - behind) * inside + r.uniform(-8, 8);
        *pixels++ = static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
      }
    }
  }
  return image;
}

std::vector<SampleFile> make_photos() {
  std::vector<SampleFile> files;
  for (size_t shape = 0; shape < std::size(kShapes); ++shape) {
    for (int64_t i = 0; i < kPhotosPerClass; ++i) {
      const auto number = static_cast<uint64_t>(i) * std::size(kShapes) + shape;
      files.push_back({cat("photos/", kShapes[shape], "/", i < 10 ? "0" : "", i, ".png"),
                       io::encode_png(draw_photo(shape, number))});
    }
  }
  return files;
}

// ---- digits: one image per class, of those that the built-in set does not train on ----------------------------------

std::vector<SampleFile> make_digit_files() {
  const Dataset drawn = draw_digits(kDigitsTrain + kDigitsTest, 100);
  const std::vector<int64_t> labels = drawn.labels.to_vector<int64_t>();
  const auto* pixels = drawn.images.data<uint8_t>();  // (N, 1, 28, 28)
  std::vector<SampleFile> files;
  for (int64_t digit = 0; digit < 10; ++digit) {
    const auto found = std::find(labels.begin(), labels.end(), digit) - labels.begin();
    Array image(DType::u8, {28, 28});
    std::memcpy(image.data<uint8_t>(), pixels + found * 28 * 28, 28 * 28);
    files.push_back({cat("digits/", digit, ".png"), io::encode_png(image)});
  }
  return files;
}

// ---- housing: a table to predict a column of ------------------------------------------------------------------------

constexpr const char* kRegions[] = {"north", "south", "east", "coast"};
constexpr double kRegionValue[] = {90, 120, 105, 210};  // thousands

// Rooms, region and age of a house; the value follows from them with 10 % of noise. A few cells are empty, as they are
// in real tables.
std::string house_row(PhiloxStream& r, bool with_value) {
  const double rooms = r.uniform(2.0f, 9.0f);
  const size_t region = r.below(std::size(kRegions));
  const uint32_t age = r.below(60);
  const bool age_missing = r.below(20) == 0;
  const double value = (kRegionValue[region] + 28 * rooms - 0.8 * age) * (1 + 0.1 * r.normal());
  std::string row = cat(fixed(rooms, 1), ",", kRegions[region], ",", age_missing ? "" : std::to_string(age));
  if (with_value) row += cat(",", fixed(1000 * std::max(value, 20.0), 0));
  return row + "\n";
}

std::vector<SampleFile> make_housing() {
  PhiloxStream r(kSampleSeed, 0, kHouseStream);
  std::string table = "rooms,region,age,median_house_value\n", rows = "rooms,region,age\n";
  for (int i = 0; i < 1000; ++i) table += house_row(r, true);
  for (int i = 0; i < 5; ++i) rows += house_row(r, false);
  std::vector<SampleFile> files;
  files.push_back(text_file("housing.csv", table));
  files.push_back(text_file("new.csv", rows));
  return files;
}

// ---- reviews: texts with a class ------------------------------------------------------------------------------------

constexpr const char* kThings[] = {"film", "story", "music", "cast", "ending", "dialogue", "camera work", "first act"};
constexpr const char* kGood[] = {"moving", "clever", "a joy", "superb", "funny and warm", "worth every minute"};
constexpr const char* kBad[] = {"dull", "a bore", "far too long", "clumsy", "painful to watch", "a waste of time"};
constexpr const char* kOpenings[] = {"I thought", "To me", "My friends said", "Honestly,", "In the end", "For once"};

std::string review(PhiloxStream& r, bool good) {
  const auto pick = [&](const auto& list) {
    return std::string(list[r.below(static_cast<uint32_t>(std::size(list)))]);
  };
  std::string text = cat(pick(kOpenings), " the ", pick(kThings), " was ", good ? pick(kGood) : pick(kBad));
  if (r.below(2) == 1) text += cat(" and the ", pick(kThings), " ", good ? pick(kGood) : pick(kBad));
  return text;
}

std::vector<SampleFile> make_reviews() {
  PhiloxStream r(kSampleSeed, 0, kReviewStream), s(kSampleSeed, 0, kLineStream);
  std::string table = "text,label\n", lines;
  for (int i = 0; i < 400; ++i) table += cat("\"", review(r, i % 2 == 0), "\",", i % 2 == 0 ? "good" : "bad", "\n");
  for (int i = 0; i < 5; ++i) lines += review(s, i % 2 == 0) + "\n";
  std::vector<SampleFile> files;
  files.push_back(text_file("reviews.csv", table));
  files.push_back(text_file("lines.txt", lines));
  return files;
}

}  // namespace

const std::vector<SampleSet>& sample_sets() {
  static const std::vector<SampleSet> kSets = {
      {"photos", "photos/CLASS/NN.png: 300 color images, 64 x 64, of circles, squares and triangles", make_photos},
      {"digits", "digits/D.png: one image of each digit, 28 x 28, none of the built-in training set", make_digit_files},
      {"housing", "housing.csv: 1,000 rows with the target median_house_value; new.csv: five rows without it",
       make_housing},
      {"reviews", "reviews.csv: 400 texts labeled good or bad; lines.txt: five texts without a label", make_reviews},
  };
  return kSets;
}

int64_t write_sample_files(const std::string& name, const std::string& folder) {
  std::vector<std::string> names = {"all"};
  std::vector<SampleFile> files;
  for (const SampleSet& set : sample_sets()) {
    names.push_back(set.name);
    if (name != "all" && name != set.name) continue;
    for (SampleFile& file : set.make()) files.push_back(std::move(file));
  }
  if (files.empty()) {
    refuse_name("data sample", name, names);
  }
  namespace fs = std::filesystem;
  const auto path_of = [&](const SampleFile& file) { return (fs::path(folder) / file.path).string(); };
  for (const SampleFile& file : files) {
    const std::string path = path_of(file);
    if (!io::file_exists(path)) continue;
    const io::Bytes there = io::read_file(path);
    if (!std::ranges::equal(there.view(), file.bytes.view())) {
      fail(ErrorKind::runtime, "data sample", path, " exists with other contents; choose another folder with --output");
    }
  }
  for (const SampleFile& file : files) {
    const std::string path = path_of(file);
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    if (error) fail(ErrorKind::runtime, "data sample", "cannot create the folder of ", path, ": ", error.message());
    io::write_file_atomic(path, file.bytes.view());
  }
  return static_cast<int64_t>(files.size());
}

}  // namespace freight::data
