// Training and evaluation of text share this: tokens as a stored model's preprocessing makes them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "freight/data/tokens.h"
#include "freight/store/bundle.h"

namespace freight::train {

// Documents are cut off at the length of the model's samples, a corpus is not.
std::shared_ptr<const data::TokenSet> encoded(const data::TextPart& part, const store::Preprocessing& preprocessing,
                                              bool corpus);
std::unique_ptr<data::Feed> text_feed(std::shared_ptr<const data::TokenSet> set,
                                      const store::Preprocessing& preprocessing, bool corpus,
                                      const data::TokenFeedOptions& options);

// A feed of a set as a stored model sees it. Throws Error(usage) where the model is none for this kind of text,
// Error(data) for classes that it lacks.
std::unique_ptr<data::Feed> evaluation_feed(const data::TextSet& set, const data::TextPart& part,
                                            const store::Bundle& bundle, int64_t batch_size);

}  // namespace freight::train
