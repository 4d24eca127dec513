// A net behind a Predictor: raw inputs become batches, which go through its compiled forward pass.
#include "freight/base/clock.h"
#include "freight/deploy/predictor_internal.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "freight/base/error.h"
#include "freight/data/augment.h"
#include "freight/data/image_reader.h"
#include "freight/data/text.h"
#include "freight/io/npy.h"
#include "freight/ir/graph.h"
#include "freight/ir/sample_rows.h"
#include "freight/models/loss.h"
#include "freight/store/precision.h"
#include "freight/trace/compile.h"

namespace freight::deploy {

namespace {

// Squares of this and sums of them are far from the end of f32; no measured value is near it.
constexpr float kLargest = 1e15f;
constexpr float kPixelSlack = 1e-3f;  // rounding of whoever scaled them

struct InferenceStep {
  const models::Model* model;
  Tensor operator()(const Tensor& x) const {
    return models::predictions_of(*model, models::tempered(*model, (*model->net)(x)));
  }
};

// The transform of evaluation, fed one sample at a time: a data set of one sample whose memory is overwritten.
class Preparation {
 public:
  Preparation(const store::Preprocessing& p, DType dtype) {
    Shape shape = p.input;
    shape.insert(0, 1);
    set_.name = "predict";
    set_.images = Array(dtype, shape);
    set_.labels = Array(DType::f32, {1});  // not looked at; as values, no class is out of range
    set_.mean = p.mean;
    set_.std = p.std;
    transform_ = std::make_unique<data::Transform>(set_, data::Augment{}, 0, false);
  }
  void apply(const Array& sample, float* dst) {
    std::memcpy(set_.images.raw(), sample.raw(), sample.bytes());
    transform_->apply(0, 0, dst, scratch_);
  }

 private:
  data::Dataset set_;
  std::unique_ptr<data::Transform> transform_;
  data::Transform::Scratch scratch_;
};

CompileOptions compile_options(const PredictorOptions& options) {
  const store::ComputeType compute = store::compute_type(options.precision, options.backend);
  return {.backend = options.backend == "auto" ? std::string() : options.backend,
          .deterministic = options.deterministic,
          .compute = compute.dtype,
          .tf32 = compute.tf32,
          .frozen = true};
}

struct NetState : Predictor::State {
  NetState(store::Bundle b, const PredictorOptions& o)
      : State(std::move(b), o), step(compile(InferenceStep{&bundle.model}, compile_options(o))) {}

  bool probabilities() const override { return !models::regresses(bundle.model.loss); }
  int64_t outputs() const override { return outputs_; }
  double flops() override;
  Array sample_of_bytes(io::ByteView bytes, const std::string& name) const override;
  Array sample_of_values(const Array& values, const std::string& name) const override;
  Array sample_of_text(const std::string& text, const std::string& name) const override;
  std::string range_warning(const Array& sample) const override;
  void check_values(const Array& sample, const std::string& name) const override;
  Array run(const std::vector<Array>& samples, const PredictOptions& how) override;
  void warm(const std::vector<Array>& samples) override;
  void warm(const std::vector<int64_t>& batch_sizes) override;
  bool warm_all(const std::function<bool(int64_t done, int64_t all)>& warmed) override;
  std::string takes() const override {
    return preprocessing().text() ? "it reads texts" : cat("it expects samples ", bundle.model.input);
  }

  const store::Preprocessing& preprocessing() const { return bundle.preprocessing; }

  // The length that a text of `tokens` is padded to.
  int64_t padded(int64_t tokens) const {
    const std::vector<int64_t>& lengths = preprocessing().lengths;
    const auto at = std::lower_bound(lengths.begin(), lengths.end(), tokens);
    if (at == lengths.end()) {
      fail(ErrorKind::data, "predict", "got a text of ", tokens, " tokens, the model accepts at most ",
           preprocessing().input[0]);
    }
    return *at;
  }

