// GIF through giflib: the first frame of what may be an animation, on the canvas that the file says. What is
// transparent or not covered by the frame is white.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/library.h"
#include "freight/io/codecs_internal.h"

namespace freight::io {

namespace {

// libgif is loaded when the first such image is read, so that programs which link Freight need not link it.
struct GifFunctions {
  decltype(&::DGifOpen) DGifOpen;
  decltype(&::DGifCloseFile) DGifCloseFile;
  decltype(&::DGifGetRecordType) DGifGetRecordType;
  decltype(&::DGifGetImageDesc) DGifGetImageDesc;
  decltype(&::DGifGetLine) DGifGetLine;
  decltype(&::DGifGetExtension) DGifGetExtension;
  decltype(&::DGifGetExtensionNext) DGifGetExtensionNext;
  decltype(&::DGifExtensionToGCB) DGifExtensionToGCB;
  decltype(&::GifErrorString) GifErrorString;
};
const GifFunctions& gif() {
  static const auto kLoaded = [] {
    Loaded<GifFunctions> l;
    l.library = load_library({"libgif.so.7"}, "libgif7", "",
                             {"DGifOpen", "DGifCloseFile", "DGifGetRecordType", "DGifGetImageDesc", "DGifGetLine",
                              "DGifGetExtension", "DGifGetExtensionNext", "DGifExtensionToGCB", "GifErrorString"},
                             &l.functions, "another version of libgif.so.7", LibraryKind::system);
    return l;
  }();
  if (!kLoaded.library.why.empty()) fail(ErrorKind::runtime, "GIF images", kLoaded.library.why);
  return kLoaded.functions;
}

struct GifSource {
  ByteView bytes;
  size_t at = 0;
};
int gif_read(GifFileType* file, GifByteType* out, int size) {
  auto* s = static_cast<GifSource*>(file->UserData);
  const size_t n = std::min<size_t>(static_cast<size_t>(std::max(size, 0)), s->bytes.size() - s->at);
  if (n > 0) std::memcpy(out, s->bytes.data() + s->at, n);
  s->at += n;
  return static_cast<int>(n);
}

class GifFile {
 public:
  GifFile(ByteView bytes, const std::string& name) : name_(name), source_{bytes} {
    int error = 0;
    file_ = gif().DGifOpen(&source_, gif_read, &error);
    if (!file_) bad(error);
  }
  ~GifFile() {
    if (file_) gif().DGifCloseFile(file_, nullptr);
  }
  GifFile(const GifFile&) = delete;
  GifFile& operator=(const GifFile&) = delete;

  // Reads up to the pixels of the first frame.
  void begin() {
    for (;;) {
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      if (gif().DGifGetRecordType(file_, &type) == GIF_ERROR) bad(file_->Error);
      if (type == TERMINATE_RECORD_TYPE) fail(ErrorKind::data, name_, "bad GIF image: it has no frame");
      if (type == EXTENSION_RECORD_TYPE) extension();
      if (type != IMAGE_DESC_RECORD_TYPE) continue;
      if (gif().DGifGetImageDesc(file_) == GIF_ERROR) bad(file_->Error);
      const GifImageDesc& d = file_->Image;
      // Files are about whose frame is larger than the canvas.
      rows = std::max<int64_t>(file_->SHeight, int64_t{d.Top} + d.Height);
      columns = std::max<int64_t>(file_->SWidth, int64_t{d.Left} + d.Width);
      check_image_size("GIF", name_, rows, columns, source_.bytes.size());
      check_image_size("GIF", name_, d.Height, d.Width, source_.bytes.size());
      return;
    }
  }
  // out: (rows, columns, 3), white where the frame is not.
  void read(uint8_t* out) {
    const GifImageDesc& d = file_->Image;
    const ColorMapObject* const map = d.ColorMap ? d.ColorMap : file_->SColorMap;
    if (!map) fail(ErrorKind::data, name_, "bad GIF image: it has no palette");
    std::vector<GifPixelType> line(static_cast<size_t>(d.Width));
    constexpr struct { int first, every; } kPasses[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, kInOrder{0, 1};
    for (int pass = 0; pass < (d.Interlace ? 4 : 1); ++pass) {
      const auto [first, every] = d.Interlace ? kPasses[pass] : kInOrder;
      for (int y = first; y < d.Height; y += every) {
        if (gif().DGifGetLine(file_, line.data(), d.Width) == GIF_ERROR) bad(file_->Error);
        uint8_t* dst = out + 3 * ((d.Top + y) * columns + d.Left);
        for (const GifPixelType pixel : line) {
          put(*map, pixel, dst);
          dst += 3;
        }
      }
    }
  }
  int64_t rows = 0, columns = 0;  // of the canvas

 private:
  // Which color is transparent stands in an extension before the frame.
  void extension() {
    int code = 0;
    GifByteType* block = nullptr;
    if (gif().DGifGetExtension(file_, &code, &block) == GIF_ERROR) bad(file_->Error);
    GraphicsControlBlock control;
    if (block && code == GRAPHICS_EXT_FUNC_CODE && gif().DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
      transparent_ = control.TransparentColor;
    }
    while (block) {
      if (gif().DGifGetExtensionNext(file_, &block) == GIF_ERROR) bad(file_->Error);
    }
  }
  void put(const ColorMapObject& map, int pixel, uint8_t* dst) const {
    if (pixel == transparent_) return;
    if (pixel >= map.ColorCount) {
      fail(ErrorKind::data, name_, "bad GIF image: color ", pixel, " of a palette of ", map.ColorCount);
    }
    const GifColorType& c = map.Colors[pixel];
    dst[0] = c.Red;
    dst[1] = c.Green;
    dst[2] = c.Blue;
  }
  [[noreturn]] void bad(int error) const {
    const char* const why = gif().GifErrorString(error);
    fail(ErrorKind::data, name_, "bad GIF image: ", why ? why : "it is damaged or truncated");
  }
  const std::string& name_;
  GifSource source_;
  GifFileType* file_ = nullptr;
  int transparent_ = NO_TRANSPARENT_COLOR;
};

}  // namespace

bool is_gif(ByteView bytes) {
  return bytes.size() >= 6 && (std::equal(bytes.begin(), bytes.begin() + 6, "GIF87a") ||
                               std::equal(bytes.begin(), bytes.begin() + 6, "GIF89a"));
}

Array decode_gif(ByteView bytes, const std::string& name, ImageRoom& room) {
  GifFile file(bytes, name);
  file.begin();
  room.take(file.rows * file.columns);
  Array out(DType::u8, {file.rows, file.columns, 3});
  std::memset(out.data<uint8_t>(), 255, out.bytes());
  file.read(out.data<uint8_t>());
  return out;
}

}  // namespace freight::io
