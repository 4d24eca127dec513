// TIFF through libtiff: strips and tiles, planes together and apart, 1 to 16 bits, palettes, CMYK, YCbCr and every
// compression that libtiff was built with. The first page is the image. Transparency is composited on white. The tag
// Orientation is orientation.h's.
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "freight/base/error.h"
#include "freight/base/library.h"
#include "freight/io/codecs_internal.h"
#include "freight/io/memory_need.h"

namespace freight::io {

namespace {

// libtiff is loaded when the first such image is read, so that programs which link Freight need not link it.
struct TiffFunctions {
  decltype(&::TIFFOpenOptionsAlloc) TIFFOpenOptionsAlloc;
  decltype(&::TIFFOpenOptionsFree) TIFFOpenOptionsFree;
  decltype(&::TIFFOpenOptionsSetErrorHandlerExtR) TIFFOpenOptionsSetErrorHandlerExtR;
  decltype(&::TIFFOpenOptionsSetWarningHandlerExtR) TIFFOpenOptionsSetWarningHandlerExtR;
  decltype(&::TIFFOpenOptionsSetMaxSingleMemAlloc) TIFFOpenOptionsSetMaxSingleMemAlloc;
  decltype(&::TIFFClientOpenExt) TIFFClientOpenExt;
  decltype(&::TIFFClose) TIFFClose;
  decltype(&::TIFFGetField) TIFFGetField;
  decltype(&::TIFFGetFieldDefaulted) TIFFGetFieldDefaulted;
  decltype(&::TIFFRGBAImageOK) TIFFRGBAImageOK;
  decltype(&::TIFFRGBAImageBegin) TIFFRGBAImageBegin;
  decltype(&::TIFFRGBAImageGet) TIFFRGBAImageGet;
  decltype(&::TIFFRGBAImageEnd) TIFFRGBAImageEnd;
};
const TiffFunctions& tiff() {
  static const auto kLoaded = [] {
    Loaded<TiffFunctions> l;
    l.library = load_library({"libtiff.so.6"}, "libtiff6", "",
                             {"TIFFOpenOptionsAlloc", "TIFFOpenOptionsFree", "TIFFOpenOptionsSetErrorHandlerExtR",
                              "TIFFOpenOptionsSetWarningHandlerExtR", "TIFFOpenOptionsSetMaxSingleMemAlloc",
                              "TIFFClientOpenExt", "TIFFClose", "TIFFGetField", "TIFFGetFieldDefaulted",
                              "TIFFRGBAImageOK", "TIFFRGBAImageBegin", "TIFFRGBAImageGet", "TIFFRGBAImageEnd"},
                             &l.functions, "another version of libtiff.so.6", LibraryKind::system);
    return l;
  }();
  if (!kLoaded.library.why.empty()) fail(ErrorKind::runtime, "TIFF images", kLoaded.library.why);
  return kLoaded.functions;
}

// What libtiff reads from, and the first fault that it tells.
struct TiffSource {
  ByteView bytes;
  uint64_t at = 0;
  char message[200] = "";
};

tmsize_t tiff_read(thandle_t handle, void* out, tmsize_t size) {
  auto* s = static_cast<TiffSource*>(handle);
  if (size < 0 || s->at > s->bytes.size()) return 0;
  const size_t n = std::min<size_t>(static_cast<size_t>(size), s->bytes.size() - s->at);
  if (n > 0) std::memcpy(out, s->bytes.data() + s->at, n);
  s->at += n;
  return static_cast<tmsize_t>(n);
}
tmsize_t tiff_write(thandle_t, void*, tmsize_t) { return 0; }
uint64_t tiff_seek(thandle_t handle, uint64_t offset, int whence) {
  auto* s = static_cast<TiffSource*>(handle);
  if (whence == SEEK_CUR) offset += s->at;
  if (whence == SEEK_END) offset += s->bytes.size();
  return s->at = offset;
}
int tiff_close(thandle_t) { return 0; }
uint64_t tiff_size(thandle_t handle) { return static_cast<TiffSource*>(handle)->bytes.size(); }

void keep_message(TiffSource* s, const char* format, va_list values) {
  if (s->message[0] == 0) std::vsnprintf(s->message, sizeof s->message, format, values);
}
int tiff_failed(TIFF*, void* source, const char*, const char* format, va_list values) {
  keep_message(static_cast<TiffSource*>(source), format, values);
  return 1;
}
// Warnings are about tags that nobody reads here, but for data that end too early, of which libtiff makes up the rest,
// and a palette that cannot be read, without which it takes the image for a gray one.
int tiff_warned(TIFF*, void* source, const char*, const char* format, va_list values) {
  char text[200];
  std::vsnprintf(text, sizeof text, format, values);
  const std::string_view said = text;
  auto* s = static_cast<TiffSource*>(source);
  const auto says = [&](const char* words) { return said.find(words) != said.npos; };
  if (!says("remature end") && !says("remature EOF") && !says("ColorMap")) return 1;
  if (s->message[0] == 0) std::snprintf(s->message, sizeof s->message, "%s", text);
  return 1;
}

// Gray of 8 or 16 bits. libtiff cuts 16 bits off where it rounds those of colors, and forgets gray's transparency or
// does not multiply by it.
template <class T>
void put_gray(TIFFRGBAImage* image, uint32_t* to, uint32_t, uint32_t, uint32_t columns, uint32_t rows,
              int32_t from_skip, int32_t to_skip, unsigned char* from) {
  constexpr uint32_t kMost = static_cast<T>(~T{0});
  const auto of_byte = [](T v) { return (static_cast<uint32_t>(v) * 255 + kMost / 2) / kMost; };
  const int stride = image->samplesperpixel;
  const bool transparent = image->alpha != 0 && stride > 1;
  const auto* src = reinterpret_cast<const T*>(from);
  for (uint32_t y = 0; y < rows; ++y) {
    for (uint32_t x = 0; x < columns; ++x, src += stride) {
      uint32_t v = of_byte(src[0]);
      if (image->photometric == PHOTOMETRIC_MINISWHITE) v = 255 - v;
      const uint32_t alpha = transparent ? of_byte(src[1]) : 255;
      if (image->alpha == EXTRASAMPLE_UNASSALPHA) v = (v * alpha + 127) / 255;
      *to++ = alpha << 24 | v << 16 | v << 8 | v;
    }
    src += static_cast<ptrdiff_t>(from_skip) * stride;
    to += to_skip;
  }
}

class TiffFile {
 public:
  TiffFile(ByteView bytes, const std::string& name) : name_(name), source_{bytes} {
    options_ = tiff().TIFFOpenOptionsAlloc();
    if (!options_) no_memory_for(name);
    tiff().TIFFOpenOptionsSetErrorHandlerExtR(options_, tiff_failed, &source_);
    tiff().TIFFOpenOptionsSetWarningHandlerExtR(options_, tiff_warned, &source_);
    // A strip of all rows in 16 bits and four colors, and what compression keeps beside it.
    tiff().TIFFOpenOptionsSetMaxSingleMemAlloc(options_, kMaxPixels * 8 + (tmsize_t{64} << 20));
    // m: nothing is mapped.
    tiff_ = tiff().TIFFClientOpenExt(name.c_str(), "rm", &source_, tiff_read, tiff_write, tiff_seek, tiff_close,
                                     tiff_size, nullptr, nullptr, options_);
    if (tiff_ && source_.message[0] == 0) return;
    close();
    bad();
  }
  ~TiffFile() { close(); }
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  void close() {
    if (begun_) tiff().TIFFRGBAImageEnd(&image_);
    if (tiff_) tiff().TIFFClose(tiff_);
    tiff().TIFFOpenOptionsFree(options_);
  }

