// Arrays as text: what str() of NumPy's array gives.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <sstream>

#include "freight/base/array_text.h"

namespace freight {
namespace {

std::string floats(const std::vector<float>& v, const Shape& shape) { return text_of(Array::of<float>(v, shape)); }

std::vector<float> steps(int n, float by) {
  std::vector<float> v;
  for (int i = 0; i < n; ++i) v.push_back(static_cast<float>(i) * by);
  return v;
}

TEST(ArrayText, NumbersStandUnderEachOther) {
  EXPECT_EQ(floats({1, 2.5f, -3, 0.1f}, {2, 2}), "[[ 1.   2.5]\n [-3.   0.1]]");
  EXPECT_EQ(floats({1, 2, 3}, {3}), "[1. 2. 3.]");
  EXPECT_EQ(floats({0.123456789f, 100}, {2}), "[  0.12345679 100.        ]");
  EXPECT_EQ(floats({0, 0}, {2}), "[0. 0.]");
  EXPECT_EQ(text_of(Array::of<double>({0.1, 1.0 / 3}, {2})), "[0.1        0.33333333]");
  EXPECT_EQ(text_of(Array::of<int>({1, -20, 300}, {3})), "[  1 -20 300]");
  EXPECT_EQ(text_of(Array::of<uint8_t>({1, 0}, {2, 1}).cast(DType::boolean)), "[[ True]\n [False]]");
  EXPECT_EQ(floats({2}, {}), "2.0");
  EXPECT_EQ(floats({}, {0, 3}), "[]");
}

// As str() of NumPy 2.4's scalars.
TEST(ArrayText, OneNumberHasTheFewestDigitsOfItsType) {
  const std::pair<double, const char*> doubles[] = {{1e5, "100000.0"},
                                                    {123456.789, "123456.789"},
                                                    {1.0 / 3, "0.3333333333333333"},
                                                    {9007199254740992, "9007199254740992.0"},
                                                    {1e16, "1e+16"},
                                                    {1e-4, "0.0001"},
                                                    {1.5e-5, "1.5e-05"},
                                                    {5e-324, "5e-324"},
                                                    {-0.0, "-0.0"},
                                                    {HUGE_VAL, "inf"}};
  for (const auto& [v, text] : doubles) EXPECT_EQ(text_of(Array::of<double>({v}, {})), text);
  const std::pair<float, const char*> singles[] = {
      {0.1F, "0.1"},    {1e5F, "100000.0"},          {123456.789F, "123456.79"},
      {1e-4F, "1e-04"}, {16777216, "1.6777216e+07"}, {-HUGE_VALF, "-inf"}};
  for (const auto& [v, text] : singles) EXPECT_EQ(floats({v}, {}), text);
  const std::pair<float, const char*> halves[] = {{0.1F, "0.1"},       {1.0F / 3, "0.3333"}, {2048, "2.048e+03"},
                                                  {65504, "6.55e+04"}, {3, "3.0"},           {6e-8F, "6e-08"}};
  for (const auto& [v, text] : halves) EXPECT_EQ(text_of(Array::of<float>({v}, {}).cast(DType::f16)), text);
  EXPECT_EQ(text_of(Array::of<float>({0.1F}, {}).cast(DType::bf16)), "0.1");
  EXPECT_EQ(text_of(Array::of<std::complex<float>>({{1e5F, -0.1F}}, {})), "(100000-0.1j)");
}

TEST(ArrayText, ShapesAndTypesAreWrittenToStreams) {
  std::ostringstream out;
  out << Shape{2, 3} << ' ' << Shape{} << ' ' << DType::bf16;
  EXPECT_EQ(out.str(), "[2,3] [] bf16");
}

TEST(ArrayText, UnsignedAndSmallIntegersAreWritten) {
  EXPECT_EQ(text_of(Array::of<uint64_t>({~uint64_t{0}, 1}, {2})), "[18446744073709551615                    1]");
  EXPECT_EQ(text_of(Array::of<uint64_t>({~uint64_t{0}}, {})), "18446744073709551615");
  EXPECT_EQ(text_of(Array::of<int8_t>({-128, 127}, {2})), "[-128  127]");
  EXPECT_EQ(text_of(Array::of<uint32_t>({4294967295u}, {})), "4294967295");
}

TEST(ArrayText, ComplexNumbersHaveTwoParts) {
  using C = std::complex<float>;
  using D = std::complex<double>;
  EXPECT_EQ(text_of(Array::of<C>({{1, 2}, {-3.5F, 0.25F}, {}}, {3})), "[ 1. +2.j   -3.5+0.25j  0. +0.j  ]");
  EXPECT_EQ(text_of(Array::of<D>({{1e-5, 1}, 1, {1e10, -2}, {NAN, INFINITY}}, {2, 2})),
            "[[1.e-05 +1.j 1.e+00 +0.j]\n [1.e+10 -2.j    nan+infj]]");
  EXPECT_EQ(text_of(Array::of<D>({{1, -INFINITY}, {2, NAN}}, {2})), "[1.-infj 2.+nanj]");
  EXPECT_EQ(text_of(Array::of<C>({{0, 0}, {0, 1.5F}}, {2})), "[0.+0.j  0.+1.5j]");
  EXPECT_EQ(text_of(Array::of<C>({{1, 2}}, {})), "(1+2j)");
  EXPECT_EQ(text_of(Array::of<D>({{0, 2}}, {})), "2j");
  EXPECT_EQ(text_of(Array::of<D>({{0.1, -1e20}}, {})), "(0.1-1e+20j)");
  EXPECT_EQ(text_of(Array::of<D>({{NAN, -INFINITY}}, {})), "(nan-infj)");
  EXPECT_EQ(text_of(Array::of<D>({{1.5, 0}}, {})), "(1.5+0j)");
  EXPECT_EQ(text_of(Array::of<D>({{-NAN, -NAN}}, {})), "(nan+nanj)");
  EXPECT_EQ(text_of(Array::of<float>({-NAN}, {})), "nan");
  EXPECT_EQ(text_of(Array::of<double>({-NAN}, {})), "nan");
  EXPECT_EQ(text_of(Array::of<D>({{0, 0}}, {})), "0j");
}

TEST(ArrayText, LargeAndSmallNumbersHaveExponents) {
  EXPECT_EQ(floats({1e-5f, 1, 1e10f}, {3}), "[1.e-05 1.e+00 1.e+10]");
  EXPECT_EQ(floats({1234.5f, 0.001f}, {2}), "[1.2345e+03 1.0000e-03]");
  EXPECT_EQ(floats({1e-5f, NAN}, {2}), "[1.e-05    nan]");
  EXPECT_EQ(floats({NAN, 1, -INFINITY}, {3}), "[ nan   1. -inf]");
}

TEST(ArrayText, LongArraysAreShortenedAndLongLinesBroken) {
  EXPECT_EQ(floats(steps(1200, 0.5f), {1200}), "[0.000e+00 5.000e-01 1.000e+00 ... 5.985e+02 5.990e+02 5.995e+02]");
  EXPECT_EQ(floats(steps(24, 0.5f), {2, 3, 4}),
            "[[[ 0.   0.5  1.   1.5]\n  [ 2.   2.5  3.   3.5]\n  [ 4.   4.5  5.   5.5]]\n\n"
            " [[ 6.   6.5  7.   7.5]\n  [ 8.   8.5  9.   9.5]\n  [10.  10.5 11.  11.5]]]");
  std::vector<int> many(1200);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int>(i);
  EXPECT_EQ(
      text_of(Array::of<int>(many, {200, 6})),
      "[[   0    1    2    3    4    5]\n [   6    7    8    9   10   11]\n [  12   13   14   15   16   17]\n ...\n"
      " [1182 1183 1184 1185 1186 1187]\n [1188 1189 1190 1191 1192 1193]\n [1194 1195 1196 1197 1198 1199]]");
  EXPECT_EQ(text_of(Array::of<int>({many.begin(), many.begin() + 30}, {30})),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n 24 25 26 27 28 29]");
}

}  // namespace
}  // namespace freight
