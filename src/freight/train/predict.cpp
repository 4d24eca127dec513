// See predict.h.
#include "freight/train/predict.h"

#include <algorithm>
#include <cstring>

#include "freight/base/error.h"
#include "freight/data/loader.h"
#include "freight/data/picture_reader.h"
#include "freight/io/npy.h"
#include "freight/ops/ops.h"

namespace freight::train {

namespace {

// Samples of one element type, and where they stand among all.
struct Group {
  std::vector<size_t> places;
  data::Dataset set;
};

Group group_of(const Bundle& bundle, const std::vector<Array>& samples, DType dtype) {
  Group g;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].dtype() == dtype) g.places.push_back(i);
  }
  const auto n = static_cast<int64_t>(g.places.size());
  Shape shape = bundle.preprocessing.input;
  shape.insert(0, n);
  g.set.name = "predict";
  g.set.images = Array(dtype, shape);
  g.set.labels = Array(DType::f32, {n});  // not looked at; as values, no class is out of range
  g.set.mean = bundle.preprocessing.mean;
  g.set.std = bundle.preprocessing.std;
  auto* dst = static_cast<uint8_t*>(g.set.images.raw());
  for (const size_t at : g.places) {
    if (samples[at].shape() != bundle.preprocessing.input) {
      fail(ErrorKind::data, "predict", "got a sample ", samples[at].shape(), ", the model takes ",
           bundle.preprocessing.input);
    }
    std::memcpy(dst, samples[at].raw(), samples[at].bytes());
    dst += samples[at].bytes();
  }
  return g;
}

struct Step {
  const models::Model* model;
  Tensor operator()(const Tensor& x) const {
    const Tensor outputs = (*model->net)(x);
    return model->loss == models::Loss::mse ? outputs : softmax(outputs, -1);
  }
};

}  // namespace

Array load_sample(const std::string& path, const Preprocessing& preprocessing) {
  const Shape& need = preprocessing.input;
  if (ends_with(path, ".npy")) {
    const Array values = io::load_npy(path);
    if (is_floating(values.dtype()) && values.shape() == need) return values.cast(DType::f32);
    if (need.rank() != 3) fail(ErrorKind::data, path, "got ", values.shape(), ", the model takes floats ", need);
  }
  if (need.rank() != 3 || (need[0] != 1 && need[0] != 3)) {
    fail(ErrorKind::data, path, "the model takes ", need, ", no pictures: give it an npy of floats in that shape");
  }
  return data::load_view(path, preprocessing.geometry());
}

Array predict(Bundle& bundle, const std::vector<Array>& samples, const CompileOptions& options, int64_t batch_size) {
  const int64_t classes = bundle.model.classes();
  Array all(DType::f32, {static_cast<int64_t>(samples.size()), classes});
  const bool was_training = bundle.model.net->training();
  bundle.model.net->eval();
  auto step = compile(Step{&bundle.model}, options);
  for (const DType dtype : {DType::u8, DType::f32}) {
    const Group g = group_of(bundle, samples, dtype);
    if (g.places.empty()) continue;
    data::Loader loader(g.set, {.batch_size = std::min<int64_t>(batch_size, g.set.count())});
    for (data::Batch& b : loader.epoch(0)) {
      const Array p = step(b.images).array();
      for (int64_t i = 0; i < b.count; ++i) {
        const auto at = static_cast<int64_t>(g.places[static_cast<size_t>(b.first + i)]);
        std::copy_n(p.data<float>() + i * classes, classes, all.data<float>() + at * classes);
      }
    }
  }
  if (was_training) bundle.model.net->train();
  return all;
}

std::string class_name(const Bundle& bundle, int64_t number) {
  const auto i = static_cast<size_t>(number);
  return i < bundle.classes.size() ? bundle.classes[i] : std::to_string(number);
}

}  // namespace freight::train
