// Mutated files: a few thousand damaged variants of small valid ones go through every parser. Only freight::Error may
// come out. Deterministic; meant for the address sanitizer as well.
#include <gtest/gtest.h>

#include <functional>

#include "freight/base/philox.h"
#include "freight/data/arrays.h"
#include "freight/data/idx.h"
#include "freight/io/image.h"
#include "freight/io/npy.h"
#include "freight/io/safetensors.h"
#include "tests/support/files.h"

namespace freight {
namespace {
using namespace freight::testing;

// One to four edits: bits, bytes of note, cuts, repeats, digits of header numbers.
std::string mutate(std::string s, PhiloxStream& r) {
  const auto at = [&] { return static_cast<size_t>(r.below(static_cast<uint32_t>(s.size()))); };
  for (uint32_t edits = 1 + r.below(4); edits > 0 && !s.empty(); --edits) {
    switch (r.below(7)) {
      case 0: s[at()] ^= static_cast<char>(1 << r.below(8)); break;
      case 1: s[at()] = "\x00\xff\x7f\x80\x01"[r.below(5)]; break;
      case 2: s.resize(at()); break;
      case 3: s.insert(at(), s.substr(at(), r.below(64))); break;
      case 4: s.erase(at(), 1 + r.below(16)); break;
      case 5: s[at() % std::min<size_t>(s.size(), 160)] = static_cast<char>(r.bits()); break;
      default:  // a digit or bracket of a text header
        if (const size_t p = s.find_first_of("0123456789[](){}:,'\"", at()); p != std::string::npos) {
          s[p] = "0123456789[](){}:,'\"-"[r.below(21)];
        }
    }
  }
  return s;
}

void fuzz(const std::string& valid, uint32_t stream, int rounds, const std::function<void(io::ByteView)>& parse) {
  ASSERT_NO_THROW(parse(bytes_of(valid)));
  int refused = 0;
  for (int i = 0; i < rounds; ++i) {
    PhiloxStream r(2026, static_cast<uint64_t>(i), stream);
    const std::string text = mutate(valid, r);
    // A block of exactly this size, so that the sanitizer sees the first byte beyond it.
    io::Bytes exact(text.size());
    std::copy(text.begin(), text.end(), exact.data());
    try {
      parse(exact);
    } catch (const Error& e) {
      ++refused;
      EXPECT_NE(std::string(e.what()).find("fuzzed"), std::string::npos) << e.what();
    } catch (const std::exception& e) {
      ADD_FAILURE() << "mutation " << i << " lets out: " << e.what();
    }
  }
  EXPECT_GT(refused, rounds / 4);
}

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
