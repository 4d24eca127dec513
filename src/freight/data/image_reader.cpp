// See image_reader.h.
#include "freight/data/image_reader.h"

#include <algorithm>
#include <cmath>

namespace freight::data {

Box draw_crop(int64_t rows, int64_t columns, const CropRange& range, PhiloxStream& random) {
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns), area = height * width;
  const auto between = [&](double lo, double hi) { return lo + (hi - lo) * static_cast<double>(random.uniform()); };
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * between(range.min_area, range.max_area);
    const double ratio = std::exp(between(std::log(range.min_ratio), std::log(range.max_ratio)));
    const auto w = static_cast<int64_t>(std::llround(std::sqrt(target * ratio)));
    const auto h = static_cast<int64_t>(std::llround(std::sqrt(target / ratio)));
    if (w < 1 || h < 1 || w > columns || h > rows) continue;
    const auto y = static_cast<double>(random.below(static_cast<uint32_t>(rows - h + 1)));
    const auto x = static_cast<double>(random.below(static_cast<uint32_t>(columns - w + 1)));
    return {y, x, static_cast<double>(h), static_cast<double>(w)};
  }
  double w = width, h = height;
  if (width / height < range.min_ratio) h = std::clamp(std::round(w / range.min_ratio), 1.0, height);
  if (width / height > range.max_ratio) w = std::clamp(std::round(h * range.max_ratio), 1.0, width);
  return {std::floor((height - h) / 2), std::floor((width - w) / 2), h, w};
}

Box center_crop(int64_t rows, int64_t columns, const ImageGeometry& geometry) {
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
  if (geometry.resize == 0) return {0, 0, height, width};
  // The resized image has whole pixels; its middle is cut at a whole pixel too.
  const auto side = static_cast<double>(geometry.resize);
  const double new_height = height <= width ? side : std::floor(side * height / width);
  const double new_width = height <= width ? std::floor(side * width / height) : side;
  const double per_row = height / new_height, per_column = width / new_width;
  const double top = std::nearbyint((new_height - static_cast<double>(geometry.rows)) / 2);
  const double left = std::nearbyint((new_width - static_cast<double>(geometry.columns)) / 2);
  return {top * per_row, left * per_column, static_cast<double>(geometry.rows) * per_row,
          static_cast<double>(geometry.columns) * per_column};
}

void ImageReader::view(io::ByteView bytes, const std::string& name, const ImageGeometry& geometry, Mirror mirror,
                       const std::function<Box(int64_t, int64_t)>& choose, const PlaneTarget& dst, bool sound) {
  Box box;
  io::ImageRoom room;
  io::decode_part(
      bytes, name,
      [&](int64_t rows, int64_t columns) {
        box = choose(rows, columns);
        const double down = box.rows / static_cast<double>(geometry.rows),
                     across = box.columns / static_cast<double>(geometry.columns);
        io::ImageRegion part{.shrink = std::min(down, across), .sound = sound};
        // The filter sees a destination pixel beyond the box (a source pixel where the image grows), and a coarser
        // image's pixels are up to 8 wide.
        const double margin = std::max({1.0, down, across}) + (part.shrink >= 2 ? 8 : 1);
        const auto cut = [&](double from, double extent, int64_t limit, int64_t& first, int64_t& count) {
          first = std::clamp<int64_t>(static_cast<int64_t>(std::floor(from - margin)), 0, limit - 1);
          count =
              std::clamp<int64_t>(static_cast<int64_t>(std::ceil(from + extent + margin)), first + 1, limit) - first;
        };
        cut(box.y, box.rows, rows, part.y, part.rows);
        cut(box.x, box.columns, columns, part.x, part.columns);
        return part;
      },
      image_, room, geometry.orientation);
  const io::Image& p = image_;
  const Box scaled{box.y * p.scale - p.y, box.x * p.scale - p.x, box.rows * p.scale, box.columns * p.scale};
  resampler_.run({p.pixels(), p.rows, p.columns, p.channels}, scaled, mirror, geometry.channels, geometry.rows,
                 geometry.columns, dst);
  image_.trim();
}

void ImageReader::evaluation_view(io::ByteView bytes, const std::string& name, const ImageGeometry& geometry,
                                  Mirror mirror, const PlaneTarget& dst, bool sound) {
  view(
      bytes, name, geometry, mirror,
      [&](int64_t rows, int64_t columns) { return center_crop(rows, columns, geometry); }, dst, sound);
}

void ImageReader::random_view(io::ByteView bytes, const std::string& name, const ImageGeometry& geometry,
                              const CropRange& range, Mirror mirror, PhiloxStream& random, const PlaneTarget& dst,
                              bool sound) {
  view(
      bytes, name, geometry, mirror,
      [&](int64_t rows, int64_t columns) { return draw_crop(rows, columns, range, random); }, dst, sound);
}

Array evaluation_view(io::ByteView bytes, const std::string& name, const ImageGeometry& geometry) {
  Array out(DType::u8, {geometry.channels, geometry.rows, geometry.columns});
  ImageReader().evaluation_view(bytes, name, geometry, Mirror::no, out.data<uint8_t>());
  return out;
}

}  // namespace freight::data
