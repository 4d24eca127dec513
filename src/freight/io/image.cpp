// The choice of decoder by content, npy images, and files. See image.h.
#include "freight/io/image.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/io/codecs_internal.h"
#include "freight/io/memory_need.h"
#include "freight/io/npy.h"

namespace freight::io {

namespace {
// (H, W), (H, W, C) or (C, H, W) to (H, W, C), and any number type to u8.
Array image_of_array(const Array& a, const std::string& name) {
  const Shape& s = a.shape();
  const auto color = [](int64_t c) { return c == 1 || c == 3; };
  Shape shape;
  bool planes_first = false;
  if (s.rank() == 2) {
    shape = {s[0], s[1], 1};
  } else if (s.rank() == 3 && color(s[2])) {
    shape = s;
  } else if (s.rank() == 3 && color(s[0])) {
    shape = {s[1], s[2], s[0]};
    planes_first = true;
  } else {
    fail(ErrorKind::data, name, "not an image: shape ", s, ", expected (H, W), (H, W, 1 or 3) or (1 or 3, H, W)");
  }
  if (a.numel() == 0) fail(ErrorKind::data, name, "not an image: shape ", s, " has no pixels");
  check_image_size("npy", name, shape[0], shape[1], a.bytes());
  const std::vector<double> v = a.to_vector<double>();
  const double scale = is_floating(a.dtype()) || a.dtype() == DType::boolean ? 255.0 : 1.0;
  Array out(DType::u8, shape);
  auto* dst = out.data<uint8_t>();
  const int64_t plane = shape[0] * shape[1], channels = shape[2];
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = v[static_cast<size_t>(i)] * scale;
    if (!(x >= 0.0 && x <= 255.0)) {
      fail(ErrorKind::data, name, "not an image: element ", i, " is ", v[static_cast<size_t>(i)], ", expected 0 to ",
           scale == 1.0 ? "255" : "1 for floats");
    }
    const int64_t at = planes_first ? i % plane * channels + i / plane : i;
    dst[at] = static_cast<uint8_t>(std::lround(x));
  }
  return out;
}

// An array is widened to eight bytes per number on its way.
Array decode_npy(ByteView bytes, const std::string& name, ImageRoom& room) {
  room.take(std::min(static_cast<int64_t>(bytes.size()), kMaxPixels));
  return image_of_array(computable(parse_npy(bytes, name), name), name);
}

// The name of an image format by its first bytes, of those that are not read; "" for what is none of them.
std::string foreign_format(ByteView bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 1024));
  const auto at = [&](size_t from, std::string_view text) {
    return head.substr(std::min(from, head.size())).starts_with(text);
  };
  if (at(4, "ftyp")) {  // ISO media: the brand says what it is
    for (const char* brand : {"avif", "avis"}) {
      if (at(8, brand)) return "AVIF";
    }
    for (const char* brand : {"heic", "heix", "hevc", "heim", "heis", "mif1", "msf1"}) {
      if (at(8, brand)) return "HEIC";
    }
    return "a video";
  }
  struct Row {
    std::string_view start;
    const char* name;
  };
  constexpr Row kRows[] = {{std::string_view("\0\0\0\x0cjP", 6), "JPEG 2000"},
                           {std::string_view("\0\0\0\x0cJXL", 7), "JPEG XL"},
                           {"\xff\x0a", "JPEG XL"},
                           {"\xff\x4f\xff\x51", "JPEG 2000"},
                           {"8BPS", "PSD"},
                           {std::string_view("\0\0\1\0", 4), "ICO"},
                           {"v/1\x01", "OpenEXR"},
                           {"#?RADIANCE", "Radiance HDR"},
                           {"P4", "PBM"},
                           {"P1", "PBM"},
                           {"P7", "PAM"},
                           {"%PDF", "PDF"},
                           {"<svg", "SVG"},
                           {"<!DOCTYPE html", "an HTML page"},
                           {"<!doctype html", "an HTML page"},
                           {"<html", "an HTML page"}};
  for (const Row& row : kRows) {
    if (at(0, row.start)) return row.name;
  }
  if (at(128, "DICM")) return "DICOM";
  return head.find("<svg") != head.npos ? "SVG" : "";
}

