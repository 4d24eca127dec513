// npy and npz: round trips, the variants NumPy writes, and malformed files.
#include "freight/io/npy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>

#include "tests/support/files.h"

namespace freight::io {
namespace {
using namespace freight::testing;

std::string npy(const std::string& dict, const std::string& body, char version = 1) {
  std::string head = dict + "\n";
  return std::string("\x93NUMPY", 6) + version + '\0' + le(head.size(), version == 1 ? 2 : 4) + head + body;
}
std::string dict(const std::string& descr, const std::string& order, const std::string& shape) {
  return cat("{'descr': '", descr, "', 'fortran_order': ", order, ", 'shape': ", shape, ", }");
}

class NpyRoundTrip : public ::testing::TestWithParam<int> {};
TEST_P(NpyRoundTrip, KeepsEveryElementType) {
  const auto dtype = static_cast<DType>(GetParam());
  const TemporaryDir dir;
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{7}, Shape{2, 3, 4}}) {
    Array numbers(DType::f32, shape);
    for (int64_t i = 0; i < shape.numel(); ++i) numbers.data<float>()[i] = static_cast<float>(i * 5 + 1);
    const Array a = numbers.cast(dtype), need = dtype == DType::bf16 ? a.cast(DType::f32) : a;
    save_npy(dir / "a.npy", a);
    save_npz(dir / "a.npz", {{"x", a}});
    for (const Array& b : {load_npy(dir / "a.npy"), load_npz(dir / "a.npz").at("x")}) {
      EXPECT_EQ(b.dtype(), need.dtype());
      EXPECT_EQ(b.shape(), shape);
      EXPECT_EQ(std::memcmp(b.raw(), need.raw(), need.bytes()), 0);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, NpyRoundTrip, ::testing::Range(0, kDTypeCount));

TEST(Npy, ReadsFortranOrder) {
  // [[1, 2, 3], [4, 5, 6]] by columns.
  const Array a = parse_npy(bytes_of(npy(dict("|u1", "True", "(2, 3)"), "\x01\x04\x02\x05\x03\x06")), "f.npy");
  EXPECT_EQ(a.to_vector<int>(), (std::vector<int>{1, 2, 3, 4, 5, 6}));
}

TEST(Npy, ReadsBigEndianSmallTypesAndNewerVersions) {
  EXPECT_EQ(parse_npy(bytes_of(npy(dict(">i2", "False", "(2,)"), std::string("\x01\x02\xff\xfe", 4), 2)), "a")
                .to_vector<int>(),
            (std::vector<int>{258, -2}));
  for (const auto& [descr, bytes] : {std::pair{"<f2", std::string("\x00\x3c\x00\xc0\x01\x00", 6)},
                                     std::pair{">f2", std::string("\x3c\x00\xc0\x00\x00\x01", 6)}}) {
    const Array a = parse_npy(bytes_of(npy(dict(descr, "False", "(3,)"), bytes, 3)), "a");
    EXPECT_EQ(a.dtype(), DType::f16);
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1.0f, -2.0f, 0x1p-24f}));
  }
  EXPECT_EQ(parse_npy(bytes_of(npy("{\"shape\":(),'descr':'<i4','fortran_order':False}", le(7, 4))), "a").numel(), 1);
}

TEST(Npy, ReadsEveryTypeOfBothByteOrders) {
  const auto read = [](const char* descr, const std::string& bytes, const char* shape) {
    return parse_npy(bytes_of(npy(dict(descr, "False", shape), bytes)), "a");
  };
  EXPECT_EQ(read("|i1", "\x80\x7f", "(2,)").data<int8_t>()[0], -128);
  EXPECT_EQ(read("<i2", std::string("\x02\x81", 2), "(1,)").data<int16_t>()[0], -32510);
  EXPECT_EQ(read(">u2", std::string("\x81\x02", 2), "(1,)").data<uint16_t>()[0], 33026);
  EXPECT_EQ(read(">u4", std::string("\xff\x00\x00\x01", 4), "(1,)").data<uint32_t>()[0], 4278190081u);
  EXPECT_EQ(read("<u8", std::string(8, '\xff'), "(1,)").data<uint64_t>()[0], ~uint64_t{0});
  const std::string one("\x3f\x80\x00\x00", 4), minus_two("\xc0\x00\x00\x00", 4);
  EXPECT_EQ(read(">c8", one + minus_two, "(1,)").data<std::complex<float>>()[0], std::complex<float>(1, -2));
  const std::string wide_one("\x00\x00\x00\x00\x00\x00\xf0\x3f", 8);
  EXPECT_EQ(read("<c16", wide_one + std::string(8, '\0'), "(1,)").data<std::complex<double>>()[0],
            std::complex<double>(1, 0));
}

