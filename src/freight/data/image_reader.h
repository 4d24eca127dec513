// From the bytes of an image to the planes of a sample: decode what is needed, cut, resize, mirror. Evaluation and
// prediction share `evaluation_view`, so that they see the same pixels. Recipes: torchvision's Resize + CenterCrop and
// RandomResizedCrop (Szegedy et al. 2015).
#pragma once
#include <cstdint>
#include <string>

#include "freight/base/philox.h"
#include "freight/data/dataset.h"
#include "freight/data/resample.h"
#include "freight/io/file.h"
#include "freight/io/image.h"

namespace freight::data {

// The part that a random crop takes: its share of the area, and its width by its height, both drawn between the bounds.
struct CropRange {
  double min_area = 0.08, max_area = 1.0;               // share of the image's area
  double min_ratio = 3.0 / 4.0, max_ratio = 4.0 / 3.0;  // width by height
};

// Where a random crop falls in an image; integers. Ten draws, then the middle, as wide as the bounds of the ratio let
// it.
Box draw_crop(int64_t rows, int64_t columns, const CropRange& range, PhiloxStream& random);
// The part of an image that evaluation sees: with geometry.resize the shorter side becomes that long and the middle
// rows x columns are cut out, else the whole is stretched.
Box center_crop(int64_t rows, int64_t columns, const ImageGeometry& geometry);

// Keeps its buffers between calls: one per thread. Faults are Error(data) that names the file.
class ImageReader {
 public:
  // dst: (channels, rows, columns) of the geometry. Of sound images (io::ImageRegion) no more is read than is needed.
  void evaluation_view(io::ByteView bytes, const std::string& name, const ImageGeometry& geometry, Mirror mirror,
                       const PlaneTarget& dst, bool sound = false);
  // The same of a part that draw_crop chooses.
  void random_view(io::ByteView bytes, const std::string& name, const ImageGeometry& geometry, const CropRange& range,
                   Mirror mirror, PhiloxStream& random, const PlaneTarget& dst, bool sound = false);

 private:
  void view(io::ByteView bytes, const std::string& name, const ImageGeometry& geometry, Mirror mirror,
            const std::function<Box(int64_t, int64_t)>& choose, const PlaneTarget& dst, bool sound);
  io::Image image_;
  Resampler resampler_;
};

// One image as evaluation sees it: u8 (channels, rows, columns).
Array evaluation_view(io::ByteView bytes, const std::string& name, const ImageGeometry& geometry);

}  // namespace freight::data
