// Converts the bytes of an image to the planes of a sample: decodes what is needed, crops, resizes, mirrors. Evaluation
// and prediction share `evaluation_view`, so that they see the same pixels. The transforms are torchvision's Resize
// with CenterCrop, and RandomResizedCrop (Szegedy et al. 2015).
#pragma once
#include <cstdint>
#include <string>

#include "freight/base/philox.h"
#include "freight/data/dataset.h"
#include "freight/data/resample.h"
#include "freight/io/file.h"
#include "freight/io/image.h"

namespace freight::data {

// The bounds of a random crop's fraction of the area and of its aspect ratio, which are sampled between them.
struct CropRange {
  double min_area = 0.08, max_area = 1.0;               // fraction of the image's area
  double min_ratio = 3.0 / 4.0, max_ratio = 4.0 / 3.0;  // width / height
};

// Samples a random crop with integer borders. After ten crops that do not fit it returns the largest center crop within
// the bounds of the aspect ratio.
Box draw_crop(int64_t rows, int64_t columns, const CropRange& range, PhiloxStream& random);
// The part of an image that evaluation uses: with geometry.resize the shorter side is resized to that, and the center
// of rows x columns is cropped; without it the whole image is used.
Box center_crop(int64_t rows, int64_t columns, const ImageGeometry& geometry);

// Reuses its buffers between calls, so each thread has its own. Errors are Error(data) that names the file.
class ImageReader {
 public:
  // Writes (channels, rows, columns) of the geometry to dst. A `sound` image (io::ImageRegion) is decoded only as far
  // as needed.
  void evaluation_view(io::ByteView bytes, const std::string& name, const ImageGeometry& geometry, Mirror mirror,
                       const PlaneTarget& dst, bool sound = false);
  // The same for a part that draw_crop chooses.
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