TEST(Npy, ReadersOfDataGetTypesThatAreComputedIn) {
  EXPECT_EQ(computable(Array::of<int8_t>({-3}, {1}), "x").data<int32_t>()[0], -3);
  EXPECT_EQ(computable(Array::of<uint16_t>({65535}, {1}), "x").data<int32_t>()[0], 65535);
  EXPECT_EQ(computable(Array::of<uint32_t>({4294967295u}, {1}), "x").data<int64_t>()[0], 4294967295);
  EXPECT_EQ(computable(Array::of<uint64_t>({uint64_t{1} << 62}, {1}), "x").data<int64_t>()[0], int64_t{1} << 62);
  EXPECT_EQ(computable(Array::of<double>({0.5}, {1}), "x").dtype(), DType::f64);
  expect_error(ErrorKind::data, {"x.npy", "element 1 is 18446744073709551615", "above the range of i64"}, [] {
    computable(Array::of<uint64_t>({1, ~uint64_t{0}}, {2}), "x.npy");
  });
  expect_error(ErrorKind::data, {"x.npy", "expected real numbers, got c64[1]"}, [] {
    computable(Array::of<std::complex<float>>({{1, 2}}, {1}), "x.npy");
  });
}

struct Bad {
  const char* what;
  std::string bytes;
  std::string says;
};
class NpyBad : public ::testing::TestWithParam<Bad> {};
TEST_P(NpyBad, IsRefusedWithFileAndFault) {
  expect_error(ErrorKind::data, {"bad.npy", GetParam().says},
               [&] { parse_npy(bytes_of(GetParam().bytes), "bad.npy"); });
}
INSTANTIATE_TEST_SUITE_P(
    All, NpyBad,
    ::testing::Values(Bad{"empty", "", "magic"}, Bad{"other format", "PK\x03\x04 and more text", "magic"},
                      Bad{"short header", npy(dict("<f4", "False", "(2,)"), "").substr(0, 30), "truncated"},
                      Bad{"short body", npy(dict("<f4", "False", "(2,)"), "1234567"), "truncated"},
                      Bad{"long body", npy(dict("<f4", "False", "(2,)"), "123456789"), "bytes after"},
                      Bad{"version", npy(dict("<f4", "False", "(2,)"), "12345678", 9), "version 9"},
                      Bad{"objects", npy(dict("|O", "False", "(2,)"), "12345678"), "'|O' is not supported"},
                      Bad{"structured", npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
                          "structured"},
                      Bad{"overflow", npy(dict("<f4", "False", "(4294967296, 4294967296)"), ""), "too many"},
                      Bad{"extent", npy(dict("<f4", "False", "(99999999999999999999,)"), ""), "out of range"},
                      Bad{"rank", npy(dict("<f4", "False", "(1,1,1,1,1,1,1,1,1)"), "1234"), "too many axes"},
                      Bad{"negative", npy(dict("<f4", "False", "(-1,)"), ""), "non-negative"},
                      Bad{"missing key", npy("{'descr': '<f4', 'shape': (1,)}", "1234"), "missing"},
                      Bad{"extra key", npy("{'descr': '<f4', 'x': (1,)}", "1234"), "unexpected key 'x'"},
                      Bad{"boolean", npy(dict("|b1", "False", "(1,)"), "\x07"), "expected 0 or 1"},
                      Bad{"long double", npy(dict("<f16", "False", "(1,)"), std::string(16, '1')), "'<f16' is not"},
                      Bad{"odd size", npy(dict("<c12", "False", "(1,)"), "123456789012"), "'<c12' is not supported"},
                      Bad{"no size", npy(dict("<c-8", "False", "(1,)"), "12345678"), "'<c-8' is not supported"}),
    [](const auto& p) {
      std::string name = p.param.what;
      for (char& c : name) c = c == ' ' ? '_' : c;
      return name;
    });

