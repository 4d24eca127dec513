// See text.h.
#include "freight/train/text.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/ops/neural.h"

namespace freight::train {

namespace {

struct Step {
  const models::Model* model;
  Tensor operator()(const Tensor& x) const { return softmax((*model->net)(x), -1); }
};

void need_text(const Bundle& bundle) {
  if (!bundle.preprocessing.text()) {
    fail(ErrorKind::usage, bundle.model.name, "does not read text: it takes samples ", bundle.model.input);
  }
}

}  // namespace

std::shared_ptr<const data::TokenSet> encoded(const data::TextPart& part, const Preprocessing& preprocessing,
                                              bool corpus) {
  return std::make_shared<data::TokenSet>(
      data::encode(part, *preprocessing.tokenizer, corpus ? 0 : preprocessing.input[0], preprocessing.keep));
}

std::unique_ptr<data::Feed> text_feed(std::shared_ptr<const data::TokenSet> set, const Preprocessing& preprocessing,
                                      bool corpus, const data::TokenFeedOptions& options) {
  if (corpus) return data::window_feed(std::move(set), preprocessing.input[0], options);
  return data::document_feed(std::move(set), preprocessing.lengths, options);
}

std::unique_ptr<data::Feed> evaluation_feed(const data::TextSet& set, const data::TextPart& part, const Bundle& bundle,
                                            int64_t batch_size) {
  need_text(bundle);
  const bool corpus = set.corpus();
  if (corpus != bundle.model.language_model()) {
    fail(ErrorKind::usage, "data", "model ", bundle.model.name, " does not fit data set ", set.name, ": it tells ",
         corpus ? "classes, the data is a corpus" : "tokens, the data has classes");
  }
  const auto tokens = std::make_shared<data::TokenSet>(*encoded(part, bundle.preprocessing, corpus));
  for (int64_t& label : tokens->labels) {
    const std::string& name = set.classes[static_cast<size_t>(label)];
    const auto it = std::find(bundle.classes.begin(), bundle.classes.end(), name);
    if (it == bundle.classes.end()) {
      fail(ErrorKind::data, set.name, "has class ", name, ", the model has ", join(bundle.classes, ", "));
    }
    label = it - bundle.classes.begin();
  }
  return text_feed(tokens, bundle.preprocessing, corpus, {.batch_size = batch_size});
}

Array predict_texts(Bundle& bundle, const std::vector<std::string>& texts, const CompileOptions& options,
                    int64_t batch_size) {
  need_text(bundle);
  if (bundle.model.language_model()) {
    fail(ErrorKind::usage, bundle.model.name, "tells tokens, no classes: freight generate continues a text with it");
  }
  data::TextPart part;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string fault = data::document_fault(texts[i]);
    if (!fault.empty()) fail(ErrorKind::data, cat("text ", i + 1), fault);
    part.labels.push_back(static_cast<int64_t>(i));  // carried through the feed: which document a row belongs to
  }
  part.texts = texts;
  const int64_t classes = bundle.model.classes();
  Array all(DType::f32, {part.count(), classes});
  if (texts.empty()) return all;
  const bool was_training = bundle.model.net->training();
  bundle.model.net->eval();
  auto step = compile(Step{&bundle.model}, options);
  const auto feed =
      text_feed(encoded(part, bundle.preprocessing, false), bundle.preprocessing, false, {.batch_size = batch_size});
  feed->start(0);
  while (const data::FeedBatch* b = feed->next()) {
    const Array p = step(b->inputs).array();
    for (int64_t i = 0; i < b->count; ++i) {
      std::copy_n(p.data<float>() + i * classes, classes, all.data<float>() + b->targets.data<int64_t>()[i] * classes);
    }
  }
  if (was_training) bundle.model.net->train();
  return all;
}

}  // namespace freight::train
