// The limit of docs/limits.md for pictures: each format takes as many pixels as kMaxPixels, and one more is refused by
// the file's name before memory is taken for it.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <webp/encode.h>

#include "freight/base/strings.h"
#include "freight/io/codecs_internal.h"
#include "freight/io/file.h"
#include "freight/io/image.h"
#include "freight/io/npy_internal.h"
#include "tests/support/files.h"
#include "tests/support/jpeg.h"
#include "tests/support/process_memory.h"

namespace freight::io {
namespace {
using namespace freight::testing;

struct Size {
  int64_t rows, columns;
};

// Files of a few bytes that claim this size.
std::string png_of(const Size& s) {
  std::string file = text_of(encode_png(waves(6, 6, 1)));
  const auto be = [](int64_t n) { return be32(static_cast<uint32_t>(n)); };
  const std::string head = "IHDR" + be(s.columns) + be(s.rows) + file.substr(24, 5);
  file.replace(12, 17, head);
  file.replace(29, 4, be32(crc32(bytes_of(head))));
  return file + std::string(1 << 19, 'x');  // fewer bytes could not unpack to so many pixels
}
std::string jpeg_of(const Size& s) {
  std::string file = encode_jpeg(waves(16, 16));
  const auto be = [](int64_t n) { return be32(static_cast<uint32_t>(n)).substr(2); };
  return file.replace(file.find("\xff\xc0") + 5, 4, be(s.rows) + be(s.columns));
}
std::string webp_of(const Size& s) {
  const Array grey = waves(8, 8);
  uint8_t* memory = nullptr;
  const size_t size = WebPEncodeLosslessRGB(grey.data<uint8_t>(), 8, 8, 24, &memory);
  std::string file(reinterpret_cast<char*>(memory), size);
  WebPFree(memory);
  const size_t at = file.find("VP8L") + 9;  // behind the size and a byte of signature: 14 bits each of width and height
  const uint64_t sizes = static_cast<uint64_t>(s.columns - 1) | static_cast<uint64_t>(s.rows - 1) << 14;
  const auto flags = static_cast<uint64_t>(static_cast<uint8_t>(file[at + 3])) >> 4 << 28;
  return file.replace(at, 4, le(sizes | flags, 4));
}
std::string bmp_of(const Size& s) {
  const auto number = [](int64_t n) { return le(static_cast<uint64_t>(n), 4); };
  return "BM" + le(0, 8) + number(54) + number(40) + number(s.columns) + number(s.rows) + le(1, 2) + le(24, 2) +
         le(0, 24);
}
std::string ppm_of(const Size& s) { return cat("P6\n", s.columns, " ", s.rows, "\n255\n"); }

// A claim that is taken needs memory for what it claims: where there is less, the error is about that.
std::string refusal(const std::string& file) {
  try {
    decode_image(bytes_of(file), "claims");
  } catch (const Error& e) {
    const bool memory = std::string(e.what()).find("needs more memory than available") != std::string::npos;
    EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(memory ? ErrorKind::capacity : ErrorKind::data)) << e.what();
    EXPECT_EQ(e.op(), "claims");
    return e.what();
  }
  return "";
}

constexpr Size kBelow{511, 262'657}, kLimit{8192, 16384}, kAbove{1539, 87'211};  // 2^27 - 1, 2^27, 2^27 + 1

// JPEG has 16 bits for a side and WebP 14: theirs are the sizes beside the limit that those can say.
TEST(ImageLimits, EachFormatIsTakenUpToTheLimit) {
  ASSERT_EQ(kMaxPixels, 134'217'728);
  const struct {
    std::string (*of)(const Size&);
    std::vector<Size> taken;
    Size refused;
  } kFormats[] = {
      {png_of, {kBelow, kLimit}, kAbove},
      {bmp_of, {kBelow, kLimit}, kAbove},
      {ppm_of, {kBelow, kLimit}, kAbove},
      {jpeg_of, {{2731, 49'146}, kLimit}, {3226, 41'605}},
      {webp_of, {{8193, 16'382}, kLimit}, {8321, 16'130}},
  };
  for (const auto& format : kFormats) {
    const std::string limit = cat("expected 1 to ", kMaxPixels, " pixels");
    for (const Size& s : format.taken) {
      const std::string said = refusal(format.of(s));  // of what it lacks
      EXPECT_NE(said, "");
      EXPECT_EQ(said.find(limit), std::string::npos) << said;
    }
    const std::string said = refusal(format.of(format.refused));
    EXPECT_NE(said.find(limit), std::string::npos) << said;
    EXPECT_NE(said.find(cat(format.refused.columns, " x ", format.refused.rows)), std::string::npos) << said;
  }
}

// A picture for whose pixels the process has no room is named.
TEST(ImageLimits, ALackOfMemoryNamesThePicture) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the allocators of sanitizers end the process";
#endif
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  std::vector<std::string> files;
  for (const auto of : {png_of, jpeg_of, webp_of}) files.push_back(of(kLimit));
  rlimit small = limit;
  small.rlim_cur = status_bytes("VmSize") + (size_t{64} << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  std::vector<std::string> said;
  for (const std::string& file : files) said.push_back(refusal(file));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  for (const std::string& text : said) EXPECT_EQ(text, "claims: reading it needs more memory than available");
}

TEST(ImageLimits, PicturesOfSoManyPixelsAreDecoded) {
  const auto grey = [](const Size& s) {
    std::string file = cat("P5\n", s.columns, " ", s.rows, "\n255\n");
    file.resize(file.size() + static_cast<size_t>(s.rows * s.columns), 'x');
    return decode_image(bytes_of(file), "grey.pgm").shape();
  };
  for (const Size& s : {kBelow, kLimit}) EXPECT_EQ(grey(s), (Shape{s.rows, s.columns, 1}));
  expect_error(ErrorKind::data, {"grey.pgm", "expected 1 to 134217728 pixels"}, [&] { grey(kAbove); });
  // An array was taken at any size.
  const auto array = [](const Size& s) {
    std::string file = npy_header(DType::u8, {s.rows, s.columns});
    file.resize(file.size() + static_cast<size_t>(s.rows * s.columns));
    return decode_image(bytes_of(file), "grey.npy").shape();
  };
  EXPECT_EQ(array(kLimit), (Shape{kLimit.rows, kLimit.columns, 1}));
  expect_error(ErrorKind::data, {"grey.npy", "expected 1 to 134217728 pixels"}, [&] { array(kAbove); });
}

}  // namespace
}  // namespace freight::io
