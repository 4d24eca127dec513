// Images: PNG, JPEG, WebP, GIF (the first frame), TIFF (the first page), BMP, PPM and npy in, PNG out. An image is a u8
// array (H, W, C) with C 1 (gray) or 3 (RGB). Gray stays gray; palettes expand; 16 bits become 8; transparency is
// composited on white; CMYK becomes RGB. Images are turned as their EXIF data say, unless that is to be ignored. Faults
// are Error(data) that names the file.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/file.h"
#include "freight/io/orientation.h"

namespace freight::io {

// An image file as u8 (H, W, C). Throws Error(data) that names the path.
Array load_image(const std::string& path, Orientation orientation = Orientation::exif);
// Recognizes the format by content. Npy images are (H, W), (H, W, C) or (C, H, W): integers 0..255 or floats 0..1.
Array decode_image(ByteView bytes, const std::string& name, Orientation orientation = Orientation::exif);

// The part of an image that will be resampled: the pixels [y, y + rows) x [x, x + columns), and how many of them
// become one in the end (less than 1 where it grows). A decoder may decode more, and coarser down to `shrink`. Unless
// the file is `sound`, known to be without a fault, it is read to its end, whatever the part.
struct ImageRegion {
  int64_t y = 0, x = 0, rows = 0, columns = 0;  // of the part, in pixels of the whole image
  double shrink = 1;                            // pixels that become one along each axis
  bool sound = false;                           // known to be without a fault
};
// Chooses the part when the size of the whole image is known.
using ChooseRegion = std::function<ImageRegion(int64_t rows, int64_t columns)>;

// A decoded part. Pixel (i, j) of it covers the square of side 1 / scale of the whole image whose upper left corner
// is
// ((y + i) / scale, (x + j) / scale). Its memory is kept for the next image.
struct Image {
  int64_t rows = 0, columns = 0, channels = 0;  // of `pixels()`
  double scale = 1;                             // decoded pixels per pixel of the whole image
  double y = 0, x = 0;                          // whole numbers, but for a coarser image that was turned
  // (H, W, C)
  const uint8_t* pixels() const { return whole.defined() ? whole.data<uint8_t>() : buffer.data() + kOffset; }

  // libjpeg-turbo writes rows at aligned addresses past the caches, and who reads them next waits for the memory: an
  // odd start keeps them in.
  static constexpr size_t kOffset = 1;
  Bytes buffer;  // (H, W, C) from kOffset on
  Bytes padded;  // of a decoder: the file in one piece, or with what must follow it
  Bytes spare;   // of a decoder: what it makes before pixels
  Array whole;   // of formats that are always decoded whole, and of what was turned

  // Gives back what only a large image needs.
  void trim();
};

// The share of an image in what all threads decode at once, which is limited: a large image of few bytes takes a
// gigabyte, and a server gets many. Decoders take it when they know the size, and wait for it; whoever asked for the
// image lets it go together with the pixels. A thread that holds one decodes nothing else.
class ImageRoom {
 public:
  ImageRoom() = default;
  // Gives the share back.
  ~ImageRoom();
  ImageRoom(const ImageRoom&) = delete;
  ImageRoom& operator=(const ImageRoom&) = delete;
  // Waits until the pixels of all images that are being decoded, with these, are at most `most`. Once.
  void take(int64_t pixels);
  // By the machine's memory; more than the largest image has.
  static int64_t most();

 private:
  int64_t pixels_ = 0;
};

// Decodes at least the chosen part; all sizes and places are those of the upright image. JPEG is decoded at the
// smallest of 1/8, 1/4, 1/2, 1/1 that is not coarser than part.shrink, and only where the part is; PNG and WebP without
// some of what the part does not need; other formats whole.
void decode_part(ByteView bytes, const std::string& name, const ChooseRegion& choose, Image& out, ImageRoom& room,
                 Orientation orientation = Orientation::exif);

// image: u8 (H, W), (H, W, 1) or (H, W, 3).
Bytes encode_png(const Array& image);
void save_png(const std::string& path, const Array& image);  // encode_png into a file, atomically

// True for names that end as images that are read, in any case: image_endings().
bool is_image_name(const std::string& path);
// "jpg, jpeg, png, ...", for messages.
std::string image_endings();
// True for names that end as those of images which are not read: .heic .avif .svg and the like.
bool is_foreign_image_name(const std::string& path);
// Counts files that were not read by their endings, the most frequent first: "40 .heic and 2 .svg (formats of images
// that are not read: convert them to PNG or JPEG), 3 .txt, 1 without an ending".
std::string count_by_ending(const std::vector<std::string>& names);

}  // namespace freight::io