// Formats that are always decoded whole.
Array decode_whole(ByteView bytes, const std::string& name, ImageRoom& room) {
  if (is_gif(bytes)) return decode_gif(bytes, name, room);
  if (is_tiff(bytes)) return decode_tiff(bytes, name, room);
  if (is_bmp(bytes)) return decode_bmp(bytes, name, room);
  if (is_netpbm(bytes)) return decode_netpbm(bytes, name, room);
  if (is_npy(bytes)) return decode_npy(bytes, name, room);
  if (bytes.empty()) fail(ErrorKind::data, name, "not an image: the file is empty");
  const std::string format = foreign_format(bytes);
  fail(ErrorKind::data, name,
       "not an image that can be read: expected PNG, JPEG, WebP, GIF, TIFF, BMP, PPM or npy, got ",
       format.empty() ? "none of the formats" : format);
}

// The images that all threads decode at once.
struct Decoding {
  static constexpr int64_t kBytesPerPixel = 8;  // RGBA, and RGB made of it, or the coefficients of a progressive JPEG
  std::mutex mutex;
  std::condition_variable fewer;
  int64_t pixels = 0;
  // An eighth of the machine's memory; at least the largest image and many of usual size beside it.
  const int64_t most = std::max(kMaxPixels + kMaxPixels / 4, cpu_info().memory_bytes / 8 / kBytesPerPixel);
};
Decoding& decoding() {
  static Decoding all;
  return all;
}
}  // namespace

ImageRoom::~ImageRoom() {
  if (pixels_ == 0) return;
  Decoding& all = decoding();
  {
    const std::lock_guard lock(all.mutex);
    all.pixels -= pixels_;
  }
  all.fewer.notify_all();
}

int64_t ImageRoom::most() { return decoding().most; }

void ImageRoom::take(int64_t pixels) {
  FREIGHT_CHECK(pixels_ == 0 && pixels <= kMaxPixels, "room is taken once, for an image that fits");
  Decoding& all = decoding();
  std::unique_lock lock(all.mutex);
  all.fewer.wait(lock, [&] { return all.pixels + pixels <= all.most; });
  all.pixels += pixels;
  pixels_ = pixels;
}

void Image::trim() {
  constexpr size_t kKept = size_t{32} << 20;
  whole = Array();
  for (Bytes* b : {&buffer, &padded, &spare}) {
    if (b->size() > kKept) *b = Bytes();
  }
}

void set_whole(Image& out, Array pixels) {
  const Shape& s = pixels.shape();
  out.rows = s[0];
  out.columns = s[1];
  out.channels = s[2];
  out.scale = 1;
  out.y = out.x = 0;
  out.whole = std::move(pixels);
}

void lay_on_white(const uint8_t* src, int64_t pixels, int64_t channels, uint8_t* dst) {
  for (int64_t i = 0; i < pixels; ++i, src += channels + 1) {
    const unsigned alpha = src[channels];
    for (int64_t c = 0; c < channels; ++c) {
      *dst++ = static_cast<uint8_t>((src[c] * alpha + 255 * (255 - alpha) + 127) / 255);
    }
  }
}

void check_image_size(const char* format, const std::string& name, int64_t rows, int64_t columns, size_t bytes) {
  if (rows < 1 || columns < 1 || rows > kMaxPixels || columns > kMaxPixels || rows * columns > kMaxPixels) {
    fail(ErrorKind::data, name, "bad ", format, " image: ", columns, " x ", rows, " pixels in ", bytes,
         " bytes, expected 1 to ", kMaxPixels, " pixels");
  }
}

namespace {
// The part as its pixels lie in the file, whose size is rows x columns.
ImageRegion stored_part(const ImageRegion& p, const Turn& turn, int64_t rows, int64_t columns) {
  ImageRegion out = p;
  if (turn.transposed) {
    std::swap(out.y, out.x);
    std::swap(out.rows, out.columns);
  }
  if (turn.flip_rows) out.y = rows - out.y - out.rows;
  if (turn.flip_columns) out.x = columns - out.x - out.columns;
  return out;
}

// Turns a decoded part of a file whose size is rows x columns.
void make_upright(Image& image, const Turn& turn, int64_t rows, int64_t columns) {
  Array turned(DType::u8, turn.transposed ? Shape{image.columns, image.rows, image.channels}
                                          : Shape{image.rows, image.columns, image.channels});
  turn_pixels(image.pixels(), image.rows, image.columns, image.channels, turn, turned.data<uint8_t>());
  const auto far = [&](int64_t side, double from, int64_t extent) {
    return static_cast<double>(side) * image.scale - from - static_cast<double>(extent);
  };
  if (turn.flip_rows) image.y = far(rows, image.y, image.rows);
  if (turn.flip_columns) image.x = far(columns, image.x, image.columns);
  if (turn.transposed) {
    std::swap(image.y, image.x);
    std::swap(image.rows, image.columns);
  }
  image.whole = std::move(turned);
}
}  // namespace