TEST(Npz, RoundTrips) {
  const TemporaryDir dir;
  const NamedArrays in{{"x", Array::of<float>({1, 2, 3, 4}, {2, 2})}, {"y", Array::of<int64_t>({5, 6}, {2})}};
  save_npz(dir / "a.npz", in);
  const NamedArrays out = load_npz(dir / "a.npz");
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out.at("x").to_vector<float>(), in.at("x").to_vector<float>());
  EXPECT_EQ(out.at("y").to_vector<int64_t>(), in.at("y").to_vector<int64_t>());
}

TEST(Npz, RefusesDamage) {
  const TemporaryDir dir;
  save_npz(dir / "a.npz", {{"x", Array::of<float>({1, 2, 3, 4}, {2, 2})}});
  const std::string good = read_text(dir / "a.npz");
  for (size_t n = 0; n < good.size(); n += 7) {
    expect_error(ErrorKind::data, {"cut.npz"}, [&] { parse_npz(bytes_of(good.substr(0, n)), "cut.npz"); });
  }
  std::string bad = good;
  bad[good.find("NUMPY") + 130] ^= 1;  // an element
  expect_error(ErrorKind::data, {"bad.npz[x.npy]", "checksum"}, [&] { parse_npz(bytes_of(bad), "bad.npz"); });
}

// 2,000 names of one member of 1 MB were 2 GB of arrays.
TEST(Npz, MembersThatShareTheirBytesAreRefused) {
  const TemporaryDir dir;
  save_npz(dir / "a.npz", {{"x", Array::of<float>({1, 2, 3, 4}, {2, 2})}, {"y", Array::of<float>({5}, {1})}});
  std::string bytes = read_text(dir / "a.npz");
  EXPECT_EQ(parse_npz(bytes_of(bytes), "a.npz").size(), 2u);
  const size_t first = bytes.find("PK\x01\x02"), second = bytes.find("PK\x01\x02", first + 1);
  ASSERT_NE(second, std::string::npos);
  const std::string entry = bytes.substr(first, second - first), rest = bytes.substr(bytes.find("PK\x05\x06"));
  bytes.resize(first);
  for (char name = 'a'; name <= 'e'; ++name) {
    bytes += entry;
    bytes[bytes.size() - 5] = name;  // of "x.npy"
  }
  bytes += rest;
  bytes[bytes.size() - 12] = bytes[bytes.size() - 14] = 5;  // entries
  expect_error(ErrorKind::data, {"a.npz", "its members overlap"}, [&] { parse_npz(bytes_of(bytes), "a.npz"); });
}

TEST(Npz, ArraysThatAreNotAskedForMayBeOfAnyType) {
  const TemporaryDir dir;
  const Array x = Array::of<float>({1, 2}, {2});
  save_npz(dir / "a.npz", {{"names", x}, {"x", x}});
  std::string bytes = read_text(dir / "a.npz");
  bytes.replace(bytes.find("<f4"), 3, "|S4");  // of the first, names
  EXPECT_EQ(parse_npz(bytes_of(bytes), "a.npz", {"x", "y"}).size(), 1u);
  EXPECT_EQ(npz_keys(bytes_of(bytes), "a.npz"), (std::vector<std::string>{"names", "x"}));
  expect_error(ErrorKind::data, {"a.npz[names.npy]"}, [&] { parse_npz(bytes_of(bytes), "a.npz"); });
}