  // Reads the head of the first page.
  void begin() {
    uint32_t rows = 0, columns = 0;
    tiff().TIFFGetField(tiff_, TIFFTAG_IMAGELENGTH, &rows);
    tiff().TIFFGetField(tiff_, TIFFTAG_IMAGEWIDTH, &columns);
    check_image_size("TIFF", name_, rows, columns, source_.bytes.size());
    uint16_t format = SAMPLEFORMAT_UINT;
    tiff().TIFFGetFieldDefaulted(tiff_, TIFFTAG_SAMPLEFORMAT, &format);
    char why[1024] = "";
    if (format == SAMPLEFORMAT_INT) std::snprintf(why, sizeof why, "its samples are signed integers");
    if (why[0] != 0 || !tiff().TIFFRGBAImageOK(tiff_, why) || !tiff().TIFFRGBAImageBegin(&image_, tiff_, 1, why)) {
      bad(cat("this kind of TIFF is not supported (", why, "); save it with 8 or 16 bits per color, or as PNG"));
    }
    begun_ = true;
    // Rows and columns are wanted as they lie.
    image_.orientation = image_.req_orientation = ORIENTATION_TOPLEFT;
    if (!gray() || !image_.isContig) return;
    if (image_.bitspersample == 8) image_.put.contig = put_gray<uint8_t>;
    if (image_.bitspersample == 16) image_.put.contig = put_gray<uint16_t>;
  }
  int64_t rows() const { return image_.height; }
  int64_t columns() const { return image_.width; }
  bool gray() const {
    return image_.photometric == PHOTOMETRIC_MINISBLACK || image_.photometric == PHOTOMETRIC_MINISWHITE;
  }
  // out: (rows, columns) of A, B, G, R from the highest byte on, colors times alpha.
  void read(uint32_t* out) {
    source_.message[0] = 0;
    const bool read = tiff().TIFFRGBAImageGet(&image_, out, image_.width, image_.height) != 0;
    if (!read || source_.message[0] != 0) bad();
  }