void decode_part(ByteView bytes, const std::string& name, const ChooseRegion& choose, Image& out, ImageRoom& room,
                 Orientation orientation) {
  const Turn turn = orientation == Orientation::exif ? exif_turn(bytes) : Turn{};
  int64_t rows = 0, columns = 0;  // as stored
  const ChooseRegion choose_stored = [&](int64_t h, int64_t w) {
    rows = h;
    columns = w;
    return stored_part(turn.transposed ? choose(w, h) : choose(h, w), turn, h, w);
  };
  reading(name, [&] {
    out.whole = Array();
    if (is_jpeg(bytes)) {
      decode_jpeg(bytes, name, choose_stored, out, room);
    } else if (is_png(bytes)) {
      decode_png(bytes, name, choose_stored, out, room);
    } else if (is_webp(bytes)) {
      decode_webp(bytes, name, choose_stored, out, room);
    } else {
      set_whole(out, decode_whole(bytes, name, room));
      choose_stored(out.rows, out.columns);
    }
    if (turn.any()) make_upright(out, turn, rows, columns);
  });
}

Array decode_image(ByteView bytes, const std::string& name, Orientation orientation) {
  ImageRoom room;
  Image image;
  decode_part(
      bytes, name, [](int64_t rows, int64_t columns) { return ImageRegion{.rows = rows, .columns = columns}; }, image,
      room, orientation);
  if (image.whole.defined()) return image.whole;
  Array out(DType::u8, {image.rows, image.columns, image.channels});
  std::copy_n(image.pixels(), out.bytes(), out.data<uint8_t>());
  return out;
}

Array load_image(const std::string& path, Orientation orientation) {
  return decode_image(read_file(path), path, orientation);
}

void save_png(const std::string& path, const Array& image) { write_file_atomic(path, encode_png(image).view()); }

namespace {
constexpr const char* kEndings[] = {"jpg", "jpeg", "jpe", "jfif", "png", "webp", "gif",
                                    "tif", "tiff", "bmp", "dib",  "ppm", "pgm",  "pnm"};
constexpr const char* kForeignEndings[] = {"heic", "heif", "hif", "avif", "svg", "svgz", "jp2", "j2k", "jpx", "jxl",
                                           "psd",  "ico",  "tga", "exr",  "hdr", "dcm",  "raw", "cr2", "cr3", "nef",
                                           "arw",  "dng",  "orf", "rw2",  "pbm", "pam",  "pcx", "xcf", "eps", "pdf"};

// The ending in small letters, without its dot; "" where there is none.
std::string ending_of(const std::string& path) {
  const size_t slash = path.rfind('/'), dot = path.rfind('.');
  const size_t first = slash == path.npos ? 0 : slash + 1;
  return dot == path.npos || dot <= first ? "" : lower(path.substr(dot + 1));
}
template <size_t N>
bool is_among(const char* const (&endings)[N], const std::string& ending) {
  return std::find(std::begin(endings), std::end(endings), ending) != std::end(endings);
}
}  // namespace

bool is_image_name(const std::string& path) { return is_among(kEndings, ending_of(path)); }
bool is_foreign_image_name(const std::string& path) { return is_among(kForeignEndings, ending_of(path)); }

std::string image_endings() { return join({std::begin(kEndings), std::end(kEndings)}, ", "); }

std::string count_by_ending(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> counts;
  for (const std::string& name : names) ++counts[ending_of(name)];
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> images, others;
  for (const auto& [ending, count] : sorted) {
    const std::string text = cat(with_commas(count), ending.empty() ? " without an ending" : " .", ending);
    (is_among(kForeignEndings, ending) ? images : others).push_back(text);
  }
  std::string all;
  if (!images.empty()) {
    all =
        cat(join(images, ", "), " (", images.size() == 1 ? "a format of images that is" : "formats of images that are",
            " not read: convert them to PNG or JPEG)");
  }
  if (!others.empty()) all += cat(all.empty() ? "" : ", ", join(others, ", "));
  return all;
}

}  // namespace freight::io