  // The step's size for n samples. Copies that fill a batch would change the results of a net that mixes samples.
  int64_t rounded(int64_t n) {
    const int64_t up = std::min(options.batch_size, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))));
    return up == n || apart() ? up : n;
  }

  // keeps_samples_apart() with the mutex held.
  bool apart() {
    if (!apart_) {
      constexpr int64_t kSamples = 2;
      Type type = kinds()[0];
      type.shape.insert(0, kSamples);
      const Graph& g = step.graph(type);
      const auto of_leaf = [&](Value v) { return g.def(v).op == Op::input ? Dependence::rows : Dependence::constant; };
      const ByValue<Dependence> all = dependences_of(g, kSamples, of_leaf);
      apart_ = std::all_of(g.outputs.begin(), g.outputs.end(), [&](Value v) { return all[v] != Dependence::other; });
    }
    return *apart_;
  }
  bool keeps_samples_apart() override {
    const std::lock_guard lock(mutex);
    return apart();
  }

  // The net takes these, without the axis of samples: of texts one type per length that they are padded to.
  std::vector<Type> kinds() const {
    if (!preprocessing().text()) return {{DType::f32, preprocessing().input}};
    std::vector<Type> all;
    for (const int64_t length : preprocessing().lengths) all.push_back({DType::i32, {length}});
    return all;
  }

  // Plans and runs the steps for n samples of one type, unless that was done.
  void warm_step(int64_t n, const Type& type) {
    for (; n > 0; n -= options.batch_size) {
      Shape shape = type.shape;
      shape.insert(0, rounded(std::min(n, options.batch_size)));
      if (!warmed_.insert({shape[0], type.shape.numel()}).second) continue;
      const Array x(type.dtype, shape);
      std::memset(x.raw(), 0, x.bytes());
      // Padding alone is no text; 1 is a token of every vocabulary (an unknown word).
      if (type.dtype == DType::i32) std::fill_n(x.data<int32_t>(), x.numel(), 1);
      step(x).array();
    }
  }

  // Runs the samples at `places`, which have one kind, in batches.
  void run_batch(const std::vector<Array>& samples, const std::vector<size_t>& places, const Type& type,
                 const std::function<void(const Array&, void*)>& prepare, const PredictOptions& how, Array& all) {
    const auto n = static_cast<int64_t>(places.size());
    for (int64_t first = 0; first < n; first += options.batch_size) {
      const int64_t count = std::min(options.batch_size, n - first);
      const int64_t rows = rounded(count);
      const auto start = std::chrono::steady_clock::now();
      Shape shape = type.shape;
      shape.insert(0, rows);
      const Array x(type.dtype, shape);
      const size_t bytes = x.bytes() / static_cast<size_t>(rows);
      for (int64_t i = 0; i < count; ++i) {
        prepare(samples[places[static_cast<size_t>(first + i)]],
                static_cast<char*>(x.raw()) + static_cast<size_t>(i) * bytes);
      }
      for (int64_t i = count; i < rows; ++i) {
        auto* row = static_cast<char*>(x.raw()) + static_cast<size_t>(i) * bytes;
        std::memcpy(row, row - bytes, bytes);
      }
      const Array y = step(x).array();  // (rows, K), or (rows) for a K of 1
      const int64_t k = y.numel() / rows;
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(y.data<float>() + i * k, k,
                    all.data<float>() + static_cast<int64_t>(places[static_cast<size_t>(first + i)]) * k);
      }
      if (how.ran) how.ran(count, seconds_since(start));
    }
  }

  std::mutex mutex;                           // held by run and warm, of whose work all below is
  int64_t outputs_ = bundle.model.classes();  // asked once: it traces the net, as long as a step of a small net
  Compiled<InferenceStep> step;
  std::optional<bool> apart_;                     // asked once, too
  std::map<DType, Preparation> preparations;      // of samples that are no text
  std::set<std::pair<int64_t, int64_t>> warmed_;  // step sizes by elements of a sample
};

double NetState::flops() {
  const std::lock_guard lock(mutex);  // the graph of one sample is traced where no step asked for it yet
  Shape one = preprocessing().input;
  one.insert(0, 1);
  const Graph& g = step.graph(Type{preprocessing().text() ? DType::i32 : DType::f32, one});
  double sum = 0;
  for (const Node& n : g.nodes) sum += cost(g, n).flops;
  return sum;
}

