// See onnx.h. The net is traced in evaluation mode for two batch sizes (and all lengths of text); what differs between
// the traces becomes a formula of N and T (onnx_extents), and the graph ONNX nodes (onnx_graph).
#include "freight/deploy/onnx.h"

#include "freight/base/error.h"
#include "freight/base/version.h"
#include "freight/deploy/onnx_graph_internal.h"
#include "freight/deploy/onnx_rows_internal.h"
#include "freight/models/loss.h"
#include "freight/nn/evaluating.h"
#include "freight/nn/graph_module.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/neural.h"
#include "freight/trace/scope.h"
#include "freight/trace/tracer.h"

namespace freight::deploy {

namespace {

// Batches that are traced: primes, so that an extent of the net is unlikely to equal one.
constexpr int64_t kBatches[] = {1009, 1013};

struct Traced {
  onnx::Probe probe;
  std::shared_ptr<trace::Trace> tape;
};

class Exporter {
 public:
  // all_results: of a graph; of other nets the first one is written.
  Exporter(const store::Bundle& bundle, const OnnxOptions& options, bool all_results)
      : bundle_(bundle), options_(options), all_results_(all_results) {
    const Shape& s = bundle.model.input.shape;
    if (options.preprocessing && (s.rank() != 3 || bundle.model.reads_tokens())) {
      fail(ErrorKind::usage, "export", "preprocessing is for images (C, H, W): model ", bundle.model.name, " takes ",
           bundle.model.input);
    }
    if (options.preprocessing) data::picture_sample(Array(DType::u8, {1}), bundle.preprocessing.arrays, "export");
  }

  std::string input_name() const {
    return bundle_.model.reads_tokens() ? "tokens" : options_.preprocessing ? "pixels" : "input";
  }
  bool probabilities() const { return options_.softmax && !models::regresses(bundle_.model.loss); }
  std::string output_name() const {
    return models::regresses(bundle_.model.loss) ? "values" : probabilities() ? "probabilities" : "logits";
  }

  // `length` of text, 0 of all else.
  Traced trace(int64_t batch, int64_t length) const {
    Type type = bundle_.model.batch_type(batch);
    if (length > 0) type.shape[1] = length;
    if (options_.preprocessing) type.dtype = DType::u8;
    auto tape = std::make_shared<trace::Trace>(trace::Trace::Mode::compile);
    {
      const Frame frame("");  // nodes record the file's own places
      const trace::Recording recording(tape);
      Tensor x = tape->input(input_name(), type);
      if (options_.preprocessing) x = normalized(x);
      std::vector<Tensor> found =
          all_results_ ? bundle_.model.net->call({x}) : std::vector<Tensor>{(*bundle_.model.net)(x)};
      Tensor& y = found[0];
      y = models::tempered(bundle_.model, y);
      if (probabilities() || models::regresses(bundle_.model.loss)) y = models::predictions_of(bundle_.model, y);
      std::vector<Value> results;
      for (const Tensor& t : found) results.push_back(tape->value_of(t));
      tape->finish(results);
    }
    return {{batch, length, onnx::prepared(tape->graph())}, tape};
  }

  // All batches, and all lengths of text where the net's operations are the same for each.
  onnx::Family family(std::vector<std::string>& notes) const {
    std::vector<int64_t> lengths{0};
    if (bundle_.model.reads_tokens()) lengths = {bundle_.model.input.shape[0]};
    for (size_t i = bundle_.preprocessing.lengths.size(); i-- > 0;) {
      if (bundle_.preprocessing.lengths[i] != lengths[0]) lengths.push_back(bundle_.preprocessing.lengths[i]);
    }
    std::string why;
    if (lengths.size() > 1) {
      std::vector<onnx::Probe> probes;
      for (size_t i = 0; i < lengths.size(); ++i) {
        probes.push_back(trace(kBatches[0], lengths[i]).probe);
        if (i < 2) probes.push_back(trace(kBatches[1], lengths[i]).probe);
      }
      if (auto all = onnx::Family::of(std::move(probes), why)) return std::move(*all);
      notes.push_back(cat("texts are padded to ", lengths[0], " tokens: ", why));
    }
    std::vector<onnx::Probe> probes;
    for (const int64_t batch : kBatches) probes.push_back(trace(batch, lengths[0]).probe);
    if (auto one = onnx::Family::of(std::move(probes), why)) return std::move(*one);
    fail(ErrorKind::usage, "export", "model ", bundle_.model.name, " has no graph for all batch sizes: ", why);
  }

