// Mutated files: a few thousand damaged variants of small valid ones go through every parser. Only freight::Error may
// come out. Deterministic; meant for the address sanitizer as well.
#include <gtest/gtest.h>
#include <webp/encode.h>

#include "freight/data/arrays.h"
#include "freight/data/cells.h"
#include "freight/data/idx.h"
#include "freight/data/text.h"
#include "freight/data/tokenizer.h"
#include "freight/io/image.h"
#include "freight/io/npy.h"
#include "freight/io/safetensors.h"
#include "freight/io/torch_file.h"
#include "tests/support/files.h"
#include "tests/support/fuzz.h"
#include "tests/support/jpeg.h"

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

void fuzz_torch(const char* file, uint32_t stream) {
  fuzz(read_text(source_dir() + "/tests/io/torch/" + file), stream, 3000, [](io::ByteView b) {
    const auto bytes = std::make_shared<io::Bytes>(b.size());
    std::copy(b.begin(), b.end(), bytes->data());
    io::parse_torch_file({bytes->data(), bytes->size()}, "fuzzed", bytes);
  });
}
TEST(Fuzz, Torch) {
  fuzz_torch("checkpoint4.pth", 51);
  fuzz_torch("legacy.pth", 52);
  fuzz_torch("tar.pth", 53);
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

// Whole and in parts, coarser and not.
void fuzz_image(const std::string& valid, uint64_t seed) {
  io::Image out;
  fuzz(valid, seed, 3000, [&](io::ByteView b) {
    double shrink = 1;
    if (b.size() % 2) shrink = 4;
    io::ImageRoom room;
    io::decode_part(
        b, "fuzzed",
        [&](int64_t rows, int64_t columns) {
          return io::ImageRegion{rows / 3, columns / 4, rows - rows / 3, (columns + 1) / 2, shrink};
        },
        out, room);
  });
}

TEST(Fuzz, Jpeg) {
  fuzz_image(encode_jpeg(waves(40, 52)), 7);
  fuzz_image(encode_jpeg(waves(40, 52), {.progressive = true}), 8);
  fuzz_image(encode_jpeg(waves(20, 22, 4), {.space = JCS_CMYK}), 9);
}

TEST(Fuzz, Bmp) {
  const std::string head = "BM" + std::string(8, '\0') + le(62, 4) + le(40, 4) + le(9, 4) + le(5, 4) + le(1, 2);
  fuzz_image(head + le(1, 2) + std::string(24, '\0') + std::string(8, 'p') + std::string(20, 'x'), 10);
  fuzz_image(head + le(16, 2) + le(3, 4) + std::string(20, '\0') + std::string(8, 'p') + std::string(100, 'x'), 11);
}

TEST(Fuzz, Ppm) {
  fuzz_image("P3 3 2 255 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n", 12);
  fuzz_image("P6 # x\n3 2 255 abcdefghijklmnopqr", 13);
}

TEST(Fuzz, Webp) {
  const Array rgb = waves(20, 24);
  uint8_t* memory = nullptr;
  const size_t size = WebPEncodeRGB(rgb.data<uint8_t>(), 24, 20, 24 * 3, 80, &memory);
  const std::string valid(reinterpret_cast<char*>(memory), size);
  WebPFree(memory);
  fuzz_image(valid, 14);
}

TEST(Fuzz, Gif) {
  // Two frames of 3 x 2 in two colors, the first interlaced and transparent.
  const std::string palette("\0\0\0\xff\xff\xff", 6), pixels("\x08\x07\x00\x01\x04\x10\x28\x30\x20\x00", 10);
  const std::string frame = "," + le(0, 4) + le(3, 2) + le(2, 2);
  fuzz_image("GIF89a" + le(4, 2) + le(3, 2) + "\x80" + std::string(2, '\0') + palette + "!\xf9\x04" + "\x01" +
                 std::string(2, '\0') + "\x01" + std::string(1, '\0') + frame + "\x40" + pixels + frame +
                 std::string(1, '\0') + pixels + ";",
             44);
}

TEST(Fuzz, Tiff) {
  const auto tag = [](uint64_t id, uint64_t type, uint64_t value) {
    return le(id, 2) + le(type, 2) + le(1, 4) + le(value, 4);
  };
  struct Pixels {
    uint64_t compression;  // as the tag has it: none, LZW, PackBits
    std::string bytes;
  };
  const Pixels all[] = {{1, {"\x80\x00\x20\x10\x08\x04\x02\x01\x80\x40\x20\x10", 12}},
                        {5, {"\x80\x20\x00\x02\x00\x80\x20\x08\x02\x00\xa0\x08\x10\x48\x08", 15}},
                        {32773, {"\x03\x80\x00\x20\x10\x03\x08\x04\x02\x01\x03\x80\x40\x20\x10", 15}}};
  for (const Pixels& p : all) {
    const std::string head = std::string("II") + le(42, 2) + le(8, 4) + le(10, 2);
    const uint64_t pixels = 8 + 2 + 10 * 12 + 4;
    fuzz_image(head + tag(256, 3, 4) + tag(257, 3, 3) + tag(258, 3, 8) + tag(259, 3, p.compression) + tag(262, 3, 1) +
                   tag(273, 4, pixels) + tag(274, 3, 6) + tag(277, 3, 1) + tag(278, 3, 3) +
                   tag(279, 4, p.bytes.size()) + le(0, 4) + p.bytes,
               static_cast<uint32_t>(45 + p.compression));
  }
}

void fuzz_text(const std::string& valid, data::TextForm form, uint32_t stream) {
  // Damaged documents are left out here and counted as refused there, by turns.
  fuzz(valid, stream, 3000, [&](io::ByteView b) {
    const data::TextOptions skip{.bad = {.on_bad = data::OnBad::skip}};
    if (b.size() % 2) data::parse_text(b, "fuzzed", form, skip);
    for (const data::TextRow& r : data::parse_text(b, "fuzzed", form).rows) {
      if (!data::document_fault(r.text).empty()) throw std::logic_error("a bad document came through");
      data::words(r.text);
    }
  });
}

TEST(Fuzz, TextFiles) {
  fuzz_text("text,label\n\"a, \"\"b\"\"\",pos\nplain \xc3\xa9t\xc3\xa9,neg\n", data::TextForm::csv, 15);
  fuzz_text("sentence\tlabel\na \xe5\xa5\xbd b\t1\nc\t0\n", data::TextForm::tsv, 16);
  fuzz_text("{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\",\"label\":1}\n", data::TextForm::jsonl, 17);
  fuzz_text("__label__a b c\n__label__b \xc3\xa9\n", data::TextForm::fasttext, 18);
}

TEST(Fuzz, Tables) {
  const auto fuzz_table = [](const std::string& good, uint32_t stream) {
    fuzz(good, stream, 3000, [](io::ByteView b) {
      const data::Cells cells = data::parse_cells(b, "fuzzed");
      for (const data::CellColumn& c : cells.columns) {
        ASSERT_EQ(static_cast<int64_t>(c.is_words() ? c.codes.size() : c.numbers.size()), cells.rows());
        for (int64_t i = 0; i < cells.rows(); ++i) c.text(i);
      }
    });
  };
  fuzz_table("# a,b,c\n1,\"x, \"\"y\"\"\",2.5\r\n-3, z ,\n007,,1e5\nB1,\"two\nlines\",inf\n", 40);
  fuzz_table("-2.3 0.568 4.78\n -5.0 0.6 4.34 \n", 41);
  fuzz_table("1 3:0.5 10:1\n0 2:7 # none\n", 42);
  fuzz_table("2 qid:7 3:0.5\n0 qid:8 2:7\n", 43);
  fuzz_table(
      "{\"a\": 1, \"b\": \"x\\u00e9\", \"c\": true}\n\n{\"c\": null, \"a\": -2.5e-3, \"d\": 7}\r\n{\"b\": \"NA\", "
      "\"a\": 3}",
      44);
  fuzz_table(saved([](const std::string& p) {
               io::save_npz(p, {{"X", small()},
                                {"flag", Array::of<bool>({true, false}, {2})},
                                {"n", Array::of<int64_t>({-1, 7}, {2})}});
             }),
             45);
}

TEST(Fuzz, StoredTokenizers) {
  const std::vector<std::string> texts = {"the cat saw the dog", "the dog saw the cat \xc3\xa9", "a cat, a dog"};
  const auto try_all = [&](data::TokenizerKind kind, int64_t limit, uint32_t stream) {
    const Array bytes = data::learn_tokenizer(texts, {.kind = kind, .limit = limit})->stored();
    fuzz(text_of({bytes.data<uint8_t>(), bytes.bytes()}), stream, 3000, [&](io::ByteView b) {
      const auto t = data::load_tokenizer(kind, b, "fuzzed");
      for (const std::string& text : texts) {
        for (const int32_t id : t->encode(text)) {
          if (id < 1 || id >= t->size()) throw std::logic_error("a number out of range");
        }
      }
    });
  };
  try_all(data::TokenizerKind::word, 0, 19);
  try_all(data::TokenizerKind::character, 0, 20);
  try_all(data::TokenizerKind::bpe, 40, 21);
}

}  // namespace
}  // namespace freight