Array NetState::sample_of_bytes(io::ByteView bytes, const std::string& name) const {
  const store::Preprocessing& p = preprocessing();
  if (p.text()) return State::sample_of_bytes(bytes, name);
  const Shape& need = p.input;
  if (io::is_npy(bytes)) {
    const Array values = io::computable(io::parse_npy(bytes, name), name);
    // To a model of photographs an array of another shape than its own is a picture, to be resized and cut as they are.
    // Integers were pictures to early models, too.
    const bool picture = p.arrays.values == data::Values::unstated && !is_floating(values.dtype()) && need.rank() == 3;
    if (!picture && (p.resize == 0 || values.shape() == need)) {
      if (Array sample = sample_of_values(values, name); sample.defined()) return sample;
    }
    if (need.rank() != 3)
      fail(ErrorKind::data, name, "got ", values.shape(), ", the model expects numbers ", need,
           "; a file has one sample");
  }
  if (need.rank() != 3 || (need[0] != 1 && need[0] != 3)) {
    fail(ErrorKind::data, name, "the model expects ", need, ", not images: pass an npy of floats in that shape");
  }
  Array sample = data::picture_sample(data::evaluation_view(bytes, name, p.geometry()), p.arrays, name);
  check_values(sample, name);
  return sample;
}

Array NetState::sample_of_values(const Array& values, const std::string& name) const {
  const store::Preprocessing& p = preprocessing();
  const data::AskedMeaning asked{.layout = data::Layout::automatic, .range = {}, .input = p.input};
  Array sample = data::read_sample(values, p.arrays, asked, name);
  if (sample.defined()) check_values(sample, name);
  return sample;
}

std::string NetState::range_warning(const Array& sample) const {
  return data::range_warning(sample, preprocessing().arrays);
}

Array NetState::sample_of_text(const std::string& text, const std::string& name) const {
  const store::Preprocessing& p = preprocessing();
  if (!p.text()) return State::sample_of_text(text, name);
  // A blank text gets a prediction as well: a file with a text per line must give as many predictions as lines.
  const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
  const std::string fault = blank ? std::string() : data::document_fault(text);
  if (!fault.empty()) fail(ErrorKind::data, name, fault);
  data::TextPart part;
  part.texts = {text};
  part.labels = {0};
  const data::TokenSet set = data::encode(part, *p.tokenizer, p.input[0], p.keep);
  Array out(DType::i32, {static_cast<int64_t>(set.tokens.size())});
  std::copy(set.tokens.begin(), set.tokens.end(), out.data<int32_t>());
  return out;
}

void NetState::check_values(const Array& sample, const std::string& name) const {
  if (sample.dtype() != DType::f32) return;
  const store::Preprocessing& p = preprocessing();
  const bool pixels = p.arrays.values == data::Values::bytes ||
                      (p.arrays.values == data::Values::scaled && p.arrays.range == data::ValueRange{0, 1});
  const auto channels = std::max<size_t>(p.mean.size(), 1);
  const auto plane = static_cast<size_t>(sample.numel()) / channels;
  for (size_t c = 0; c < channels; ++c) {
    const float mean = p.mean.empty() ? 0 : p.mean[c], std = p.mean.empty() ? 1 : p.std[c];
    const float low = pixels ? -kPixelSlack : mean - kLargest * std;
    const float high = pixels ? 1 + kPixelSlack : mean + kLargest * std;
    const float* const v = sample.data<float>() + c * plane;
    const auto sound = [&](float x) { return x >= low && x <= high; };  // NaN is not
    bool all = true;
    for (size_t i = 0; i < plane; ++i) all &= sound(v[i]);  // without a branch: this is on the way of every sample
    if (all) continue;
    const float* const odd = std::find_if_not(v, v + plane, sound);
    const std::string got = cat("got ", *odd, " at element ", odd - sample.data<float>());
    if (!std::isfinite(*odd)) fail(ErrorKind::data, name, got, ", expected finite numbers");
    if (pixels)
      fail(ErrorKind::data, name, got, ": pixels as floats are from 0 to 1, expected bytes (u8) for 0 to 255");
    fail(ErrorKind::data, name, got, ", which is ", (*odd - mean) / std, " after normalization: beyond ", kLargest,
         " values may overflow in the network");
  }
}

