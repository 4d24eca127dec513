// Tokenizers convert text to token numbers and back. There are three kinds: words (Unicode normalization, vocabulary by
// frequency), byte-pair encoding (Sennrich et al. 2016, by SentencePiece) and characters. All learn from texts, are
// saved as bytes with a model's weights, and then always return the same numbers. 0 is padding, 1 an unknown token.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/file.h"

namespace freight::data {

inline constexpr int32_t kPadding = 0, kUnknown = 1;  // numbers of padding and of unknown tokens

enum class TokenizerKind { word, bpe, character };  // the three kinds
std::string to_string(TokenizerKind kind);          // "word", "bpe", "char"
// Parses "word", "bpe" or "char"; false for another name.
bool parse_tokenizer_kind(const std::string& name, TokenizerKind& out);

// Settings of learn_tokenizer.
struct TokenizerOptions {
  TokenizerKind kind = TokenizerKind::word;  // words by default
  int64_t limit = 0;  // the maximum number of tokens, with padding and unknown; 0: 30,000 words, 8,000 pairs, all chars
  int64_t min_count = 2;  // for words: rarer ones are unknown
  // For byte pairs in language models: text is not normalized, so that decode(encode(text)) is the text.
  bool exact = false;
};

// Converts text to token numbers and back. Thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  virtual TokenizerKind kind() const = 0;  // which of the three
  virtual int64_t size() const = 0;        // every number is below it
  // Throws Error(data) for text that is not UTF-8. Never returns 0.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // Restores the text exactly from characters and byte pairs if no token was unknown; words are joined by spaces.
  // Padding is skipped, an unknown token becomes U+FFFD. Throws Error(usage) for a number out of range.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  // The bytes, u8 (bytes), that load_tokenizer reads.
  virtual Array stored() const = 0;

 protected:
  Tokenizer() = default;
};

// Throws Error(data) if no token can be learned from the texts, Error(usage) for invalid options.
std::shared_ptr<const Tokenizer> learn_tokenizer(const std::vector<std::string>& texts,
                                                 const TokenizerOptions& options);
// Throws Error(checkpoint) that names `source` for bytes that are damaged.
std::shared_ptr<const Tokenizer> load_tokenizer(TokenizerKind kind, io::ByteView bytes, const std::string& source);

// Splits a text into the words of the word tokenizer: runs of letters and digits (with apostrophes between letters, and
// points or commas between digits), and every other character that is not a space.
std::vector<std::string> words(std::string_view text);

}  // namespace freight::data
