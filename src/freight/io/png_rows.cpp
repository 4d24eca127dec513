// PNG images of the usual kind (8 bits, not interlaced, no palette): libdeflate unpacks them in one call, and the
// filters of the rows and columns that are not needed are left out. Debian's libpng needs 4 times as long: it has zlib,
// and no SIMD code. What is unusual or damaged is left to libpng (png.cpp), which finds the error. Format: ISO/IEC
// 15948.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "freight/io/codecs_internal.h"

namespace freight::io {

namespace {
enum Filter : uint8_t { kNone, kSub, kUp, kAverage, kPaeth };

// Bytes that a filter may touch behind a row.
constexpr size_t kSlack = 16;

uint32_t be32(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 | static_cast<uint32_t>(p[2]) << 8 |
         p[3];
}

// The filters, for pixels of kBytes bytes, of n bytes. `up` is the row above; dst may not be src. a is the pixel to the
// left, b the one above, c the one above the left.
template <int kBytes>
void add_average(const uint8_t* src, const uint8_t* up, uint8_t* dst, size_t n) {
  unsigned a[kBytes] = {};
  for (size_t i = 0; i < n; i += kBytes) {
    for (size_t k = 0; k < kBytes; ++k) {
      a[k] = (src[i + k] + ((a[k] + up[i + k]) >> 1)) & 0xff;
      dst[i + k] = static_cast<uint8_t>(a[k]);
    }
  }
}

template <int kBytes>
void add_left(const uint8_t* src, uint8_t* dst, size_t n) {
  unsigned a[kBytes] = {};
  for (size_t i = 0; i < n; i += kBytes) {
    for (size_t k = 0; k < kBytes; ++k) {
      a[k] = (a[k] + src[i + k]) & 0xff;
      dst[i + k] = static_cast<uint8_t>(a[k]);
    }
  }
}

#if defined(__x86_64__)
// The channels of a pixel as 16 bits. Reads and writes four bytes.
__m128i load_pixel(const uint8_t* p) {
  int bytes = 0;
  std::memcpy(&bytes, p, sizeof bytes);
  return _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), _mm_setzero_si128());
}
void store_pixel(uint8_t* p, __m128i v) {
  const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(v, v));
  std::memcpy(p, &bytes, sizeof bytes);
}
// yes where the mask is set, no elsewhere.
__m128i blend(__m128i mask, __m128i yes, __m128i no) {
  return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

// The predictor without absolute values: of the smaller and the larger of a and b, the one further from c if c is not
// well between them. Each pixel waits for its left neighbor, so what counts is the length of the chain from a to a.
template <int kBytes>
void add_paeth(const uint8_t* src, const uint8_t* up, uint8_t* dst, size_t n) {
  const __m128i byte = _mm_set1_epi16(0xff);
  __m128i a = _mm_setzero_si128(), c = a;
  for (size_t i = 0; i < n; i += kBytes) {
    const __m128i b = load_pixel(up + i), x = load_pixel(src + i);
    const __m128i without_a = _mm_sub_epi16(_mm_add_epi16(c, _mm_add_epi16(c, c)), b);
    const __m128i bound = _mm_sub_epi16(without_a, a), low = _mm_min_epi16(a, b), high = _mm_max_epi16(a, b);
    const __m128i not_low = blend(_mm_cmpgt_epi16(high, bound), c, low);
    const __m128i best = blend(_mm_cmpgt_epi16(bound, low), not_low, high);
    a = _mm_and_si128(_mm_add_epi16(best, x), byte);
    c = b;
    store_pixel(dst + i, a);
  }
}
#else
template <int kBytes>
void add_paeth(const uint8_t* src, const uint8_t* up, uint8_t* dst, size_t n) {
  int a[kBytes] = {}, c[kBytes] = {};
  for (size_t i = 0; i < n; i += kBytes) {
    for (size_t k = 0; k < kBytes; ++k) {
      const int b = up[i + k], bound = 3 * c[k] - b - a[k], low = std::min(a[k], b), high = std::max(a[k], b);
      const int best = bound <= low ? high : high <= bound ? low : c[k];
      a[k] = (best + src[i + k]) & 0xff;
      c[k] = b;
      dst[i + k] = static_cast<uint8_t>(a[k]);
    }
  }
}
#endif

template <int kBytes>
void add_prediction(uint8_t filter, const uint8_t* src, const uint8_t* up, uint8_t* dst, size_t n) {
  switch (filter) {
    case kSub: return add_left<kBytes>(src, dst, n);
    case kUp:
      for (size_t i = 0; i < n; ++i) dst[i] = static_cast<uint8_t>(src[i] + up[i]);
      return;
    case kAverage: return add_average<kBytes>(src, up, dst, n);
    case kPaeth: return add_paeth<kBytes>(src, up, dst, n);
    default: std::memcpy(dst, src, n);
  }
}

// The header, and where the chunks are.
struct Plain {
  int64_t rows = 0, columns = 0;
  size_t pixel_bytes = 0;        // 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha
  std::vector<ByteView> packed;  // the content of the IDAT chunks
  size_t row_bytes() const { return static_cast<size_t>(columns) * pixel_bytes; }
  size_t unpacked_bytes() const { return static_cast<size_t>(rows) * (row_bytes() + 1); }
};

bool read_header(ByteView content, Plain& png) {
  if (content.size() != 13) return false;
  png.columns = be32(content.data());
  png.rows = be32(content.data() + 4);
  constexpr size_t kPixelBytes[] = {1, 0, 3, 0, 2, 0, 4};  // by color type
  const uint8_t depth = content[8], type = content[9], packing = content[10], filters = content[11],
                passes = content[12];
  png.pixel_bytes = type < std::size(kPixelBytes) ? kPixelBytes[type] : 0;
  return depth == 8 && png.pixel_bytes > 0 && packing == 0 && filters == 0 && passes == 0;
}

// False for a file that is not of the usual kind, or damaged.
bool read_chunks(ByteView bytes, Plain& png) {
  constexpr size_t kMagic = 8, kType = 4, kFrame = 12;  // length, type and checksum
  bool ended = false;                                   // the run of IDAT chunks
  for (size_t at = kMagic; bytes.size() - at >= kFrame;) {
    const uint8_t* const type = bytes.data() + at + kType;
    const size_t size = be32(bytes.data() + at);
    if (size > bytes.size() - at - kFrame) return false;
    const ByteView content = bytes.subspan(at + 2 * kType, size);
    if (crc32({type, size + kType}) != be32(content.data() + size)) return false;
    const auto is = [&](const char* name) { return std::memcmp(type, name, kType) == 0; };
    if (at == kMagic) {
      if (!is("IHDR") || !read_header(content, png)) return false;
    } else if (is("IDAT")) {
      if (ended) return false;
      png.packed.push_back(content);
    } else if (is("IEND")) {
      return !png.packed.empty();
    } else {
      const bool critical = (*type & 0x20) == 0;
      if (critical || is("tRNS")) return false;
      ended = !png.packed.empty();
    }
    at += size + kFrame;
  }
  return false;
}

// The rows with their filters in out.spare; false if the data is damaged.
bool unpack(const Plain& png, Image& out) {
  constexpr size_t kZlibEnds = 6;  // header and checksum
  size_t size = 0;
  for (const ByteView part : png.packed) size += part.size();
  const size_t need = png.unpacked_bytes();
  if (size < kZlibEnds || need / kMaxInflateRatio > size) return false;
  if (png.packed.size() > 1) {
    if (out.padded.size() < size) out.padded = Bytes(size);
    uint8_t* to = out.padded.data();
    for (const ByteView part : png.packed) to = std::copy(part.begin(), part.end(), to);
  }
  const ByteView packed = png.packed.size() > 1 ? ByteView(out.padded.data(), size) : png.packed.front();
  if (out.spare.size() < need + kSlack) out.spare = Bytes(need + kSlack);
  if (!inflate_zlib(packed, out.spare.data(), need)) return false;
  for (int64_t y = 0; y < png.rows; ++y) {
    if (out.spare.data()[static_cast<size_t>(y) * (png.row_bytes() + 1)] > kPaeth) return false;
  }
  return true;
}

// Undoes the filters of the first rows and columns, and lays what is transparent on white.
template <int kBytes>
void add_predictions(const uint8_t* src, size_t src_stride, int64_t rows, int64_t columns, uint8_t* dst) {
  constexpr bool kAlpha = kBytes % 2 == 0;
  const size_t n = static_cast<size_t>(columns) * kBytes, stride = kAlpha ? n / kBytes * (kBytes - 1) : n;
  std::vector<uint8_t> lines((kAlpha ? 2 : 1) * (n + kSlack));  // the row above the first one is 0
  const uint8_t* up = lines.data();
  for (int64_t y = 0; y < rows; ++y, src += src_stride, dst += stride) {
    uint8_t* const line = kAlpha ? lines.data() + static_cast<size_t>(1 - y % 2) * (n + kSlack) : dst;
    add_prediction<kBytes>(*src, src + 1, up, line, n);
    if (kAlpha) lay_on_white(line, columns, kBytes - 1, dst);
    up = line;
  }
}
}  // namespace

bool decode_plain_png(ByteView bytes, const std::function<void(int64_t rows, int64_t columns)>& take,
                      const ChooseRegion& choose, Image& out) {
  Plain png;
  if (!read_chunks(bytes, png)) return false;
  take(png.rows, png.columns);
  if (!unpack(png, out)) return false;
  const ImageRegion part = choose(png.rows, png.columns);
  constexpr decltype(&add_predictions<1>) kOfBytes[] = {add_predictions<1>, add_predictions<2>, add_predictions<3>,
                                                        add_predictions<4>};
  out.rows = part.y + part.rows;
  out.columns = part.x + part.columns;
  out.channels = png.pixel_bytes <= 2 ? 1 : 3;
  out.scale = 1;
  out.y = out.x = 0;
  const size_t need = Image::kOffset + static_cast<size_t>(out.rows * out.columns * out.channels) + kSlack;
  if (out.buffer.size() < need) out.buffer = Bytes(need);
  kOfBytes[png.pixel_bytes - 1](out.spare.data(), png.row_bytes() + 1, out.rows, out.columns,
                                out.buffer.data() + Image::kOffset);
  return true;
}

}  // namespace freight::io
