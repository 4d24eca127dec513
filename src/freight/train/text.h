// Tokens by a saved model's preprocessing, for training and evaluation on text.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/data/tokens.h"
#include "freight/store/bundle.h"

namespace freight::train {

// Documents are cut to the length of the model's samples; a corpus is not.
std::shared_ptr<const data::TokenSet> encoded(const data::TextPart& part, const store::Preprocessing& preprocessing,
                                              bool corpus);
std::unique_ptr<data::Feed> text_feed(std::shared_ptr<const data::TokenSet> set,
                                      const store::Preprocessing& preprocessing, bool corpus,
                                      const data::TokenFeedOptions& options);

// A feed of a dataset for a saved model. Throws Error(usage) if the model is not for this kind of text, and Error(data)
// for classes that it lacks.
std::unique_ptr<data::Feed> evaluation_feed(const data::TextSet& set, const data::TextPart& part,
                                            const store::Bundle& bundle, int64_t batch_size);

}  // namespace freight::train
