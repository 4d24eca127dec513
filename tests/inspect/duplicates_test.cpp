// Images and texts that are the same or nearly so, and those that only look alike.
#include "freight/inspect/duplicates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "freight/base/philox.h"

namespace freight::inspect {
namespace {

// A smooth random image, u8 (3, side, side).
Array smooth_image(uint64_t seed, int64_t side, int brighter = 0) {
  Array image(DType::u8, {3, side, side});
  PhiloxStream random(seed, 0, 0);
  float waves[3][4];
  for (auto& channel : waves) {
    for (float& w : channel) w = random.uniform(1, 6);
  }
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < side; ++y) {
      for (int64_t x = 0; x < side; ++x) {
        const float v = static_cast<float>(y) / static_cast<float>(side),
                    u = static_cast<float>(x) / static_cast<float>(side);
        const float value =
            100 + 50 * std::sin(waves[c][0] * u + waves[c][1]) + 40 * std::cos(waves[c][2] * v * u + waves[c][3]);
        image.data<uint8_t>()[(c * side + y) * side + x] =
            static_cast<uint8_t>(std::clamp(value + static_cast<float>(brighter), 0.0f, 255.0f));
      }
    }
  }
  return image;
}

data::Dataset dataset_of(const std::vector<Array>& images) {
  const Shape one = images[0].shape();
  data::Dataset set;
  set.images = Array(DType::u8, {static_cast<int64_t>(images.size()), one[0], one[1], one[2]});
  for (size_t i = 0; i < images.size(); ++i) {
    std::copy_n(images[i].data<uint8_t>(), one.numel(),
                set.images.data<uint8_t>() + static_cast<int64_t>(i) * one.numel());
  }
  set.labels = Array(DType::i64, {static_cast<int64_t>(images.size())});
  std::fill_n(set.labels.data<int64_t>(), images.size(), int64_t{0});
  set.classes = {"one"};
  return set;
}

TEST(DuplicateImages, TheSamePictureIsFoundInAnotherSizeAndBrightness) {
  std::vector<Array> first, second;
  for (uint64_t i = 0; i < 50; ++i) first.push_back(smooth_image(i, 48));
  second.push_back(smooth_image(7, 96));      // nearly the same: twice the size
  second.push_back(smooth_image(100, 96));    // another one
  second.push_back(smooth_image(8, 96, 25));  // nearly the same: brighter
  const ImageSamples a = read_samples(dataset_of(first)), b = read_samples(dataset_of(second));
  const std::vector<Duplicate> found = duplicate_images({&a, &b});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].first, 7);
  EXPECT_EQ(found[0].second, 50);
  EXPECT_FALSE(found[0].same);
  EXPECT_GT(found[0].similarity, kSameImage);
  EXPECT_EQ(found[1].first, 8);
  EXPECT_EQ(found[1].second, 52);
}

TEST(DuplicateImages, EqualContentIsTheSame) {
  const ImageSamples a = read_samples(dataset_of({smooth_image(1, 32), smooth_image(2, 32), smooth_image(1, 32)}));
  const std::vector<Duplicate> found = duplicate_images({&a});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].same);
  EXPECT_EQ(found[0].first, 0);
  EXPECT_EQ(found[0].second, 2);
}

TEST(DuplicateImages, PlainImagesAreNotNearlyTheSame) {
  std::vector<Array> plain;
  for (const uint8_t value : {10, 11, 12}) {
    plain.emplace_back(DType::u8, Shape{3, 32, 32});
    std::fill_n(plain.back().data<uint8_t>(), 3 * 32 * 32, value);
  }
  const ImageSamples a = read_samples(dataset_of(plain));
  EXPECT_TRUE(duplicate_images({&a}).empty());
}

TEST(DuplicateTexts, CopiesAreFoundInSpiteOfCaseAndPunctuation) {
  const std::vector<std::string> texts = {
      "The quick brown fox jumps over the lazy dog and runs away from the angry bear in the wood.",
      "Something else entirely, about the price of tea in the shops of the old town.",
      "the quick brown fox jumps over the lazy dog, and runs away from the angry bear in the wood!",
      "The quick brown fox jumps over the lazy dog and runs away from the angry bear in the wood today.",
      "The quick brown fox sleeps.",
      "ok",
      "OK!"};
  const std::vector<Duplicate> found = duplicate_texts(texts);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].second, 2);
  EXPECT_TRUE(found[0].same);
  EXPECT_EQ(found[1].first, 0);
  EXPECT_EQ(found[1].second, 3);
  EXPECT_FALSE(found[1].same);
  EXPECT_GT(found[1].similarity, kSameText);
  EXPECT_EQ(found[2].first, 5);
  EXPECT_EQ(found[2].second, 6);
}

}  // namespace
}  // namespace freight::inspect
