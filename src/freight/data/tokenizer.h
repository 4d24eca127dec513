// Tokenizers: text to token numbers and back. Three kinds: words (normalized by Unicode, a vocabulary by frequency),
// byte-pair encoding (Sennrich et al. 2016; SentencePiece does it) and characters. All learn from texts, are stored as
// bytes beside a model's weights, and give the same numbers ever after. Number 0 is padding, 1 an unknown token.
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

enum class TokenizerKind { word, bpe, character };  // kinds
std::string to_string(TokenizerKind kind);          // "word", "bpe", "char"
// "word", "bpe", "char". False for another name.
bool parse_tokenizer_kind(const std::string& name, TokenizerKind& out);

// Settings of learn_tokenizer.
struct TokenizerOptions {
  TokenizerKind kind = TokenizerKind::word;  // words by default
  int64_t limit = 0;  // tokens at most, padding and unknown among them; 0: 30,000 words, 8,000 pairs, all characters
  int64_t min_count = 2;  // of words: rarer ones are unknown
  // For byte pairs: nothing is normalized, so that decode(encode(text)) is the text; for language models.
  bool exact = false;
};

// Text to token numbers and back; any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  virtual TokenizerKind kind() const = 0;  // which of the three
  virtual int64_t size() const = 0;        // every number is below it
  // Throws Error(data) for text that is not UTF-8. Never gives 0.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // The text of characters and byte pairs as it was, where all of it was known; words are joined by spaces. Padding
  // gives nothing, an unknown token U+FFFD. Throws Error(usage) for a number out of range.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  // u8 (bytes): what load_tokenizer reads.
  virtual Array stored() const = 0;

 protected:
  Tokenizer() = default;
};

// Throws Error(data) where the texts have nothing to learn from, Error(usage) for options that cannot work.
std::shared_ptr<const Tokenizer> learn_tokenizer(const std::vector<std::string>& texts,
                                                 const TokenizerOptions& options);
// Throws Error(checkpoint) that names `source` for bytes that are damaged.
std::shared_ptr<const Tokenizer> load_tokenizer(TokenizerKind kind, io::ByteView bytes, const std::string& source);

// The words of a text as the word tokenizer sees them: runs of letters and digits (an apostrophe between letters and a
// point or comma between digits belong to them), every other character that is no space alone.
std::vector<std::string> words(std::string_view text);

}  // namespace freight::data
