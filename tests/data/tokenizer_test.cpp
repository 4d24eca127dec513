// Tokenizers: Unicode cases, round trips, vocabularies, the stored form and its faults.
#include "freight/data/tokenizer.h"

#include <gtest/gtest.h>

#include "freight/data/text.h"
#include "freight/data/unicode.h"
#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;

using Words = std::vector<std::string>;
using Ids = std::vector<int32_t>;

io::ByteView view(const Array& a) { return {a.data<uint8_t>(), a.bytes()}; }
std::shared_ptr<const Tokenizer> stored_and_loaded(const Tokenizer& t) {
  const Array bytes = t.stored();
  return load_tokenizer(t.kind(), view(bytes), "f");
}

TEST(Unicode, Utf8FaultsAreFoundAtTheirByte) {
  EXPECT_FALSE(utf8_fault("plain"));
  EXPECT_FALSE(utf8_fault("\xc3\xa9\xf0\x9f\x9a\x9a"));
  EXPECT_EQ(utf8_fault("ab\xff"), 2u);
  EXPECT_EQ(utf8_fault("ab\xc3"), 2u);
  EXPECT_EQ(utf8_fault("\xc0\xaf"), 0u);      // an overlong slash
  EXPECT_EQ(utf8_fault("\xed\xa0\x80"), 0u);  // a surrogate
  EXPECT_EQ(utf8_fault("x\xf4\x90\x80\x80"), 1u);
}

TEST(Words, AreFoldedAndNormalized) {
  EXPECT_EQ(words("The CAT"), (Words{"the", "cat"}));
  EXPECT_EQ(words("Stra\xc3\x9f"
                  "e"),
            (Words{"strasse"}));                                         // sharp s folds to ss
  EXPECT_EQ(words("e\xcc\x81t\xc3\xa9"), (Words{"\xc3\xa9t\xc3\xa9"}));  // composed
  EXPECT_EQ(words("\xef\xac\x81ne"), (Words{"fine"}));                   // the ligature fi
  EXPECT_EQ(words("\xef\xbc\xa1\xef\xbc\xa2"), (Words{"ab"}));           // full width
  EXPECT_EQ(words("co\xc2\xad"
                  "operate"),
            (Words{"cooperate"}));  // a soft hyphen
  EXPECT_EQ(words("\xce\xa3\xce\xaf\xcf\x83\xcf\x85\xcf\x86\xce\xbf\xcf\x82"),
            words("\xcf\x83\xce\xaf\xcf\x83\xcf\x85\xcf\x86\xce\xbf\xcf\x83"));  // final sigma
}

TEST(Words, PunctuationStandsAlone) {
  EXPECT_EQ(words("good, bad!? (no)"), (Words{"good", ",", "bad", "!", "?", "(", "no", ")"}));
  EXPECT_EQ(words("don't 'quoted' it\xe2\x80\x99s"), (Words{"don't", "'", "quoted", "'", "it's"}));
  EXPECT_EQ(words("3.5 1,000 2nd end. v2"), (Words{"3.5", "1,000", "2nd", "end", ".", "v2"}));
  EXPECT_EQ(words("\xf0\x9f\x9a\x9a\xf0\x9f\x9a\x9a"), (Words{"\xf0\x9f\x9a\x9a", "\xf0\x9f\x9a\x9a"}));
  EXPECT_EQ(words(" \t\n\xe2\x80\x83\x01 "), (Words{}));
}

TEST(Words, ScriptsWithoutSpacesAreCutByCharacter) {
  EXPECT_EQ(words("\xe5\xa5\xbd\xe7\x9c\x8b ok"), (Words{"\xe5\xa5\xbd", "\xe7\x9c\x8b", "ok"}));
  EXPECT_EQ(words("\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82"),
            (Words{"\xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82"}));
}

TEST(WordTokenizer, NumbersWordsByFrequencyThenBytes) {
  const auto t = learn_tokenizer({"b a a c", "B rare"}, {});
  EXPECT_EQ(t->size(), 4);
  EXPECT_EQ(t->encode("A b RARE nothing"), (Ids{2, 3, 1, 1}));
  EXPECT_EQ(t->decode(Ids{2, 3, 1, 0, 0}), "a b \xef\xbf\xbd");
  EXPECT_EQ(learn_tokenizer({"b a a c", "B rare"}, {.limit = 3})->size(), 3);
  EXPECT_EQ(learn_tokenizer({"b a a c", "B rare"}, {.min_count = 1})->encode("c rare"), (Ids{4, 5}));
  expect_error(ErrorKind::data, {"nothing to learn"}, [] { learn_tokenizer({"every word once"}, {}); });
  expect_error(ErrorKind::usage, {"--vocabulary"}, [] { learn_tokenizer({"a a"}, {.limit = 2}); });
  expect_error(ErrorKind::usage, {"--min-count"}, [] { learn_tokenizer({"a a"}, {.min_count = 0}); });
  expect_error(ErrorKind::data, {"not UTF-8"}, [] { learn_tokenizer({"a \xff"}, {}); });
  expect_error(ErrorKind::usage, {"token: expected 0 to", "got 4"}, [&] { t->decode(Ids{4}); });
  expect_error(ErrorKind::data, {"not UTF-8: byte 1"}, [&] { t->encode("a\xff"); });
}

