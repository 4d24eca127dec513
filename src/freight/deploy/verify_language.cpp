// The claims about a language model, which tells the next token at every place of a window: there is no prediction of
// it to compare with, so what is compared are its probabilities and how it goes on with a text. See verify.h.
#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/philox.h"
#include "freight/deploy/onnx.h"
#include "freight/deploy/onnx_runtime_internal.h"
#include "freight/deploy/verify_internal.h"
#include "freight/io/file.h"
#include "freight/ops/neural.h"
#include "freight/trace/compile.h"
#include "freight/train/generate.h"

namespace freight::deploy {

namespace {

constexpr int64_t kWindows = 4, kPrompt = 8, kContinued = 32;

// Probabilities (N, T, vocabulary) at every place of windows (N, T).
struct LanguageStep {
  const models::Model* model;
  Tensor operator()(const Tensor& tokens) const { return softmax((*model->net)(tokens), -1); }
};

class LanguageVerifier {
 public:
  LanguageVerifier(store::Bundle evaluated, store::Bundle deployed, const VerifyOptions& o)
      : options_(o), evaluated_(std::move(evaluated)), deployed_(std::move(deployed)) {
    evaluated_.model.net->eval();
    deployed_.model.net->eval();
  }

  std::vector<Claim> run() {
    const int64_t length = evaluated_.preprocessing.input[0];
    const auto vocabulary = static_cast<uint32_t>(evaluated_.preprocessing.tokenizer->size());
    windows_ = Array(DType::i32, {std::min(options_.samples, kWindows), length});
    PhiloxStream random(options_.seed, 0, 0);
    for (int64_t i = 0; i < windows_.numel(); ++i) {  // neither padding nor unknown
      windows_.data<int32_t>()[i] = 2 + static_cast<int32_t>(random.below(vocabulary - 2));
    }
    predictions_ = probabilities(deployed_, windows_, options_.backend);
    const std::function<Claim()> all[] = {
        [&] {
          return Claim{.name = "eval",
                       .text = "predict equals eval",
                       .note = "predict does not run language models; freight eval --data measures it"};
        },
        [&] { return batch(); }, [&] { return reference(); }, [&] { return file(); }, [&] { return exported(); }};
    return judged_in_turn(all, options_);
  }

 private:
  static Array probabilities(const store::Bundle& bundle, const Array& windows, const std::string& backend) {
    auto step = compile(LanguageStep{&bundle.model},
                        {.backend = backend == "auto" ? std::string() : backend, .deterministic = true});
    return step(windows).array();
  }
  // The window `i` alone.
  Array window(int64_t i) const {
    Array out(DType::i32, {1, windows_.shape()[1]});
    std::copy_n(windows_.data<int32_t>() + i * out.numel(), out.numel(), out.data<int32_t>());
    return out;
  }
  // The largest difference of `got` from the predictions, beginning with those on window `first`.
  double difference(const Array& got, int64_t first = 0) const {
    const float *a = got.data<float>(),
                *b = predictions_.data<float>() + first * predictions_.numel() / windows_.shape()[0];
    double far = 0;
    for (int64_t i = 0; i < got.numel(); ++i) {
      const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
      if (std::isnan(d)) return INFINITY;
      far = std::max(far, d);
    }
    return far;
  }

  Claim batch() {
    Claim c{.name = "batch", .text = "single windows give the same predictions as one batch"};
    for (int64_t i = 0; i < windows_.shape()[0]; ++i) {
      c.difference = std::max(c.difference, difference(probabilities(evaluated_, window(i), options_.backend), i));
    }
    return judged(c);
  }

  Claim reference() {
    Claim c{.name = "reference",
            .text = "the naive loops of the reference backend give the same results",
            .note = "1 window"};
    c.difference = difference(probabilities(evaluated_, window(0), "ref"));
    return judged(c);
  }

  std::vector<int32_t> continued(store::Bundle& bundle) const {
    const int32_t* first = windows_.data<int32_t>();
    const std::vector<int32_t> tokens(first, first + std::min(kPrompt, windows_.shape()[1]));
    const std::string prompt = bundle.preprocessing.tokenizer->decode(tokens);
    return train::generate(
               bundle, prompt, {.max_tokens = kContinued, .temperature = 0},
               {.backend = options_.backend == "auto" ? std::string() : options_.backend, .deterministic = true})
        .tokens;
  }

  Claim file() {
    Claim c{.name = "file",
            .text = "saved and loaded again, it continues a text by the same tokens, bitwise identical"};
    const io::ScratchDir dir;
    const std::string path = dir.path() + "/model.safetensors";
    store::save_bundle(path, deployed_);
    store::Bundle again = store::load_net(path, "freight verify");
    again.model.net->eval();
    c.difference = difference(probabilities(again, windows_, options_.backend));
    if (continued(again) != continued(deployed_)) c.difference = INFINITY, c.note = "it continues with other tokens";
    return judged(c, 0);
  }

  Claim exported() {
    Claim c{.name = "onnx", .text = "ONNX Runtime gives the same results with the exported file"};
    if (options_.python.empty()) {
      c.note = kNeedsPython;
      return c;
    }
    const io::ScratchDir dir;
    const std::string path = dir.path() + "/model.onnx";
    export_onnx(deployed_, path);
    return through_runtime(c, options_.python, path, dir.path(), {windows_},
                           [&](const std::vector<Array>& results) { return difference(results[0]); });
  }

  VerifyOptions options_;
  store::Bundle evaluated_, deployed_;
  Array windows_;      // (N, T)
  Array predictions_;  // (N, T, vocabulary)
};

}  // namespace

std::vector<Claim> verify_language(store::Bundle evaluated, store::Bundle deployed, const VerifyOptions& options) {
  if (!evaluated.preprocessing.text() || !deployed.preprocessing.text()) {
    fail(ErrorKind::usage, evaluated.model.name, "has no tokenizer: its output is not text");
  }
  return LanguageVerifier(std::move(evaluated), std::move(deployed), options).run();
}

}  // namespace freight::deploy
