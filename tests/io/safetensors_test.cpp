// safetensors: round trips, Python's reader, and strict refusal of files that lie.
#include "freight/io/safetensors.h"

#include <cmath>
#include <complex>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tests/support/folders.h"

namespace freight::io {
namespace {
using namespace freight::testing;

std::string file_of(const std::string& header, const std::string& body) { return le(header.size(), 8) + header + body; }

SafeTensors example() {
  return {{{"spec", "{\"layers\":[\"conv \xc3\xa9\"]}"}, {"classes", "a\nb"}},
          {{"b.bias", Array::of<float>({1, 2, 3}, {3})},
           {"mask", Array::of<uint8_t>({1, 0, 1, 1, 0}, {5})},
           {"a.weight", Array::of<double>({1.5, -2}, {1, 2})},
           {"half", Array::of<float>({0.5f, 3.0f}, {2}).cast(DType::bf16)},
           {"small", Array::of<float>({0.25f, -1e-7f, 65504.0f}, {3}).cast(DType::f16)},
           {"count", Array::of<int64_t>({1LL << 40}, {})},
           {"none", Array(DType::f32, {0, 4})}}};
}

TEST(SafeTensorsTest, RoundTripsTensorsMetadataAndOrder) {
  const TemporaryDir dir;
  const SafeTensors in = example();
  save_safetensors(dir / "m.safetensors", in);
  const SafeTensors out = load_safetensors(dir / "m.safetensors");
  EXPECT_EQ(out.metadata, in.metadata);
  ASSERT_EQ(out.tensors.size(), in.tensors.size());
  for (size_t i = 0; i < in.tensors.size(); ++i) {
    EXPECT_EQ(out.tensors[i].first, in.tensors[i].first);
    EXPECT_EQ(out.tensors[i].second.dtype(), in.tensors[i].second.dtype());
    EXPECT_EQ(out.tensors[i].second.shape(), in.tensors[i].second.shape());
    EXPECT_EQ(out.tensors[i].second.to_vector<double>(), in.tensors[i].second.to_vector<double>());
  }
  ASSERT_NE(out.find("mask"), nullptr);
  EXPECT_EQ(out.find("nothing"), nullptr);
}

// Each tensor lies where memory that is allocated for it would, so that a variable can take it as it is.
TEST(SafeTensorsTest, FilesAreReadInPlaceAsTheirBytesAreParsed) {
  const TemporaryDir dir;
  save_safetensors(dir / "m.safetensors", example());
  const std::string others =
      "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[5,8]},"
      "\"b\":{\"dtype\":\"BOOL\",\"shape\":[5],\"data_offsets\":[0,5]}}";
  write_file_atomic(dir / "others.safetensors", file_of(others, std::string("\1\0\1\1\0\x38\x40\xb8", 8)));
  Array large(DType::f32, {3, 1 << 20});
  for (int64_t i = 0; i < large.numel(); ++i) large.data<float>()[i] = static_cast<float>(i % 1000);
  save_safetensors(dir / "large.safetensors",
                   {{}, {{"a", Array::of<float>({1}, {1})}, {"large", large}, {"b", Array::of<float>({2}, {1})}}});
  for (const char* name : {"m.safetensors", "others.safetensors", "large.safetensors"}) {
    const std::optional<SafeTensors> in_place = load_safetensors_in_place(dir / name);
    ASSERT_TRUE(in_place) << name;
    const Bytes bytes = read_file(dir / name);
    const SafeTensors parsed = parse_safetensors(bytes.view(), name);
    EXPECT_EQ(in_place->metadata, parsed.metadata);
    ASSERT_EQ(in_place->tensors.size(), parsed.tensors.size());
    for (size_t i = 0; i < parsed.tensors.size(); ++i) {
      const Array &a = in_place->tensors[i].second, &b = parsed.tensors[i].second;
      EXPECT_EQ(in_place->tensors[i].first, parsed.tensors[i].first);
      EXPECT_EQ(a.dtype(), b.dtype());
      ASSERT_EQ(a.shape(), b.shape());
      EXPECT_EQ(std::memcmp(a.raw(), b.raw(), b.bytes()), 0);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(a.raw()) % 64, 0u);
    }
  }
  write_file_atomic(dir / "text", std::string_view("{\"weight_map\": {}}"));
  EXPECT_FALSE(load_safetensors_in_place(dir / "text"));
}

// By the definition of the format, in Python: the library `safetensors` is not in Debian.
TEST(SafeTensorsTest, PythonReadsIt) {
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "numpy (python3-numpy) is not here";
  const TemporaryDir dir;
  SafeTensors content = example();
  std::erase_if(content.tensors, [](const auto& t) { return t.second.dtype() == DType::bf16; });  // numpy has no bf16
  save_safetensors(dir / "m.safetensors", content);
  const std::string reader = source_dir() + "/tests/io/read_safetensors.py";
  EXPECT_EQ(std::system((python + " " + reader + " " + (dir / "m.safetensors")).c_str()), 0);
  std::string gap = read_text(dir / "m.safetensors") + "x";
  io::write_file_atomic(dir / "gap.safetensors", std::string_view(gap));
  EXPECT_NE(std::system((python + " " + reader + " " + (dir / "gap.safetensors") + " 2>/dev/null").c_str()), 0);
}

TEST(SafeTensorsTest, MetadataMayBeNull) {
  const std::string header = R"({"__metadata__":null,"h":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const SafeTensors s = parse_safetensors(bytes_of(file_of(header, "ab")), "h");
  EXPECT_TRUE(s.metadata.empty());
  EXPECT_EQ(s.tensors.size(), 1u);
  expect_error(ErrorKind::checkpoint, {"unexpected null"},
               [] { parse_safetensors(bytes_of(file_of(R"({"h":null})", "")), "h"); });
}

TEST(SafeTensorsTest, HalfFloatsStayHalf) {
  const std::string header = R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})";
  const SafeTensors s = parse_safetensors(bytes_of(file_of(header, std::string("\x00\x3c\x00\x7c", 4))), "h");
  EXPECT_EQ(s.tensors[0].second.dtype(), DType::f16);
  const std::vector<float> values = s.tensors[0].second.to_vector<float>();
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_TRUE(std::isinf(values[1]));
}

