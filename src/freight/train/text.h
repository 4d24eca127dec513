// What training, evaluation and prediction of text share: tokens as a stored model's preprocessing makes them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/data/tokens.h"
#include "freight/trace/compile.h"
#include "freight/train/bundle.h"

namespace freight::train {

// Documents are cut off at the length of the model's samples, a corpus is not.
std::shared_ptr<const data::TokenSet> encoded(const data::TextPart& part, const Preprocessing& preprocessing,
                                              bool corpus);
std::unique_ptr<data::Feed> text_feed(std::shared_ptr<const data::TokenSet> set, const Preprocessing& preprocessing,
                                      bool corpus, const data::TokenFeedOptions& options);

// A feed of a set as a stored model sees it. Throws Error(usage) where the model is none for this kind of text,
// Error(data) for classes that it lacks.
std::unique_ptr<data::Feed> evaluation_feed(const data::TextSet& set, const data::TextPart& part, const Bundle& bundle,
                                            int64_t batch_size);

// Probabilities f32 (N, classes) of documents, in their order. Throws Error(usage) for a model that does not tell
// classes of texts, Error(data) that names the document's number for one that cannot be one.
Array predict_texts(Bundle& bundle, const std::vector<std::string>& texts, const CompileOptions& options = {},
                    int64_t batch_size = 64);

}  // namespace freight::train
