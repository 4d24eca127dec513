// Mutated files: a few thousand damaged variants of small valid ones go through every parser. Only freight::Error may
// come out. Deterministic; meant for the address sanitizer as well.
#include <gtest/gtest.h>

#include "freight/data/arrays.h"
#include "freight/data/idx.h"
#include "freight/io/image.h"
#include "freight/io/npy.h"
#include "freight/io/safetensors.h"
#include "tests/support/files.h"
#include "tests/support/fuzz.h"

namespace freight {
namespace {
using namespace freight::testing;

template <class Save>
std::string saved(Save&& save) {
  const TemporaryDir dir;
  save(dir / "f");
  return read_text(dir / "f");
}
const Array& small() {
  static const Array kArray = Array::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  return kArray;
}

TEST(Fuzz, SafeTensors) {
  const io::SafeTensors content{{{"spec", "{\"a\":[1,2]}"}}, {{"w", small()}, {"b", Array(DType::u8, {5})}}};
  fuzz(saved([&](const std::string& p) { io::save_safetensors(p, content); }), 1, 4000,
       [](io::ByteView b) { io::parse_safetensors(b, "fuzzed"); });
}

TEST(Fuzz, Npy) {
  fuzz(saved([](const std::string& p) { io::save_npy(p, small()); }), 2, 4000,
       [](io::ByteView b) { io::parse_npy(b, "fuzzed"); });
}

TEST(Fuzz, Npz) {
  const std::string valid = saved([](const std::string& p) {
    io::save_npz(p, {{"x", small()}, {"y", Array::of<int64_t>({0, 1}, {2})}});
  });
  fuzz(valid, 3, 3000, [](io::ByteView b) { data::sets_of_arrays(io::parse_npz(b, "fuzzed"), "fuzzed", "s"); });
}

TEST(Fuzz, Idx) {
  const std::string valid = std::string("\0\0\x08\x03", 4) + be32(3) + be32(4) + be32(2) + std::string(24, 'p');
  fuzz(valid, 4, 4000, [](io::ByteView b) { data::parse_idx(b, "fuzzed"); });
}

TEST(Fuzz, Gzip) {
  fuzz(gzip_stored("a cargo of plain text, stored"), 5, 3000, [](io::ByteView b) { io::gunzip(b, "fuzzed"); });
}

TEST(Fuzz, Png) {
  Array image(DType::u8, {7, 9, 3});
  for (int64_t i = 0; i < image.numel(); ++i) image.data<uint8_t>()[i] = static_cast<uint8_t>(i * i);
  fuzz(text_of(io::encode_png(image)), 6, 3000, [](io::ByteView b) { io::decode_image(b, "fuzzed"); });
}

}  // namespace
}  // namespace freight
