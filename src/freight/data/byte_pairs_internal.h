// Byte-pair encoding behind the interface of tokenizer.h; the only user of SentencePiece is byte_pairs.cpp.
#pragma once
#include "freight/data/tokenizer.h"

namespace freight::data {

// Requires options.limit. Deterministic: one thread, no random sampling.
std::shared_ptr<const Tokenizer> learn_byte_pairs(const std::vector<std::string>& texts,
                                                  const TokenizerOptions& options);
std::shared_ptr<const Tokenizer> load_byte_pairs(io::ByteView bytes, const std::string& source);

}  // namespace freight::data