const std::string kVerse =
    "Full fathom five thy father lies;\nOf his bones are coral made;\n\n  \xc3\xa9t\xc3\xa9 \xe5\xa5\xbd\ttab\n";

TEST(CharacterTokenizer, GivesBackEveryText) {
  const auto t = learn_tokenizer({kVerse}, {.kind = TokenizerKind::character});
  EXPECT_EQ(t->decode(t->encode(kVerse)), kVerse);
  EXPECT_EQ(t->encode("\n")[0], 3);  // numbers follow the code points: tab, line end, ...
  EXPECT_EQ(t->encode("Z"), (Ids{1}));
  EXPECT_EQ(stored_and_loaded(*t)->encode(kVerse), t->encode(kVerse));
}

std::vector<std::string> verses() {
  std::vector<std::string> texts;
  for (int i = 0; i < 20; ++i) texts.push_back(cat(kVerse, "line ", i, " of the sea-change\n"));
  return texts;
}

TEST(BytePairs, GiveBackEveryTextWhenExact) {
  const auto t = learn_tokenizer(verses(), {.kind = TokenizerKind::bpe, .limit = 120, .exact = true});
  EXPECT_LE(t->size(), 120);
  for (const std::string& text : verses()) EXPECT_EQ(t->decode(t->encode(text)), text);
  for (const char* text : {" lead", "tail ", "a  b", "\n\n", "\n of"}) EXPECT_EQ(t->decode(t->encode(text)), text);
  EXPECT_LT(t->encode(kVerse).size(), kVerse.size() / 2);
  const auto unknown = t->encode("\xf0\x9f\x9a\x9a");
  EXPECT_EQ(std::count(unknown.begin(), unknown.end(), kUnknown), 1);
}

TEST(BytePairs, NormalizeForClassesAndLearnTheSameEachTime) {
  const TokenizerOptions o{.kind = TokenizerKind::bpe, .limit = 100};
  const auto a = learn_tokenizer(verses(), o), b = learn_tokenizer(verses(), o);
  EXPECT_EQ(a->stored().to_vector<int>(), b->stored().to_vector<int>());
  EXPECT_EQ(a->encode("FULL Fathom"), a->encode("full fathom"));
  EXPECT_EQ(stored_and_loaded(*a)->encode(kVerse), a->encode(kVerse));
  for (const int32_t id : a->encode(kVerse)) EXPECT_TRUE(id > 0 && id < a->size());
  EXPECT_THROW(learn_tokenizer({""}, o), Error);
  EXPECT_THROW(learn_tokenizer(verses(), {.kind = TokenizerKind::bpe, .limit = 5}), Error);
}

TEST(StoredTokenizer, WordsComeBackAsTheyWere) {
  const auto t = learn_tokenizer(verses(), {});
  const auto same = stored_and_loaded(*t);
  EXPECT_EQ(same->size(), t->size());
  EXPECT_EQ(same->encode(kVerse), t->encode(kVerse));
}

TEST(StoredTokenizer, DamageIsRefused) {
  const auto load = [](TokenizerKind kind, const std::string& text) { load_tokenizer(kind, bytes_of(text), "file"); };
  const struct {
    TokenizerKind kind;
    const char* bytes;
    const char* reason;
  } cases[] = {{TokenizerKind::word, "[\"a\"", "JSON list"},
               {TokenizerKind::word, "{}", "JSON list"},
               {TokenizerKind::word, "[\"a\",3]", "entry 1"},
               {TokenizerKind::word, "[\"\"]", "entry 0"},
               {TokenizerKind::word, "[\"a\",\"a\"]", "appears twice"},
               {TokenizerKind::character, "[\"ab\"]", "more than one"},
               {TokenizerKind::bpe, "no model", "damaged"},
               {TokenizerKind::bpe, "", "damaged"}};
  for (const auto& c : cases) {
    expect_error(ErrorKind::checkpoint, {"file", c.reason}, [&] { load(c.kind, c.bytes); });
  }
}

}  // namespace
}  // namespace freight::data