TEST(Npz, ReadsWhatNumpyWrites) {
  const TemporaryDir dir;
  const std::string script =
      "import numpy as np; a = np.arange(1000, dtype=np.int32).reshape(10, 100); "
      "np.savez_compressed('" +
      (dir / "c.npz") + "', a=a, f=np.asfortranarray(a)); np.savez('" + (dir / "s.npz") + "', a=a)";
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "numpy (python3-numpy) is not here";
  ASSERT_EQ(std::system((python + " -c \"" + script + "\"").c_str()), 0);
  for (const char* file : {"c.npz", "s.npz"}) {
    for (const auto& [name, a] : load_npz(dir / file)) {
      EXPECT_EQ(a.shape(), (Shape{10, 100})) << name;
      EXPECT_EQ(a.data<int32_t>()[123], 123) << name;
    }
  }
  save_npz(dir / "ours.npz", {{"x", Array::of<float>({1, 2, 3, 4}, {2, 2})}});
  const std::string check =
      "import numpy as np; x = np.load('" + (dir / "ours.npz") + "')['x']; assert x.tolist() == [[1, 2], [3, 4]]";
  EXPECT_EQ(std::system((python + " -c \"" + check + "\"").c_str()), 0);
}

// Each type, little and big-endian, in C and Fortran order, there and back.
TEST(Npz, EveryTypeIsSharedWithNumpy) {
  const TemporaryDir dir;
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "numpy (python3-numpy) is not here";
  const std::string begin =
      "import numpy as np\n"
      "types = '?,i1,i2,i4,i8,u1,u2,u4,u8,f2,f4,f8,c8,c16'.split(',')\n"
      "def make(t):\n"
      "  x = (np.arange(6, dtype='c16') * (1.5 - 2j) + 3).reshape(2, 3)\n"
      "  return (x if t[0] == 'c' else x.real).astype(t)\n";
  write_file_atomic(dir / "write.py", begin +
                                          "for t in types:\n"
                                          "  for order in '<>':\n"
                                          "    a = make(t).astype(np.dtype(t).newbyteorder(order))\n"
                                          "    np.savez('" +
                                          dir.path() +
                                          "/' + t.replace('?', 'b') + order.replace('<', 'l').replace('>', 'g'), "
                                          "a=a, f=np.asfortranarray(a))\n");
  ASSERT_EQ(std::system((python + " " + (dir / "write.py")).c_str()), 0);
  for (const char* type : {"b", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"}) {
    const NamedArrays little = load_npz(dir / cat(type, "l.npz")), big = load_npz(dir / cat(type, "g.npz"));
    const Array& a = little.at("a");
    for (const Array& b : {little.at("f"), big.at("a"), big.at("f")}) {
      EXPECT_EQ(b.dtype(), a.dtype()) << type;
      EXPECT_EQ(std::memcmp(b.raw(), a.raw(), a.bytes()), 0) << type;
    }
    const bool complex = type[0] == 'c';
    const auto numbers = a.to_vector<std::complex<double>>();
    EXPECT_EQ(numbers[2], *type == 'b' ? 1.0 : complex ? std::complex<double>(6, -4) : std::complex<double>(6)) << type;
    save_npz(dir / cat(type, "_ours.npz"), little);
  }
  write_file_atomic(dir / "check.py", begin +
                                          "for t in types:\n"
                                          "  ours = np.load('" +
                                          dir.path() +
                                          "/' + t.replace('?', 'b') + '_ours.npz')\n"
                                          "  for key in 'af':\n"
                                          "    assert ours[key].dtype == np.dtype(t), (t, ours[key].dtype)\n"
                                          "    assert (ours[key] == make(t)).all(), t\n");
  EXPECT_EQ(std::system((python + " " + (dir / "check.py")).c_str()), 0);
}

TEST(Npz, ReadsRealFilesOfOthers) {
  const std::string root = real_data("models/expected/silero_vad_16k_op15_synthetic.npz");
  if (root.empty()) GTEST_SKIP() << "the real model files are not here (set FREIGHT_DATA)";
  const NamedArrays a = load_npz(root + "/models/expected/silero_vad_16k_op15_synthetic.npz");
  EXPECT_TRUE(a.contains("wav") && a.contains("prob"));
}

}  // namespace
}  // namespace freight::io
