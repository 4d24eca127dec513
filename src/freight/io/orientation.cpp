// See orientation.h. Layouts: EXIF 2.32 (CIPA DC-008), which is a TIFF directory with the tag Orientation; the segments
// of JPEG, the chunk eXIf of PNG's third edition, the chunk EXIF of WebP's container, and TIFF itself, BigTIFF
// included.
#include "freight/io/orientation.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "freight/io/codecs_internal.h"

namespace freight::io {

namespace {
bool begins_with(ByteView bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin(),
                                                   [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

enum class ByteOrder { little, big };
// `size` bytes at `at` as a number; none beyond the end.
std::optional<uint64_t> number_at(ByteView bytes, size_t at, size_t size, ByteOrder order) {
  if (at > bytes.size() || bytes.size() - at < size) return std::nullopt;
  uint64_t v = 0;
  for (size_t i = 0; i < size; ++i) v = v << 8 | bytes[at + (order == ByteOrder::big ? i : size - 1 - i)];
  return v;
}

ByteView slice_of(ByteView bytes, size_t at, uint64_t size) {
  if (at >= bytes.size()) return {};
  return bytes.subspan(at, static_cast<size_t>(std::min<uint64_t>(size, bytes.size() - at)));
}

// The payload of the first APP1 segment that holds EXIF, before the pixels begin.
ByteView exif_of_jpeg(ByteView bytes) {
  constexpr uint8_t kApp1 = 0xe1, kScan = 0xda, kEnd = 0xd9;
  for (size_t at = 2; at + 4 <= bytes.size() && bytes[at] == 0xff;) {
    const uint8_t marker = bytes[at + 1];
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == kScan || marker == kEnd) return {};
    const uint64_t size = number_at(bytes, at + 2, 2, ByteOrder::big).value_or(0);
    if (size < 2) return {};
    const ByteView body = slice_of(bytes, at + 4, size - 2);
    if (marker == kApp1 && begins_with(body, std::string_view("Exif\0\0", 6))) return body.subspan(6);
    at += 2 + size;
  }
  return {};
}

ByteView exif_of_png(ByteView bytes) {
  for (size_t at = 8; at + 12 <= bytes.size();) {
    const uint64_t size = number_at(bytes, at, 4, ByteOrder::big).value_or(0);
    if (begins_with(bytes.subspan(at + 4), "eXIf")) return slice_of(bytes, at + 8, size);
    if (size > bytes.size()) return {};
    at += 12 + size;
  }
  return {};
}

ByteView exif_of_webp(ByteView bytes) {
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const uint64_t size = number_at(bytes, at + 4, 4, ByteOrder::little).value_or(0);
    if (begins_with(bytes.subspan(at), "EXIF")) {
      const ByteView body = slice_of(bytes, at + 8, size);
      return begins_with(body, std::string_view("Exif\0\0", 6)) ? body.subspan(6) : body;
    }
    if (size > bytes.size()) return {};
    at += 8 + size + size % 2;
  }
  return {};
}

// 1 to 8; 1 where the directory does not say it.
uint64_t orientation_tag(ByteView tiff) {
  constexpr uint64_t kOrientation = 0x0112, kShort = 3;
  const bool little = begins_with(tiff, "II");
  if (!little && !begins_with(tiff, "MM")) return 1;
  const ByteOrder order = little ? ByteOrder::little : ByteOrder::big;
  // BigTIFF has numbers of eight bytes where TIFF has four, or two for the number of entries.
  const bool big = number_at(tiff, 2, 2, order) == 43;
  const size_t wide = big ? 8 : 4, count_bytes = big ? 8 : 2, entry_bytes = big ? 20 : 12;
  const uint64_t directory = number_at(tiff, wide, wide, order).value_or(tiff.size());
  const uint64_t entries = number_at(tiff, directory, count_bytes, order).value_or(0);
  for (uint64_t i = 0; i < entries; ++i) {
    const size_t at = directory + count_bytes + entry_bytes * i;
    const auto tag = number_at(tiff, at, 2, order);
    if (!tag) return 1;
    if (*tag != kOrientation || number_at(tiff, at + 2, 2, order) != kShort) continue;
    const uint64_t value = number_at(tiff, at + 4 + wide, 2, order).value_or(1);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}
}  // namespace

const char* to_string(Orientation orientation) { return orientation == Orientation::exif ? "exif" : "ignore"; }

bool parse_orientation(const std::string& name, Orientation& out) {
  for (const Orientation o : {Orientation::exif, Orientation::ignore}) {
    if (name == to_string(o)) return out = o, true;
  }
  return false;
}

Turn exif_turn(ByteView bytes) {
  const ByteView exif = is_jpeg(bytes)   ? exif_of_jpeg(bytes)
                        : is_png(bytes)  ? exif_of_png(bytes)
                        : is_webp(bytes) ? exif_of_webp(bytes)
                        : is_tiff(bytes) ? bytes
                                         : ByteView();
  // The turns say what stands at the upright image's first row and first column, by the values 1 to 8 of the tag.
  static constexpr Turn kTurns[] = {
      {},
      {.flip_columns = true},                                         // mirrored left to right
      {.flip_rows = true, .flip_columns = true},                      // by 180 degrees
      {.flip_rows = true},                                            // mirrored top to bottom
      {.transposed = true},                                           // mirrored at the falling diagonal
      {.transposed = true, .flip_rows = true},                        // by 90 degrees clockwise
      {.transposed = true, .flip_rows = true, .flip_columns = true},  // mirrored at the rising diagonal
      {.transposed = true, .flip_columns = true},                     // by 90 degrees the other way
  };
  return kTurns[orientation_tag(exif) - 1];
}

void turn_pixels(const uint8_t* src, int64_t rows, int64_t columns, int64_t channels, const Turn& turn, uint8_t* dst) {
  const int64_t out_rows = turn.transposed ? columns : rows, out_columns = turn.transposed ? rows : columns;
  for (int64_t r = 0; r < out_rows; ++r) {
    for (int64_t c = 0; c < out_columns; ++c, dst += channels) {
      const int64_t a = turn.transposed ? c : r, b = turn.transposed ? r : c;
      const int64_t y = turn.flip_rows ? rows - 1 - a : a, x = turn.flip_columns ? columns - 1 - b : b;
      std::copy_n(src + (y * columns + x) * channels, channels, dst);
    }
  }
}

}  // namespace freight::io
