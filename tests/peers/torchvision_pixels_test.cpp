// Color operations, RandAugment and resizing against torchvision's results in torchvision_pixels.json (made by
// torchvision_pixels.py beside it).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "freight/data/pixel_ops.h"
#include "freight/data/resample.h"
#include "tests/support/folders.h"

namespace freight::data {
namespace {

using nlohmann::json;

struct Recorded {
  json all = json::parse(std::ifstream(source_dir() + "/tests/peers/torchvision_pixels.json"));
  int64_t rows = all["rows"], columns = all["columns"];
  std::vector<uint8_t> image = all["image"];
};
const Recorded& recorded() {
  static const Recorded kRecorded;
  return kRecorded;
}

// Values that differ by more than one: f32 roundings at the border of two integers are no difference.
int64_t differing(const std::vector<uint8_t>& got, const json& want) {
  int64_t n = 0;
  for (size_t i = 0; i < got.size(); ++i) n += std::abs(got[i] - want[i].get<int>()) > 1;
  return n;
}

TEST(Torchvision, RandAugmentOperationsAgree) {
  const Recorded& r = recorded();
  std::vector<uint8_t> scratch;
  for (const json& c : r.all["ops"]) {
    SCOPED_TRACE(c["name"].get<std::string>() + " " + c["magnitude"].dump());
    std::vector<uint8_t> image = r.image;
    apply_augment_op({image.data(), r.rows, r.columns}, static_cast<AugmentOp>(c["op"].get<int>()), c["magnitude"],
                     c["negative"], scratch);
    EXPECT_EQ(differing(image, c["pixels"]), 0);
  }
}

TEST(Torchvision, EqualizingAgrees) {
  const json& c = recorded().all["equalized"];
  std::vector<uint8_t> image = c["image"];
  equalize({image.data(), c["rows"], c["columns"]});
  EXPECT_EQ(image, c["pixels"].get<std::vector<uint8_t>>());
  EXPECT_NE(c["image"], c["pixels"]);
}

TEST(Torchvision, ColorFunctionsAgree) {
  const Recorded& r = recorded();
  for (const json& c : r.all["functions"]) {
    const std::string name = c["name"];
    SCOPED_TRACE(name);
    std::vector<uint8_t> image = r.image;
    const Planes p{image.data(), r.rows, r.columns};
    const float value = c["value"];
    if (name == "hue") adjust_hue(p, value);
    if (name == "contrast") adjust_contrast(p, value);
    if (name == "saturation") adjust_saturation(p, value);
    if (name == "brightness") adjust_brightness(p, value);
    EXPECT_EQ(differing(image, c["pixels"]), 0);
  }
}

TEST(Torchvision, AntialiasedResizingAgrees) {
  const Recorded& r = recorded();
  std::vector<uint8_t> interleaved(r.image.size());
  const int64_t plane = r.rows * r.columns;
  for (int64_t i = 0; i < 3 * plane; ++i) {
    interleaved[static_cast<size_t>(i % plane * 3 + i / plane)] = r.image[static_cast<size_t>(i)];
  }
  const Box whole{0, 0, static_cast<double>(r.rows), static_cast<double>(r.columns)};
  for (const json& c : r.all["resized"]) {
    const int64_t rows = c["rows"], columns = c["columns"];
    std::vector<uint8_t> out(static_cast<size_t>(3 * rows * columns));
    Resampler().run({interleaved.data(), r.rows, r.columns, 3}, whole, Mirror::no, 3, rows, columns, out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], c["pixels"][i].get<double>(), 0.51) << rows << " x " << columns << " at " << i;
    }
  }
}

}  // namespace
}  // namespace freight::data
