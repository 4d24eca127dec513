// Images: PNG variants, JPEG, npy, and damaged files. The JPEG is made here with libjpeg's own tools where they exist.
#include "freight/io/image.h"

#include <gtest/gtest.h>

#include "freight/io/npy.h"
#include "tests/support/files.h"

namespace freight::io {
namespace {
using namespace freight::testing;

Array ramp(const Shape& shape) {
  Array a(DType::u8, shape);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
  return a;
}

TEST(Image, PngRoundTripsGreyAndColour) {
  const TemporaryDir dir;
  for (const Shape& shape : {Shape{5, 9, 1}, Shape{5, 9, 3}, Shape{1, 1, 3}}) {
    const Array a = ramp(shape);
    save_png(dir / "a.png", a);
    const Array b = load_image(dir / "a.png");
    EXPECT_EQ(b.shape(), shape);
    EXPECT_EQ(b.to_vector<int>(), a.to_vector<int>());
  }
  EXPECT_EQ(decode_image(encode_png(ramp({4, 6})), "x").shape(), (Shape{4, 6, 1}));
}

TEST(Image, NpyImagesMayBePlanesOrFloats) {
  const TemporaryDir dir;
  save_npy(dir / "p.npy", ramp({3, 2, 5}));
  const Array p = load_image(dir / "p.npy");
  EXPECT_EQ(p.shape(), (Shape{2, 5, 3}));
  EXPECT_EQ(p.data<uint8_t>()[1], static_cast<uint8_t>(10 * 7));  // plane 1, pixel 0
  save_npy(dir / "f.npy", Array::of<float>({0.0f, 0.5f, 1.0f, 0.25f}, {2, 2}));
  EXPECT_EQ(load_image(dir / "f.npy").to_vector<int>(), (std::vector<int>{0, 128, 255, 64}));
  save_npy(dir / "g.npy", Array::of<float>({0.0f, 7.0f}, {1, 2}));
  expect_error(ErrorKind::data, {"g.npy", "element 1 is 7"}, [&] { load_image(dir / "g.npy"); });
  save_npy(dir / "h.npy", ramp({2, 2, 2, 2}));
  expect_error(ErrorKind::data, {"h.npy", "[2,2,2,2]"}, [&] { load_image(dir / "h.npy"); });
}

TEST(Image, EveryTruncationOfAPngIsRefused) {
  const std::string good = text_of(encode_png(ramp({6, 6, 3})));
  for (size_t n = 0; n < good.size(); n += 3) {
    expect_error(ErrorKind::data, {"cut.png"}, [&] { decode_image(bytes_of(good.substr(0, n)), "cut.png"); });
  }
}

TEST(Image, APngThatClaimsAbsurdSizeIsRefusedBeforeAllocating) {
  std::string bad = text_of(encode_png(ramp({6, 6})));
  const std::string ihdr = "IHDR" + be32(60000) + be32(60000) + bad.substr(24, 5);
  bad.replace(12, 17, ihdr);
  bad.replace(29, 4, be32(crc32(bytes_of(ihdr))));
  expect_error(ErrorKind::data, {"bad.png", "60000"}, [&] { decode_image(bytes_of(bad), "bad.png"); });
}

TEST(Image, OtherFormatsAreNamed) {
  expect_error(ErrorKind::data, {"a.gif", "PNG, JPEG or npy"}, [] { decode_image(bytes_of("GIF89a..."), "a.gif"); });
}

TEST(Image, ReadsWhatPillowWrites) {
  const TemporaryDir dir;
  const std::string script =
      "from PIL import Image; import sys; d = sys.argv[1]; "
      "c = Image.new('RGB', (40, 24), (200, 40, 90)); c.save(d + '/rgb.jpg', quality=95); "
      "c.convert('L').save(d + '/grey.jpg'); c.convert('CMYK').save(d + '/cmyk.jpg', quality=95); "
      "c.convert('P').save(d + '/palette.png'); Image.new('RGBA', (4, 4), (10, 20, 30, 0)).save(d + '/clear.png'); "
      "Image.new('I;16', (4, 4), 0x8000).save(d + '/deep.png'); Image.new('1', (4, 4), 1).save(d + '/bit.png')";
  if (std::system(("python3 -c \"" + script + "\" " + dir.path() + " 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "Pillow is not here";
  }
  for (const char* file : {"rgb.jpg", "cmyk.jpg", "palette.png"}) {
    const Array a = load_image(dir / file);
    EXPECT_EQ(a.shape(), (Shape{24, 40, 3})) << file;
    EXPECT_NEAR(a.data<uint8_t>()[0], 200, 12) << file;
    EXPECT_NEAR(a.data<uint8_t>()[1], 40, 12) << file;
    EXPECT_NEAR(a.data<uint8_t>()[2], 90, 12) << file;
  }
  EXPECT_EQ(load_image(dir / "grey.jpg").shape(), (Shape{24, 40, 1}));
  EXPECT_EQ(load_image(dir / "clear.png").data<uint8_t>()[0], 255);
  EXPECT_NEAR(load_image(dir / "deep.png").data<uint8_t>()[0], 128, 1);
  EXPECT_EQ(load_image(dir / "bit.png").data<uint8_t>()[0], 255);
  const std::string jpeg = read_text(dir / "rgb.jpg");
  for (const size_t n : {3ul, 20ul, jpeg.size() / 2, jpeg.size() - 30}) {
    expect_error(ErrorKind::data, {"cut.jpg"}, [&] { decode_image(bytes_of(jpeg.substr(0, n)), "cut.jpg"); });
  }
}

}  // namespace
}  // namespace freight::io
