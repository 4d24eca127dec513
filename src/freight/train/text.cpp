// See text.h.
#include "freight/train/text.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/data/class_names.h"

namespace freight::train {

std::shared_ptr<const data::TokenSet> encoded(const data::TextPart& part, const store::Preprocessing& preprocessing,
                                              bool corpus) {
  return std::make_shared<data::TokenSet>(
      data::encode(part, *preprocessing.tokenizer, corpus ? 0 : preprocessing.input[0], preprocessing.keep));
}

std::unique_ptr<data::Feed> text_feed(std::shared_ptr<const data::TokenSet> set,
                                      const store::Preprocessing& preprocessing, bool corpus,
                                      const data::TokenFeedOptions& options) {
  if (corpus) return data::window_feed(std::move(set), preprocessing.input[0], options);
  return data::document_feed(std::move(set), preprocessing.lengths, options);
}

std::unique_ptr<data::Feed> evaluation_feed(const data::TextSet& set, const data::TextPart& part,
                                            const store::Bundle& bundle, int64_t batch_size) {
  if (!bundle.preprocessing.text()) {
    fail(ErrorKind::usage, bundle.model.name, "does not read text: it expects samples ", bundle.model.input);
  }
  const bool corpus = set.corpus();
  if (corpus != bundle.model.language_model()) {
    fail(ErrorKind::usage, "data", "model ", bundle.model.name, " does not fit dataset ", set.name, ": it predicts ",
         corpus ? "classes, the data is a corpus" : "tokens, the data has classes");
  }
  const auto tokens = std::make_shared<data::TokenSet>(*encoded(part, bundle.preprocessing, corpus));
  if (tokens->targets.defined() && tokens->targets.shape()[1] != bundle.model.classes()) {
    fail(ErrorKind::usage, "data", "model ", bundle.model.name, " does not fit dataset ", set.name, ": it predicts ",
         bundle.model.classes(), " values, the data has ", tokens->targets.shape()[1]);
  }
  for (int64_t& label : tokens->labels) {
    const std::string& name = set.classes[static_cast<size_t>(label)];
    const auto it = std::find(bundle.classes.begin(), bundle.classes.end(), name);
    if (it == bundle.classes.end()) {
      fail(ErrorKind::data, set.name, "has class ", name, ", the model has ", join(bundle.classes, ", "),
           data::class_hint(name, bundle.classes));
    }
    label = it - bundle.classes.begin();
  }
  return text_feed(tokens, bundle.preprocessing, corpus, {.batch_size = batch_size});
}

}  // namespace freight::train