 private:
  // pixels (N, C, H, W) -> (low + pixel / 255 (high - low) - mean) / std; the range is 0 to 1 but of scaled arrays;
  // with the factors that data::Transform multiplies with.
  Tensor normalized(const Tensor& pixels) const {
    const store::Preprocessing& p = bundle_.preprocessing;
    const int64_t channels = p.input[0];
    const data::ValueRange range = p.arrays.values == data::Values::scaled ? p.arrays.range : data::ValueRange{0, 1};
    std::vector<float> scale, shift;
    for (int64_t c = 0; c < channels; ++c) {
      const bool given = !p.mean.empty();
      const auto i = static_cast<size_t>(c);
      const double mean = given ? static_cast<double>(p.mean[i]) : 0.0;
      const double deviation = given ? static_cast<double>(p.std[i]) : 1.0;
      scale.push_back(static_cast<float>((range.high - range.low) / (255.0 * deviation)));
      shift.push_back(static_cast<float>((range.low - mean) / deviation));
    }
    const Shape per_channel{1, channels, 1, 1};
    return cast(pixels, DType::f32) * Array::of<float>(scale, per_channel) + Array::of<float>(shift, per_channel);
  }

  const store::Bundle& bundle_;
  const OnnxOptions& options_;
  bool all_results_;
};

std::string described(const onnx::ValueInfo& v) {
  std::vector<std::string> axes;
  for (const onnx::Extent& e : v.shape) axes.push_back(e.name.empty() ? std::to_string(e.value) : e.name);
  return cat(v.name, " ", to_string(v.dtype), " (", join(axes, ", "), ")");
}

OnnxSummary summary_of(const onnx::Model& model) {
  OnnxSummary summary;
  summary.input = described(model.inputs[0]);
  for (const onnx::ValueInfo& v : model.outputs) summary.output += (summary.output.empty() ? "" : ", ") + described(v);
  summary.nodes = static_cast<int64_t>(model.nodes.size());
  for (const onnx::Initializer& t : model.initializers) summary.weight_bytes += static_cast<int64_t>(t.array.bytes());
  return summary;
}

OnnxSummary export_rows(const store::Bundle& bundle, const std::string& path, const OnnxOptions& options) {
  if (options.preprocessing) {
    fail(ErrorKind::usage, "export", "preprocessing is for images: ", bundle.learner, " expects rows of columns");
  }
  if (!options.softmax && bundle.rows->predicts_classes()) {
    fail(ErrorKind::usage, "export", "logits exist for networks only: the file of ", bundle.learner,
         " returns probabilities");
  }
  onnx::Model model;
  model.name = bundle.learner;
  model.producer_version = version();
  std::vector<std::string> notes = onnx::write_rows(bundle, model);
  for (const auto& [key, value] : store::to_file(bundle).metadata) model.metadata.emplace(key, value);
  onnx::save(path, model);
  OnnxSummary summary = summary_of(model);
  summary.notes = std::move(notes);
  return summary;
}

OnnxSummary export_net(const store::Bundle& bundle, const std::string& path, const OnnxOptions& options,
                       bool all_results) {
  const Exporter exporter(bundle, options, all_results);
  std::vector<std::string> notes;
  const onnx::Family family = exporter.family(notes);

  // The leaves of all traces are the same; those of one more hand out the elements.
  const int64_t length = bundle.model.reads_tokens() ? bundle.model.input.shape[0] : 0;
  const Traced leaves = exporter.trace(kBatches[0], length);
  std::vector<Array> states;
  for (const auto& v : leaves.tape->variables()) {
    states.emplace_back(v->type.dtype, v->type.shape, v->materialize());
  }
  onnx::Model model;
  model.name = bundle.model.name;
  model.producer_version = version();
  onnx::write_graph(family, leaves.tape->captured(), states, exporter.output_name(), model);
  model.metadata = store::to_file(bundle).metadata;
  onnx::save(path, model);
  OnnxSummary summary = summary_of(model);
  summary.notes = std::move(notes);
  summary.any_length = bundle.model.reads_tokens() && !model.inputs[0].shape[1].name.empty();
  return summary;
}

}  // namespace

OnnxSummary export_onnx(const store::Bundle& bundle, const std::string& path, const OnnxOptions& options) {
  if (!bundle.net()) return export_rows(bundle, path, options);
  size_t bytes = 0;
  for (const nn::NamedVariable& v : bundle.model.net->state_dict()) bytes += v.variable.type().bytes();
  if (bytes > onnx::kMaxBytes) {
    fail(ErrorKind::capacity, "export", "the weights of ", bundle.model.name, " have ", bytes,
         " bytes, an ONNX file is limited to ", onnx::kMaxBytes);
  }
  const nn::Evaluating evaluating(*bundle.model.net);
  const auto* graph = dynamic_cast<const nn::GraphModule*>(bundle.model.net.get());
  const size_t results = graph ? graph->graph(1)->outputs.size() : 1;
  if (results == 1) return export_net(bundle, path, options, false);
  try {
    return export_net(bundle, path, options, true);
  } catch (const Error& e) {
    OnnxSummary summary = export_net(bundle, path, options, false);
    summary.notes.push_back(cat("the first of ", results, " results is written: ", e.what()));
    return summary;
  }
}

}  // namespace freight::deploy