// Each pattern of bits has PyTorch's value; f16 has all of them.
TEST(SafeTensorsTest, FloatsOfEightBitsAreReadAsHalf) {
  const std::string header =
      R"({"a":{"dtype":"F8_E4M3","shape":[6],"data_offsets":[0,6]},"b":{"dtype":"F8_E5M2","shape":[6],"data_offsets":[6,12]}})";
  const std::string a("\x38\x80\x7e\x01\xb8\x7f", 6), b("\x3c\x80\x7b\x01\xfc\x7d", 6);
  const SafeTensors s = parse_safetensors(bytes_of(file_of(header, a + b)), "h");
  const std::vector<float> e4m3 = s.tensors[0].second.to_vector<float>(), e5m2 = s.tensors[1].second.to_vector<float>();
  EXPECT_EQ(s.tensors[0].second.dtype(), DType::f16);
  EXPECT_EQ((std::vector<float>(e4m3.begin(), e4m3.end() - 1)), (std::vector<float>{1, 0, 448, 0.001953125f, -1}));
  EXPECT_EQ((std::vector<float>(e5m2.begin(), e5m2.end() - 1)),
            (std::vector<float>{1, 0, 57344, 0x1p-16f, -std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(std::signbit(e4m3[1]) && std::isnan(e4m3[5]) && std::isnan(e5m2[5]));
}

TEST(SafeTensorsTest, BorrowsWhatItsOwnerKeepsWhereTypeAndPlaceAllow) {
  const std::string header =
      R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"f":{"dtype":"F32","shape":[1],"data_offsets":[2,6]},)"
      R"("g":{"dtype":"U16","shape":[1],"data_offsets":[6,8]}})";
  const std::string text = file_of(header, std::string("\x05\x06\x00\x00\x80\x3f\x07\x00", 8));
  const auto block = std::make_shared<std::vector<uint8_t>>(text.begin(), text.end());
  SafeTensors s = parse_safetensors({block->data(), block->size()}, "h", block);
  const auto within = [&](const Array& a) {
    const auto* p = static_cast<const uint8_t*>(a.raw());
    return p >= block->data() && p < block->data() + block->size();
  };
  EXPECT_TRUE(within(s.tensors[0].second));
  EXPECT_EQ(within(s.tensors[1].second), reinterpret_cast<uintptr_t>(block->data() + block->size() - 6) % 4 == 0);
  EXPECT_EQ(within(s.tensors[2].second), reinterpret_cast<uintptr_t>(block->data() + block->size()) % 2 == 0);
  EXPECT_EQ(s.tensors[0].second.to_vector<int>(), (std::vector<int>{5, 6}));
  EXPECT_EQ(s.tensors[1].second.to_vector<float>(), std::vector<float>{1.0f});
  EXPECT_EQ(s.tensors[2].second.to_vector<int>(), std::vector<int>{7});
  EXPECT_GT(block.use_count(), 1);
  s = {};
  EXPECT_EQ(block.use_count(), 1);
}

TEST(SafeTensorsTest, EveryTypeOfTheFormatComesBack) {
  const TemporaryDir dir;
  SafeTensors file;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Array a = Array::of<double>({1, 0, 100}, {3}).cast(dtype);
    if (dtype == DType::c128) {
      const SafeTensors refused{.metadata = {}, .tensors = {{"w", a}}};
      expect_error(ErrorKind::usage, {"'w'", "have no c128"},
                   [&] { save_safetensors(dir / "no.safetensors", refused); });
      EXPECT_FALSE(file_exists(dir / "no.safetensors"));
      continue;
    }
    file.tensors.emplace_back(to_string(dtype), a);
  }
  file.tensors.emplace_back("z", Array::of<std::complex<float>>({{1, -2}}, {}));
  save_safetensors(dir / "all.safetensors", file);
  const SafeTensors back = load_safetensors(dir / "all.safetensors");
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (const auto& [name, a] : file.tensors) {
    const Array* const b = back.find(name);
    ASSERT_TRUE(b) << name;
    EXPECT_EQ(b->dtype(), a.dtype()) << name;
    EXPECT_EQ(b->shape(), a.shape()) << name;
    EXPECT_EQ(std::memcmp(b->raw(), a.raw(), a.bytes()), 0) << name;
  }
}

struct Bad {
  const char* what;
  std::string bytes;
  std::string says;
};
std::string one(const std::string& fields) { return file_of("{\"w\":{" + fields + "}}", "12345678"); }
class SafeTensorsBad : public ::testing::TestWithParam<Bad> {};
TEST_P(SafeTensorsBad, IsRefusedWithFileAndFault) {
  expect_error(ErrorKind::checkpoint, {"bad.safetensors", GetParam().says},
               [&] { parse_safetensors(bytes_of(GetParam().bytes), "bad.safetensors"); });
}
INSTANTIATE_TEST_SUITE_P(
    All, SafeTensorsBad,
    ::testing::Values(
        Bad{"empty", "", "truncated"}, Bad{"seven_bytes", "1234567", "truncated"},
        Bad{"huge_header", le(uint64_t{1} << 40, 8) + "{}", "the limit"},
        Bad{"header_beyond_file", le(100, 8) + "{}", "truncated"}, Bad{"no_brace", file_of("[]", ""), "'{'"},
        Bad{"not_json", file_of("{\"w\":", ""), "JSON"}, Bad{"not_utf8", file_of("{\"\xff\":1}", ""), "JSON"},
        Bad{"text_after", file_of("{}{}", ""), "JSON"}, Bad{"bytes_after", file_of("{}", "x"), "bytes after"},
        Bad{"unknown_type", one(R"("dtype":"F7","shape":[2],"data_offsets":[0,8])"), "'F7'"},
        Bad{"too_small", one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "needs 12 bytes"},
        Bad{"out_of_range", one(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), "out of range"},
        Bad{"reversed", one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "out of range"},
        Bad{"negative", one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "negative"},
        Bad{"fraction", one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "integer"},
        Bad{"overflow", one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"), "too many"},
        Bad{"gap", one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "gap"},
        Bad{"overlap",
            file_of(
                R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                "12345678"),
            "overlaps"},
        Bad{"duplicate",
            file_of(
                R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                "12345678"),
            "duplicate"},
        Bad{"field_missing", one(R"("dtype":"F32","shape":[2])"), "missing"},
        Bad{"field_unknown", one(R"("dtype":"F32","size":[2])"), "'size'"},
        Bad{"field_twice", one(R"("dtype":"F32","dtype":"F32")"), "duplicate"},
        Bad{"nested", one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), "list"},
        Bad{"metadata_number", file_of(R"({"__metadata__":{"a":1}})", ""), "number"},
        Bad{"boolean", file_of(std::string(R"({"w":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})"), "\x05"),
            "expected 0 or 1"}),
    [](const auto& p) { return p.param.what; });

TEST(SafeTensorsTest, SavingRefusesNamesThatClash) {
  const TemporaryDir dir;
  const Array a = Array::of<float>({1}, {1});
  expect_error(ErrorKind::usage, {"'w'", "taken"}, [&] { save_safetensors(dir / "m", {{}, {{"w", a}, {"w", a}}}); });
  expect_error(ErrorKind::usage, {"reserved"}, [&] { save_safetensors(dir / "m", {{}, {{"__metadata__", a}}}); });
  expect_error(ErrorKind::usage, {"UTF-8"}, [&] { save_safetensors(dir / "m", {{{"k", "\xff"}}, {}}); });
  EXPECT_EQ(dir.entries(), 0u);
}

TEST(SafeTensorsTest, ReadsRealModelsOfOthers) {
  const std::string root = real_data("models/burn-mnist.safetensors");
  if (root.empty()) GTEST_SKIP() << "the real model files are not here (set FREIGHT_DATA)";
  EXPECT_GT(load_safetensors(root + "/models/burn-mnist.safetensors").tensors.size(), 8u);
  EXPECT_EQ(load_safetensors(root + "/models/silero_vad_16k.safetensors").tensors.size(), 15u);
}

}  // namespace
}  // namespace freight::io