Array NetState::run(const std::vector<Array>& samples, const PredictOptions& how) {
  const std::lock_guard lock(mutex);
  Array all(DType::f32, {static_cast<int64_t>(samples.size()), outputs()});
  if (preprocessing().text()) {
    std::map<int64_t, std::vector<size_t>> buckets;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (samples[i].dtype() != DType::i32 || samples[i].shape().rank() != 1) {
        fail(ErrorKind::data, "predict", "got a sample ", Type{samples[i].dtype(), samples[i].shape()},
             ", the model expects tokens i32 (T)");
      }
      buckets[padded(samples[i].numel())].push_back(i);
    }
    for (const auto& [length, places] : buckets) {
      const auto pad = [&, length = length](const Array& tokens, void* dst) {
        auto* row = static_cast<int32_t*>(dst);
        std::fill(std::copy_n(tokens.data<int32_t>(), tokens.numel(), row), row + length, 0);
      };
      run_batch(samples, places, {DType::i32, {length}}, pad, how, all);
    }
    return all;
  }
  std::map<DType, std::vector<size_t>> kinds;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].shape() != preprocessing().input ||
        (samples[i].dtype() != DType::u8 && samples[i].dtype() != DType::f32)) {
      fail(ErrorKind::data, "predict", "got a sample ", Type{samples[i].dtype(), samples[i].shape()},
           ", the model expects ", preprocessing().input, " of u8 or f32");
    }
    if (!how.values_checked) check_values(samples[i], cat("predict: sample ", i));
    kinds[samples[i].dtype()].push_back(i);
  }
  for (const auto& [dtype, places] : kinds) {
    Preparation& preparation = preparations.try_emplace(dtype, preprocessing(), dtype).first->second;
    const auto prepare = [&](const Array& sample, void* dst) { preparation.apply(sample, static_cast<float*>(dst)); };
    run_batch(samples, places, {DType::f32, preprocessing().input}, prepare, how, all);
  }
  return all;
}

void NetState::warm(const std::vector<Array>& samples) {
  const std::lock_guard lock(mutex);
  std::map<int64_t, int64_t> counts;  // of texts by padded length, of others by kind: run() keeps these apart
  const bool text = preprocessing().text();
  for (const Array& a : samples) ++counts[text ? padded(a.numel()) : static_cast<int64_t>(a.dtype())];
  for (const auto& [kind, count] : counts) {
    warm_step(count, text ? Type{DType::i32, {kind}} : Type{DType::f32, preprocessing().input});
  }
}

void NetState::warm(const std::vector<int64_t>& batch_sizes) {
  const std::lock_guard lock(mutex);
  for (const int64_t n : batch_sizes) {
    for (const Type& kind : kinds()) warm_step(n, kind);
  }
}

bool NetState::warm_all(const std::function<bool(int64_t done, int64_t all)>& warmed) {
  const std::lock_guard lock(mutex);
  std::vector<int64_t> sizes{1};
  if (options.batch_size > 1 && !apart()) sizes = {options.batch_size};  // any size may come, or one alone be refused
  while (sizes.back() < options.batch_size) sizes.push_back(rounded(sizes.back() + 1));
  const std::vector<Type> types = kinds();
  int64_t done = 0;
  for (const Type& kind : types) {
    for (const int64_t size : sizes) {
      warm_step(size, kind);
      if (!warmed(++done, static_cast<int64_t>(types.size() * sizes.size()))) return false;
    }
  }
  return true;
}

}  // namespace

std::unique_ptr<Predictor::State> predict_by_net(store::Bundle bundle, const PredictorOptions& options) {
  if (bundle.model.language_model()) {
    fail(ErrorKind::usage, bundle.model.name,
         "is a language model, not a classifier: freight generate continues a text with it");
  }
  if (const Type& input = bundle.model.input; is_integer(input.dtype) && !bundle.preprocessing.text()) {
    fail(ErrorKind::usage, bundle.model.name, "reads ", input, " and has no tokenizer, which makes them of texts; ",
         "freight export writes such a network as ONNX, and programs call it");
  }
  if (const Type result = bundle.model.output_type(1); result.numel() != bundle.model.classes()) {
    fail(ErrorKind::usage, bundle.model.name, "returns ", result,
         " for one sample, expected (N, K): logits of classes, ",
         "or values; freight export writes such a network as ONNX, and programs call it");
  }
  bundle.model.net->eval();
  return std::make_unique<NetState>(std::move(bundle), options);
}

}  // namespace freight::deploy
