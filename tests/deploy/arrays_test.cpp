// Arrays of every type and layout mean one thing in all commands: read as a training set, measured, predicted from .npy
// files and served, or refused with the flag that says what they mean.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "freight/data/arrays.h"
#include "freight/deploy/onnx.h"
#include "freight/deploy/predictor.h"
#include "freight/io/npy.h"
#include "freight/serve/model.h"
#include "freight/train/evaluate.h"
#include "freight/train/trained_on.h"
#include "tests/support/files.h"

namespace freight::deploy {
namespace {
using namespace freight::testing;
using data::Layout;
using data::Values;

constexpr int64_t kCount = 40, kChannels = 3, kRows = 6, kColumns = 5;

// Pixel (c, y, x) of sample n.
int pixel(int64_t n, int64_t c, int64_t y, int64_t x) {
  return static_cast<int>((n * 37 + c * 71 + y * 13 + x * 29 + (n % 2) * 90) % 251);
}

// The samples in a layout, as `type`.
Array samples_in(Layout layout, DType type) {
  const int64_t channels = layout == Layout::nhw ? 1 : kChannels;
  std::vector<double> v;
  for (int64_t n = 0; n < kCount; ++n) {
    if (layout == Layout::nhwc) {
      for (int64_t y = 0; y < kRows; ++y)
        for (int64_t x = 0; x < kColumns; ++x)
          for (int64_t c = 0; c < channels; ++c) v.push_back(pixel(n, c, y, x));
    } else {
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t y = 0; y < kRows; ++y)
          for (int64_t x = 0; x < kColumns; ++x) v.push_back(pixel(n, c, y, x));
    }
  }
  Shape shape{kCount, kChannels, kRows, kColumns};
  if (layout == Layout::nhwc) shape = {kCount, kRows, kColumns, kChannels};
  if (layout == Layout::nhw) shape = {kCount, kRows, kColumns};
  if (layout == Layout::features) shape = {kCount, kChannels * kRows * kColumns};
  return Array::of<double>(v, shape).cast(type);
}

Array labels() {
  std::vector<int64_t> y;
  for (int64_t n = 0; n < kCount; ++n) y.push_back(n % 2);
  return Array::of<int64_t>(y, {kCount});
}

Array row(const Array& a, int64_t i) {
  Shape shape = a.shape();
  shape.erase(0);
  Array out(a.dtype(), shape);
  std::memcpy(out.raw(), static_cast<const char*>(a.raw()) + static_cast<size_t>(i) * out.bytes(), out.bytes());
  return out;
}

// A net that was never trained, for a set that was read.
store::Bundle bundle_for(const data::Dataset& set) {
  seed(7);
  store::Bundle b;
  b.model = models::create("mlp", {.classes = 2, .input = set.sample_shape()});
  b.preprocessing = store::preprocessing_of(set);
  b.classes = {"0", "1"};
  return b;
}

struct Kind {
  DType type;
  Layout layout;
};
class ArrayKinds : public ::testing::TestWithParam<Kind> {};

TEST_P(ArrayKinds, MeanOneThingInAllCommands) {
  const auto [type, layout] = GetParam();
  const TemporaryDir dir;
  const Array x = samples_in(layout, type);
  io::save_npz(dir / "a.npz", {{"x_train", x}, {"y_train", labels()}, {"x_test", x}, {"y_test", labels()}});
  const Shape input = layout == Layout::features ? Shape{kChannels * kRows * kColumns}
                      : layout == Layout::nhw    ? Shape{1, kRows, kColumns}
                                                 : Shape{kChannels, kRows, kColumns};
  const data::TrainTest sets = data::load_array_source(dir / "a.npz", {.asked = {.input = input}});
  ASSERT_EQ(sets.train.sample_shape(), input);
  // Pictures are bytes whatever type they came in, and numbers without rows and columns are as they stand.
  const bool bytes = layout != Layout::features || type == DType::u8;
  EXPECT_EQ(sets.train.images.dtype(), bytes ? DType::u8 : DType::f32);
  EXPECT_EQ(sets.train.meaning.values, bytes ? Values::bytes : Values::plain);
  const data::TrainTest usual = data::sets_of_arrays(
      {{"x", samples_in(layout == Layout::nhwc ? Layout::nchw : layout, bytes ? DType::u8 : DType::f32)},
       {"y", labels()}},
      "u", "u", {.undivided = data::Undivided::whole});
  EXPECT_EQ(sets.train.fingerprint(), usual.train.fingerprint());
  EXPECT_EQ(sets.train.mean, usual.train.mean);

  store::save_bundle(dir / "m.safetensors", bundle_for(sets.train));
  store::Bundle bundle = store::load_bundle(dir / "m.safetensors");
  EXPECT_EQ(bundle.preprocessing.arrays, sets.train.meaning);
  Predictor predictor(store::load_bundle(dir / "m.safetensors"), {.deterministic = true});
  const serve::ServedModel served("m", store::load_bundle(dir / "m.safetensors"), {.deterministic = true}, 8192);

  // predict: the array of each sample, as it lies and in its own type.
  std::vector<Array> samples;
  int right = 0;
  for (int64_t n = 0; n < kCount; ++n) {
    io::save_npy(dir / "s.npy", row(x, n));
    samples.push_back(predictor.sample_of_file(dir / "s.npy"));
    EXPECT_EQ(samples.back().to_vector<float>(), row(sets.train.images, n).to_vector<float>());
    EXPECT_EQ(predictor.range_warning(samples.back()), "");
  }
  const Array predictions = predictor.run(samples);
  for (int64_t n = 0; n < kCount; ++n) {
    const float* p = predictions.data<float>() + 2 * n;
    right += (p[1] > p[0]) == (n % 2 == 1) ? 1 : 0;
  }
  // eval
  const train::Measured measured =
      train::load_to_measure(train::trained_on(bundle, dir / "m.safetensors"), dir / "a.npz",
                             train::trained_on(bundle, dir / "m.safetensors").load, false, train::Division::as_fits);
  data::Dataset set = measured.samples.test;
  train::adapt(set, bundle);
  train::Evaluator evaluator(bundle.model, {}, 8);
  EXPECT_DOUBLE_EQ(*evaluator.run(set).top1, 100.0 * right / kCount);
  // serve
  const Array tensor = sets.train.images;
  serve::InferRequest request;
  request.inputs.push_back({.name = "input",
                            .type = bytes ? serve::DataType::uint8 : serve::DataType::fp32,
                            .shape = tensor.shape(),
                            .values = tensor});
  const std::vector<Array> taken = served.samples(request, "request");
  ASSERT_EQ(taken.size(), samples.size());
  for (size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i].to_vector<float>(), row(tensor, static_cast<int64_t>(i)).to_vector<float>());
  }
  // export
  if (layout != Layout::features) {
    EXPECT_NO_THROW(export_onnx(bundle, dir / "m.onnx", {.preprocessing = true}));
  }
}

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const DType type : {DType::u8, DType::i32, DType::i64, DType::f32, DType::f64}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc, Layout::nhw, Layout::features})
      all.push_back({type, layout});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, ArrayKinds, ::testing::ValuesIn(kinds()), [](const auto& p) {
  return cat(to_string(p.param.type), "_", data::to_string(p.param.layout));
});