 private:
  [[noreturn]] void bad(const std::string& why = {}) const {
    fail(ErrorKind::data, name_, "bad TIFF image: ",
         !why.empty()              ? why
         : source_.message[0] != 0 ? std::string(source_.message)
                                   : std::string("it is damaged or truncated"));
  }
  const std::string& name_;
  TiffSource source_;
  TIFFOpenOptions* options_ = nullptr;
  TIFF* tiff_ = nullptr;
  TIFFRGBAImage image_{};
  bool begun_ = false;
};

}  // namespace

// Classic TIFF and BigTIFF, of either order of bytes.
bool is_tiff(ByteView bytes) {
  if (bytes.size() < 8) return false;
  const bool little = bytes[0] == 'I' && bytes[1] == 'I', big = bytes[0] == 'M' && bytes[1] == 'M';
  const int version = little ? bytes[2] | bytes[3] << 8 : bytes[2] << 8 | bytes[3];
  return (little || big) && (version == 42 || version == 43);
}

Array decode_tiff(ByteView bytes, const std::string& name, ImageRoom& room) {
  TiffFile file(bytes, name);
  file.begin();
  const int64_t pixels = file.rows() * file.columns();
  room.take(pixels);
  Bytes raster(static_cast<size_t>(pixels) * sizeof(uint32_t));
  std::memset(raster.data(), 0, raster.size());
  auto* const packed = reinterpret_cast<uint32_t*>(raster.data());
  file.read(packed);
  const int channels = file.gray() ? 1 : 3;
  Array out(DType::u8, {file.rows(), file.columns(), channels});
  auto* dst = out.data<uint8_t>();
  for (int64_t i = 0; i < pixels; ++i) {
    const uint32_t v = packed[i], white = 255 - TIFFGetA(v);
    const uint32_t colors[] = {TIFFGetR(v), TIFFGetG(v), TIFFGetB(v)};
    for (int c = 0; c < channels; ++c) *dst++ = static_cast<uint8_t>(std::min<uint32_t>(255, colors[c] + white));
  }
  return out;
}

}  // namespace freight::io
