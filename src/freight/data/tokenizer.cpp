// The word and the character tokenizer; their stored form is a JSON list of tokens from number 2 on. Byte pairs:
// byte_pairs.cpp. See tokenizer.h.
#include "freight/data/tokenizer.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/data/byte_pairs_internal.h"
#include "freight/data/unicode.h"
#include "freight/io/json_library.h"

namespace freight::data {

namespace {

constexpr int64_t kWordLimit = 30'000, kPairLimit = 8'000;
constexpr int64_t kMostTokens = 1 << 24;  // beyond is damage
constexpr const char* kReplacement = "\xef\xbf\xbd";

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

// fold() with its result for ASCII computed directly, and one apostrophe.
std::string normalized(std::string_view text) {
  std::string out;
  if (is_ascii(text)) {
    out = lower(text);
    return out;
  }
  out = fold(text);
  constexpr std::string_view kApostrophe = "\xe2\x80\x99";
  for (size_t at = out.find(kApostrophe); at != std::string::npos; at = out.find(kApostrophe, at)) {
    out.replace(at, kApostrophe.size(), "'");
  }
  return out;
}

// Calls f(word) for the words of a normalized text.
template <class F>
void for_words(std::string_view text, F&& f) {
  size_t begin = 0, at = 0;             // of the run that is open, and where we stand
  CharClass before = CharClass::space;  // of the run's last character; space: no run is open
  const auto inside = [](CharClass c) { return c == CharClass::letter || c == CharClass::digit; };
  while (at < text.size()) {
    const size_t here = at;
    const int32_t c = next_code_point(text, at);
    CharClass kind = char_class(c);
    if (inside(before) && at < text.size() && (c == '\'' || c == '.' || c == ',')) {
      size_t ahead = at;
      const CharClass after = char_class(next_code_point(text, ahead));
      const CharClass need = c == '\'' ? CharClass::letter : CharClass::digit;
      if (before == need && after == need) kind = need;
    }
    if (inside(before) && !inside(kind)) f(text.substr(begin, here - begin));
    if (inside(kind) && !inside(before)) begin = here;
    if (kind == CharClass::other || kind == CharClass::ideograph) f(text.substr(here, at - here));
    before = inside(kind) ? kind : CharClass::space;
  }
  if (inside(before)) f(text.substr(begin));
}

Array bytes_array(const std::string& text) {
  Array a(DType::u8, {static_cast<int64_t>(text.size())});
  std::memcpy(a.raw(), text.data(), text.size());
  return a;
}

// Tokens with a list of their texts: number 2 is the first.
class ListTokenizer : public Tokenizer {
 public:
  ListTokenizer(TokenizerKind kind, std::vector<std::string> list) : kind_(kind), list_(std::move(list)) {
    for (size_t i = 0; i < list_.size(); ++i) numbers_.emplace(list_[i], static_cast<int32_t>(i) + 2);
  }
  TokenizerKind kind() const override { return kind_; }
  int64_t size() const override { return static_cast<int64_t>(list_.size()) + 2; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> out;
    const auto add = [&](std::string_view token) {
      const auto it = numbers_.find(token);
      out.push_back(it == numbers_.end() ? kUnknown : it->second);
    };
    if (kind_ == TokenizerKind::word) {
      for_words(normalized(text), add);
      return out;
    }
    if (const auto at = utf8_fault(text)) fail(ErrorKind::data, "text", "not UTF-8: byte ", *at);
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      next_code_point(text, at);
      add(text.substr(begin, at - begin));
    }
    return out;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string out;
    for (const int32_t t : tokens) {
      need_between("decode", "token", t, 0, static_cast<double>(size() - 1));
      if (t == kPadding) continue;
      if (kind_ == TokenizerKind::word && !out.empty()) out += ' ';
      out += t == kUnknown ? kReplacement : list_[static_cast<size_t>(t) - 2];
    }
    return out;
  }

  Array stored() const override { return bytes_array(nlohmann::json(list_).dump()); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  TokenizerKind kind_;
  std::vector<std::string> list_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> numbers_;
};

// The most frequent first; ties in byte order.
std::vector<std::string> by_frequency(const std::unordered_map<std::string, int64_t>& counts, int64_t limit,
                                      int64_t min_count) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [token, n] : counts) {
    if (n >= min_count) order.emplace_back(-n, token);
  }
  std::sort(order.begin(), order.end());
  if (static_cast<int64_t>(order.size()) > limit - 2) order.resize(static_cast<size_t>(limit - 2));
  std::vector<std::string> out;
  for (auto& [n, token] : order) out.push_back(std::move(token));
  return out;
}