// u16 is computed as i32.
TEST(ArrayMeanings, UnsignedIntegersOfTwoBytesAreReadAsBytesWhereTheyAreNoMore) {
  const TemporaryDir dir;
  const auto u16 = [&](int largest) {
    const std::string header = cat("{'descr': '<u2', 'fortran_order': False, 'shape': (", kCount, ", 1, 2, 2), }");
    std::string text = header + std::string(117 - header.size(), ' ') + "\n";
    std::string file = std::string("\x93NUMPY\x01\x00", 8) + le(118, 2) + text;
    for (int64_t i = 0; i < kCount * 4; ++i) file += le(static_cast<uint32_t>(i * 7 % largest), 2);
    io::write_file_atomic(dir / "x_train.npy", std::string_view(file));
    io::save_npy(dir / "y_train.npy", labels());
  };
  u16(200);
  EXPECT_EQ(data::load_array_source(dir.path()).train.images.dtype(), DType::u8);
  u16(1000);
  expect_error(ErrorKind::data, {"x_train", "from 0 to", "--value-range"},
               [&] { data::load_array_source(dir.path()); });
  const data::TrainTest sets = data::load_array_source(dir.path(), {.asked = {.range = data::ValueRange{0, 1000}}});
  EXPECT_EQ(sets.train.images.dtype(), DType::f32);
  EXPECT_EQ(sets.train.meaning.values, Values::scaled);

  // A picture becomes values of that range: white is 1000.
  store::Bundle bundle = bundle_for(sets.train);
  Predictor predictor(std::move(bundle), {.deterministic = true});
  const Array white = Array::of<uint8_t>({255, 255, 0, 255}, {2, 2, 1});
  const io::Bytes png = io::encode_png(white);
  const Array raw = Array::of<int32_t>({1000, 1000, 0, 1000}, {1, 2, 2});
  io::save_npy(dir / "white.npy", raw);
  const Array a = predictor.sample_of_bytes(png, "white.png"), b = predictor.sample_of_file(dir / "white.npy");
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
  io::save_npy(dir / "far.npy", Array::of<int32_t>({60000, 0, 0, 0}, {1, 2, 2}));
  expect_error(ErrorKind::data, {"far.npy", "60000", "0 to 1000"}, [&] { predictor.sample_of_file(dir / "far.npy"); });
}

