// See byte_pairs_internal.h. The stored form is SentencePiece's own model, which its other bindings read too.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstring>

#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/data/byte_pairs_internal.h"
#include "freight/data/unicode.h"

namespace freight::data {

namespace {

namespace sp = sentencepiece;

constexpr int kQuiet = 3;                         // log level of SentencePiece: errors come back as a status anyway
constexpr size_t kLearnBytes = size_t{20} << 20;  // pairs are counted on so much text, spread over all of it
constexpr const char* kReplacement = "\xef\xbf\xbd";

// SentencePiece keeps tabs and U+2581 (its sign for a space) to itself. Where nothing is normalized a tab is learnt
// under this character for private use.
constexpr std::string_view kTab = "\xee\x80\x89", kSpace = "\xe2\x96\x81";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Gives the trainer the texts. SentencePiece takes a sentence at a time; line ends stay at their lines.
class Sentences : public sp::SentenceIterator {
 public:
  Sentences(const std::vector<std::string>& texts, bool exact) : texts_(&texts), exact_(exact) {
    size_t total = 0;
    for (const std::string& t : texts) total += t.size();
    stride_ = total / kLearnBytes + 1;
    advance();
  }
  bool done() const override { return text_ >= texts_->size(); }
  void Next() override { advance(); }
  const std::string& value() const override { return value_; }
  sp::util::Status status() const override { return {}; }

 private:
  void advance() {
    while (text_ < texts_->size()) {
      const std::string& t = (*texts_)[text_];
      if (at_ >= t.size()) {
        text_ += exact_ ? 1 : stride_;
        at_ = 0;
        continue;
      }
      const size_t end = std::min(t.find('\n', at_), t.size() - 1) + 1;
      value_ = t.substr(at_, end - at_);
      if (exact_) value_ = replaced(std::move(value_), "\t", kTab);
      if (!exact_ && value_.back() == '\n') value_.pop_back();
      at_ = end;
      if (exact_ && line_++ % stride_ != 0) continue;
      if (!value_.empty()) return;
    }
  }
  const std::vector<std::string>* texts_;
  bool exact_;
  size_t stride_ = 1, text_ = 0, at_ = 0, line_ = 0;
  std::string value_;
};

class BytePairs : public Tokenizer {
 public:
  explicit BytePairs(std::string model) : model_(std::move(model)) {}

  // Empty where the model is sound.
  std::string load() {
    const sp::util::Status status = processor_.LoadFromSerializedProto(model_);
    if (!status.ok()) return status.ToString();
    if (processor_.pad_id() != kPadding || processor_.unk_id() != kUnknown || processor_.GetPieceSize() < 3) {
      return cat("padding is token ", processor_.pad_id(), " and unknown ", processor_.unk_id(), ", expected 0 and 1");
    }
    tabs_ = processor_.PieceToId(kTab) != kUnknown;
    return "";
  }

  TokenizerKind kind() const override { return TokenizerKind::bpe; }
  int64_t size() const override { return processor_.GetPieceSize(); }

  std::vector<int32_t> encode(std::string_view text) const override {
    if (const auto at = utf8_fault(text)) fail(ErrorKind::data, "text", "not UTF-8: byte ", *at);
    std::vector<int32_t> out;
    std::vector<int> part;
    for (size_t at = 0; at < text.size();) {  // by lines, as it was learnt
      const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      std::string line(text.substr(at, end - at));
      if (tabs_) line = replaced(std::move(line), "\t", kTab);
      const sp::util::Status status = processor_.Encode(line, &part);
      if (!status.ok()) fail(ErrorKind::data, "text", "cannot be encoded: ", status.ToString());
      out.insert(out.end(), part.begin(), part.end());
      at = end;
    }
    return out;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    // Piece by piece where nothing was normalized; SentencePiece itself would drop a space at the beginning.
    std::string out;
    for (const int32_t t : tokens) {
      need_between("decode", "token", t, 0, static_cast<double>(size() - 1));
      if (t == kPadding) continue;
      out += t == kUnknown ? std::string(kReplacement) : processor_.IdToPiece(t);
    }
    return replaced(replaced(std::move(out), kSpace, " "), kTab, "\t");
  }

  Array stored() const override {
    Array a(DType::u8, {static_cast<int64_t>(model_.size())});
    std::memcpy(a.raw(), model_.data(), model_.size());
    return a;
  }

 private:
  std::string model_;
  sp::SentencePieceProcessor processor_;
  bool tabs_ = false;  // whether tabs were learnt
};

}  // namespace

std::shared_ptr<const Tokenizer> learn_byte_pairs(const std::vector<std::string>& texts,
                                                  const TokenizerOptions& options) {
  Sentences sentences(texts, options.exact);
  std::string model;
  const sp::util::Status status =
      sp::SentencePieceTrainer::Train({{"model_type", "bpe"},
                                       {"vocab_size", std::to_string(options.limit)},
                                       {"pad_id", "0"},
                                       {"unk_id", "1"},
                                       {"bos_id", "-1"},
                                       {"eos_id", "-1"},
                                       {"character_coverage", options.exact ? "1.0" : "0.9999"},
                                       {"num_threads", "1"},
                                       {"max_sentence_length", "1000000"},
                                       {"hard_vocab_limit", "false"},
                                       {"normalization_rule_name", options.exact ? "identity" : "nmt_nfkc_cf"},
                                       {"add_dummy_prefix", options.exact ? "false" : "true"},
                                       {"remove_extra_whitespaces", options.exact ? "false" : "true"},
                                       {"minloglevel", std::to_string(kQuiet)}},
                                      &sentences, &model);
  if (!status.ok()) fail(ErrorKind::data, "tokenizer", "byte pairs cannot be learned: ", status.ToString());
  auto made = std::make_shared<BytePairs>(std::move(model));
  const std::string fault = made->load();
  FREIGHT_CHECK(fault.empty(), fault);
  return made;
}

std::shared_ptr<const Tokenizer> load_byte_pairs(io::ByteView bytes, const std::string& source) {
  auto made = std::make_shared<BytePairs>(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const std::string fault = made->load();
  if (!fault.empty()) fail(ErrorKind::checkpoint, source, "the byte-pair model is damaged: ", fault);
  return made;
}

}  // namespace freight::data
