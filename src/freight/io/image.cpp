// The choice of decoder by content, npy images, and files. See image.h.
#include "freight/io/image.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/io/codecs_internal.h"
#include "freight/io/memory_need.h"
#include "freight/io/npy.h"

namespace freight::io {

namespace {
// (H, W), (H, W, C) or (C, H, W) to (H, W, C), and any number type to u8.
Array image_of_array(const Array& a, const std::string& name) {
  const Shape& s = a.shape();
  const auto colour = [](int64_t c) { return c == 1 || c == 3; };
  Shape shape;
  bool planes_first = false;
  if (s.rank() == 2) {
    shape = {s[0], s[1], 1};
  } else if (s.rank() == 3 && colour(s[2])) {
    shape = s;
  } else if (s.rank() == 3 && colour(s[0])) {
    shape = {s[1], s[2], s[0]};
    planes_first = true;
  } else {
    fail(ErrorKind::data, name, "not an image: shape ", s, ", need (H, W), (H, W, 1 or 3) or (1 or 3, H, W)");
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
      fail(ErrorKind::data, name, "not an image: element ", i, " is ", v[static_cast<size_t>(i)], ", need 0 to ",
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

// Formats that are always decoded whole.
Array decode_whole(ByteView bytes, const std::string& name, ImageRoom& room) {
  if (is_png(bytes)) return decode_png(bytes, name, room);
  if (is_webp(bytes)) return decode_webp(bytes, name, room);
  if (is_bmp(bytes)) return decode_bmp(bytes, name, room);
  if (is_netpbm(bytes)) return decode_netpbm(bytes, name, room);
  if (is_npy(bytes)) return decode_npy(bytes, name, room);
  if (bytes.empty()) fail(ErrorKind::data, name, "not an image: the file is empty");
  fail(ErrorKind::data, name, "not an image that can be read: need PNG, JPEG, WebP, BMP, PPM or npy");
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
  FREIGHT_CHECK(pixels_ == 0 && pixels <= kMaxPixels, "room is taken once, for a picture that fits");
  Decoding& all = decoding();
  std::unique_lock lock(all.mutex);
  all.fewer.wait(lock, [&] { return all.pixels + pixels <= all.most; });
  all.pixels += pixels;
  pixels_ = pixels;
}

void Image::trim() {
  constexpr size_t kKept = size_t{32} << 20;
  whole = Array();
  if (buffer.size() > kKept) buffer = Bytes();
}

void check_image_size(const char* format, const std::string& name, int64_t rows, int64_t columns, size_t bytes) {
  if (rows < 1 || columns < 1 || rows > kMaxPixels || columns > kMaxPixels || rows * columns > kMaxPixels) {
    fail(ErrorKind::data, name, "bad ", format, " image: ", columns, " x ", rows, " pixels in ", bytes,
         " bytes, need 1 to ", kMaxPixels, " pixels");
  }
}

namespace {
// The part as its pixels lie in the file, whose size is rows x columns.
Part stored_part(const Part& p, const Turn& turn, int64_t rows, int64_t columns) {
  Part out = p;
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

void decode_part(ByteView bytes, const std::string& name, const ChoosePart& choose, Image& out, ImageRoom& room,
                 Orientation orientation) {
  const Turn turn = orientation == Orientation::exif ? exif_turn(bytes) : Turn{};
  int64_t rows = 0, columns = 0;  // as stored
  const ChoosePart choose_stored = [&](int64_t h, int64_t w) {
    rows = h;
    columns = w;
    return stored_part(turn.transposed ? choose(w, h) : choose(h, w), turn, h, w);
  };
  reading(name, [&] {
    out.whole = Array();
    if (is_jpeg(bytes)) {
      decode_jpeg(bytes, name, choose_stored, out, room);
    } else {
      out.whole = decode_whole(bytes, name, room);
      const Shape& s = out.whole.shape();
      out.rows = s[0];
      out.columns = s[1];
      out.channels = s[2];
      out.scale = 1;
      out.y = out.x = 0;
      choose_stored(s[0], s[1]);
    }
    if (turn.any()) make_upright(out, turn, rows, columns);
  });
}

Array decode_image(ByteView bytes, const std::string& name, Orientation orientation) {
  ImageRoom room;
  Image image;
  decode_part(
      bytes, name, [](int64_t rows, int64_t columns) { return Part{.rows = rows, .columns = columns}; }, image, room,
      orientation);
  if (image.whole.defined()) return image.whole;
  Array out(DType::u8, {image.rows, image.columns, image.channels});
  std::copy_n(image.pixels(), out.bytes(), out.data<uint8_t>());
  return out;
}

Array load_image(const std::string& path, Orientation orientation) {
  return decode_image(read_file(path), path, orientation);
}

void save_png(const std::string& path, const Array& image) { write_file_atomic(path, encode_png(image).view()); }

bool is_image_name(const std::string& path) {
  const std::string name = lower(path);
  for (const char* ending : {".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp"}) {
    if (ends_with(name, ending)) return true;
  }
  return false;
}

const char* image_endings() { return "jpg, jpeg, png, bmp, ppm, webp"; }

}  // namespace freight::io