TEST(ArrayMeanings, PlainNumbersTakeNoPicturesAndSayWhenTheyLieFarOff) {
  Array x(DType::f32, {kCount, 1, 4, 4});
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(std::sin(static_cast<double>(i)) * 2);
  const data::TrainTest sets =
      data::sets_of_arrays({{"x", x}, {"y", labels()}}, "s", "s", {.undivided = data::Undivided::whole});
  EXPECT_EQ(sets.train.meaning.values, Values::plain);
  store::Bundle bundle = bundle_for(sets.train);
  data::Dataset bytes;
  bytes.name = "bytes";
  bytes.images = Array(DType::u8, {kCount, 1, 4, 4});
  std::memset(bytes.images.raw(), 9, bytes.images.bytes());
  bytes.labels = labels();
  bytes.classes = {"0", "1"};
  expect_error(ErrorKind::data, {"bytes", "from 0 to 255", "--value-range"}, [&] { train::adapt(bytes, bundle); });
  Predictor predictor(std::move(bundle), {.deterministic = true});
  const Array grey = Array(DType::u8, {4, 4, 1});
  std::memset(grey.raw(), 100, grey.bytes());
  const io::Bytes png = io::encode_png(grey);
  expect_error(ErrorKind::data, {"a.png", "bytes from 0 to 255", "-1.99"},
               [&] { predictor.sample_of_bytes(png, "a.png"); });
  EXPECT_EQ(predictor.range_warning(row(x, 0)), "");
  Array far = row(x, 0);
  far.data<float>()[3] = 255;
  EXPECT_NE(predictor.range_warning(far).find("255"), std::string::npos);
}

TEST(ArrayMeanings, ShapesThatFitTwoLayoutsAreRefusedUnlessSomethingSaysWhich) {
  const Array x(DType::u8, {kCount, 3, 8, 3});
  std::memset(x.raw(), 1, x.bytes());
  const io::NamedArrays arrays{{"x", x}, {"y", labels()}};
  expect_error(ErrorKind::data, {"s[x_train]", "--layout"}, [&] { data::sets_of_arrays(arrays, "s", "s"); });
  EXPECT_EQ(data::sets_of_arrays(arrays, "s", "s", {.asked = {.layout = Layout::nhwc}}).train.sample_shape(),
            (Shape{3, 3, 8}));
  EXPECT_EQ(data::sets_of_arrays(arrays, "s", "s", {.asked = {.input = {3, 8, 3}}}).train.sample_shape(),
            (Shape{3, 8, 3}));
  for (const Shape& s : {Shape{kCount, 32, 32, 4}, Shape{kCount, 64, 4, 4}, Shape{kCount, 512, 1, 1}}) {
    const Array f(DType::f32, s);
    std::memset(f.raw(), 0, f.bytes());
    expect_error(ErrorKind::data, {"--layout"}, [&] { data::sets_of_arrays({{"x", f}, {"y", labels()}}, "s", "s"); });
  }
}

TEST(ArrayMeanings, RangesAreRead) {
  EXPECT_EQ(data::parse_range("0:4095", "--r"), (data::ValueRange{0, 4095}));
  EXPECT_EQ(data::parse_range("-1:1", "--r"), (data::ValueRange{-1, 1}));
  for (const char* bad : {"", "1", "1:1", "2:1", "a:1", "0:nan", "0:1:2"}) {
    expect_error(ErrorKind::usage, {"--r", "LOW:HIGH"}, [&] { data::parse_range(bad, "--r"); });
  }
}

}  // namespace
}  // namespace freight::deploy