std::vector<std::string> word_list(const std::vector<std::string>& texts, const TokenizerOptions& o) {
  // Counts of parts of the texts, added up: the sums do not depend on the threads.
  const auto parts = static_cast<int64_t>(std::min<size_t>(texts.size(), static_cast<size_t>(thread_count())));
  std::vector<std::unordered_map<std::string, int64_t>> counts(static_cast<size_t>(parts));
  parallel_for(parts, [&](int64_t p) {
    for (auto i = static_cast<size_t>(p); i < texts.size(); i += static_cast<size_t>(parts)) {
      for_words(normalized(texts[i]), [&](std::string_view w) { ++counts[static_cast<size_t>(p)][std::string(w)]; });
    }
  });
  for (int64_t p = 1; p < parts; ++p) {
    for (const auto& [word, n] : counts[static_cast<size_t>(p)]) counts[0][word] += n;
  }
  return by_frequency(counts[0], o.limit > 0 ? o.limit : kWordLimit, o.min_count);
}

std::vector<std::string> character_list(const std::vector<std::string>& texts, const TokenizerOptions& o) {
  std::unordered_map<std::string, int64_t> counts;
  for (const std::string& text : texts) {
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      next_code_point(text, at);
      ++counts[text.substr(begin, at - begin)];
    }
  }
  std::vector<std::string> list = by_frequency(counts, o.limit > 0 ? o.limit : kMostTokens, 1);
  std::sort(list.begin(), list.end());  // byte order of UTF-8 is that of the code points
  return list;
}

std::vector<std::string> parse_list(TokenizerKind kind, io::ByteView bytes, const std::string& source) {
  const auto damaged = [&](const auto&... what) {
    fail(ErrorKind::checkpoint, source, "the vocabulary is damaged: ", what...);
  };
  const nlohmann::json j = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, false);
  if (!j.is_array() || j.size() > static_cast<size_t>(kMostTokens)) damaged("expected a JSON list of tokens");
  std::vector<std::string> list;
  for (const auto& token : j) {
    if (!token.is_string() || token.get_ref<const std::string&>().empty())
      damaged("entry ", list.size(), " is not a token");
    list.push_back(token.get<std::string>());
    if (kind == TokenizerKind::character) {
      size_t at = 0;
      next_code_point(list.back(), at);
      if (at != list.back().size()) damaged("entry ", list.size() - 1, " is more than one character");
    }
  }
  std::vector<std::string> sorted = list;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) damaged("'", *twice, "' appears twice");
  return list;
}

}  // namespace

std::string to_string(TokenizerKind kind) {
  return kind == TokenizerKind::word ? "word" : kind == TokenizerKind::bpe ? "bpe" : "char";
}

bool parse_tokenizer_kind(const std::string& name, TokenizerKind& out) {
  for (const TokenizerKind kind : {TokenizerKind::word, TokenizerKind::bpe, TokenizerKind::character}) {
    if (to_string(kind) == name) {
      out = kind;
      return true;
    }
  }
  return false;
}

std::shared_ptr<const Tokenizer> learn_tokenizer(const std::vector<std::string>& texts,
                                                 const TokenizerOptions& options) {
  TokenizerOptions o = options;
  if (o.limit < 0 || o.limit == 1 || o.limit == 2 || o.limit > kMostTokens) {
    fail(ErrorKind::usage, "--vocabulary", "expected 3 to ", kMostTokens, " tokens, or 0 for the default, got ",
         o.limit);
  }
  need_at_least("--min-count", {}, static_cast<double>(o.min_count), 1);
  for (const std::string& text : texts) {
    if (const auto at = utf8_fault(text)) fail(ErrorKind::data, "tokenizer", "a text is not UTF-8: byte ", *at);
  }
  if (o.kind == TokenizerKind::bpe) {
    if (o.limit == 0) o.limit = kPairLimit;
    return learn_byte_pairs(texts, o);
  }
  std::vector<std::string> list = o.kind == TokenizerKind::word ? word_list(texts, o) : character_list(texts, o);
  if (list.empty()) {
    fail(ErrorKind::data, "tokenizer", "nothing to learn: no ", o.kind == TokenizerKind::word ? "word" : "character",
         " occurs ", o.kind == TokenizerKind::word ? o.min_count : 1, " times");
  }
  return std::make_shared<ListTokenizer>(o.kind, std::move(list));
}

std::shared_ptr<const Tokenizer> load_tokenizer(TokenizerKind kind, io::ByteView bytes, const std::string& source) {
  if (kind == TokenizerKind::bpe) return load_byte_pairs(bytes, source);
  return std::make_shared<ListTokenizer>(kind, parse_list(kind, bytes, source));
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  for_words(normalized(text), [&](std::string_view w) { out.emplace_back(w); });
  return out;
}

}  // namespace freight::data
