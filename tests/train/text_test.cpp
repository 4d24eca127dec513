// Training, evaluating, predicting and generating text: small invented sets, and SST-2 where it is here.
#include "freight/train/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "freight/data/catalog.h"
#include "freight/deploy/predictor.h"
#include "freight/io/safetensors.h"
#include "freight/train/generate.h"
#include "freight/train/trainer.h"
#include "tests/support/files.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;
using freight::testing::read_text;
using freight::testing::real_data;
using freight::testing::TemporaryDir;

// Reviews of one to sixty words, most of them neutral; which class one is of is said by one word in it.
std::string reviews(int n) {
  const char* words[2][2] = {{"dull", "poor"}, {"fine", "great"}};
  std::string csv = "text,label\n";
  PhiloxStream random(1, 0, 9);
  for (int i = 0; i < n; ++i) {
    const uint32_t label = random.below(2), length = random.below(i % 9 == 0 ? 60 : 12), at = random.below(length + 1);
    std::string text;
    for (uint32_t w = 0; w <= length; ++w) {
      if (w > 0) text += ' ';
      text += w == at ? words[label][random.below(2)] : cat("w", random.below(40));
    }
    csv += cat(text, ",", label ? "good" : "bad", "\n");
  }
  return csv;
}

// Lines in which every letter but the line end has one that always follows it.
std::string letters(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += std::string("abcdefghij").substr(static_cast<size_t>(i % 9)) + "\n";
  return text;
}

// A language model that sees one token: the next one's logits are a function of this one.
std::string bigram(int length, int rows) {
  return cat(R"({"format":"freight-model-1","name":"bigram","input":[)", length, R"(],"input_dtype":"i32","net":[
      {"type":"Embedding","rows":)",
             rows, R"(,"width":24},{"type":"Linear","out":)", rows, "}]}");
}

Array predict_texts(const store::Bundle& bundle, const std::vector<std::string>& texts,
                    const deploy::PredictorOptions& options = {}) {
  deploy::Predictor predictor(bundle, options);
  std::vector<Array> samples;
  for (const std::string& text : texts) samples.push_back(predictor.sample_of_text(text));
  return predictor.run(samples);
}

class TextTraining : public ::testing::Test {
 protected:
  TextTraining() {
    io::write_file_atomic(dir_ / "reviews.csv", std::string_view(reviews(600)));
    io::write_file_atomic(dir_ / "letters.txt", std::string_view(letters(300)));
    io::write_file_atomic(dir_ / "bigram.json", std::string_view(bigram(16, 32)));
  }
  Config config(const std::string& file, const std::string& model) const {
    Config c = recipe(dir_ / file);
    set_model(c, model);
    c.epochs = 8;
    c.lr = 0.02;
    c.batch_size = 32;
    c.max_length = file == "reviews.csv" ? 48 : 0;
    c.deterministic = true;
    c.output_dir = dir_ / "run";
    c.overwrite = true;
    return c;
  }
  Result run(const Config& c) const {
    Observer silent;
    return train(c, silent);
  }
  store::Bundle stored() const { return store::load_bundle(dir_ / "run/model.safetensors"); }
  std::string bigram_file() const { return dir_ / "bigram.json"; }

  TemporaryDir dir_;
};

TEST_F(TextTraining, EveryTokenModelLearnsTheWordsThatMatter) {
  for (const char* model : {"text_bow", "textcnn"}) {
    const Result r = run(config("reviews.csv", model));
    EXPECT_GT(r.test.top1.value(), 95) << model;
    EXPECT_EQ(r.test.count, 120);
  }
}

TEST_F(TextTraining, StoredModelsEvaluateAsTrainingDidWhateverTheBatch) {
  Config c = config("reviews.csv", "textcnn");
  c.truncation_side = "left";
  const Result r = run(c);
  store::Bundle b = stored();
  EXPECT_EQ(b.preprocessing.keep, data::Keep::end);
  EXPECT_EQ(b.preprocessing.lengths, (std::vector<int64_t>{32, 48}));
  EXPECT_EQ(b.classes, (std::vector<std::string>{"bad", "good"}));
  const data::TextSet set = data::load_text(dir_ / "reviews.csv");
  for (const int64_t batch : {1, 7, 256}) {
    Evaluator evaluator(b.model, {.deterministic = true}, batch);
    const Evaluation e = evaluator.run(*evaluation_feed(set, set.test, b, batch), "test");
    EXPECT_EQ(e.count, 120);
    EXPECT_DOUBLE_EQ(e.top1.value(), r.test.top1.value());
    EXPECT_NEAR(e.loss, r.test.loss, 1e-5 * std::max(r.test.loss, 0.01));
  }
}

TEST_F(TextTraining, PredictionAgreesWithEvaluation) {
  run(config("reviews.csv", "textcnn"));
  store::Bundle b = stored();
  const data::TextSet set = data::load_text(dir_ / "reviews.csv");
  Evaluator evaluator(b.model, {.deterministic = true}, 50);
  const Evaluation e = evaluator.run(*evaluation_feed(set, set.test, b, 50), "test");
  for (const int64_t batch : {1, 64}) {
    const Array p = predict_texts(b, set.test.texts, {.deterministic = true, .batch_size = batch});
    double loss = 0, right = 0;
    for (int64_t i = 0; i < set.test.count(); ++i) {
      const float* row = p.data<float>() + i * 2;
      EXPECT_NEAR(row[0] + row[1], 1, 1e-5);
      const int64_t label = set.test.labels[static_cast<size_t>(i)];
      loss -= std::log(static_cast<double>(row[label]));
      right += row[label] > row[1 - label];
    }
    EXPECT_NEAR(loss / 120, e.loss, 1e-4);
    EXPECT_DOUBLE_EQ(100 * right / 120, e.top1.value());
  }
  EXPECT_EQ(predict_texts(b, {}).shape(), (Shape{0, 2}));
  // A blank text is predicted as one of no known words.
  const Array blank = predict_texts(b, {"fine", " ", "zzzz"});
  ASSERT_EQ(blank.shape(), (Shape{3, 2}));
  EXPECT_EQ(blank.data<float>()[2], blank.data<float>()[4]);
  expect_error(ErrorKind::data, {"text", "not UTF-8"}, [&] { predict_texts(b, {"\xff"}); });
}

TEST_F(TextTraining, EqualSeedsGiveEqualWeights) {
  const auto weights = [&](int64_t seed) {
    Config c = config("reviews.csv", "text_bow");
    c.max_steps = 12;
    c.seed = seed;
    run(c);
    return stored().model.net->state_dict()[0].variable.array().to_vector<float>();
  };
  const auto first = weights(3);
  EXPECT_EQ(weights(3), first);
  EXPECT_NE(weights(4), first);
}

TEST_F(TextTraining, BytePairsAreStoredWithTheModel) {
  Config c = config("reviews.csv", "text_bow");
  c.tokenizer = "bpe";
  c.vocabulary = 90;
  const Result r = run(c);
  EXPECT_GT(r.test.top1.value(), 80);
  store::Bundle b = stored();
  EXPECT_EQ(b.preprocessing.tokenizer->kind(), data::TokenizerKind::bpe);
  const Array p = predict_texts(b, {"great w1 w2", "dull w1 w2"});
  EXPECT_GT(p.data<float>()[1], 0.5f);
  EXPECT_LT(p.data<float>()[3], 0.5f);
}

TEST_F(TextTraining, BadDocumentsStopOrAreLeftOutAndListed) {
  io::write_file_atomic(dir_ / "reviews.csv", std::string_view(reviews(200) + "\xff\xfe,good\n,bad\n"));
  Config c = config("reviews.csv", "text_bow");
  c.max_steps = 2;
  expect_error(ErrorKind::data, {"reviews.csv:202", "not UTF-8"}, [&] { run(c); });
  c.on_bad_sample = "report";
  EXPECT_EQ(run(c).bad_samples.size(), 2u);
  EXPECT_NE(read_text(dir_ / "run/bad_samples.tsv").find("reviews.csv:203\tthe document is empty\n"),
            std::string::npos);
}

TEST_F(TextTraining, ALanguageModelReachesTheEntropyOfItsData) {
  Config c = config("letters.txt", bigram_file());
  c.epochs = 25;
  c.batch_size = 8;
  c.lr = 0.05;
  const Result r = run(c);
  // Lines begin with one of nine letters: all but the first letter of a line follow from the letter before.
  const data::TextSet set = data::load_text(dir_ / "letters.txt");
  const auto tokens = static_cast<int64_t>(set.test.texts[0].size()) - 1;
  EXPECT_EQ(r.test.count, tokens);
  const double lines = static_cast<double>(std::count(set.test.texts[0].begin(), set.test.texts[0].end(), '\n'));
  const double entropy = std::log(9.0) * lines / static_cast<double>(tokens);
  EXPECT_GT(r.test.loss, 0.95 * entropy);
  EXPECT_LT(r.test.loss, 1.1 * entropy);
  EXPECT_GT(r.test.top1.value(), 80);
  store::Bundle b = stored();
  EXPECT_TRUE(b.model.language_model());
  for (const int64_t batch : {1, 5}) {
    Evaluator evaluator(b.model, {.deterministic = true}, batch);
    const Evaluation e = evaluator.run(*evaluation_feed(set, set.test, b, batch), "test");
    EXPECT_EQ(e.count, tokens);
    EXPECT_NEAR(e.loss, r.test.loss, 1e-5);
  }
  expect_error(ErrorKind::usage, {"not a classifier", "freight generate"}, [&] { predict_texts(b, {"abc"}); });
}

TEST_F(TextTraining, GenerationContinuesThePromptAndRepeatsForASeed) {
  Config c = config("letters.txt", bigram_file());
  c.epochs = 25;
  c.batch_size = 8;
  c.lr = 0.05;
  run(c);
  store::Bundle b = stored();
  EXPECT_EQ(generate(b, "c", {.max_tokens = 7, .temperature = 0}).text, "defghij");
  // Longer than the window, and streamed piece by piece.
  std::string pieces;
  const Generated long_one =
      generate(b, std::string(40, 'a') + "b", {.max_tokens = 60, .top_k = 3, .seed = 5}, {}, [&](const std::string& p) {
        pieces += p;
        return true;
      });
  EXPECT_EQ(long_one.text.substr(0, 8), "cdefghij");
  EXPECT_EQ(long_one.tokens.size(), 60u);
  EXPECT_EQ(pieces, long_one.text);
  const auto drawn = [&](uint64_t seed, double temperature) {
    return generate(b, "\n", {.max_tokens = 40, .temperature = temperature, .seed = seed}).text;
  };
  EXPECT_EQ(drawn(1, 1), drawn(1, 1));
  EXPECT_NE(drawn(1, 1), drawn(2, 1));
  EXPECT_EQ(drawn(1, 0), drawn(2, 0));
  for (const int32_t t : generate(b, "a", {.max_tokens = 200, .temperature = 50}).tokens) EXPECT_GE(t, 2);
  EXPECT_EQ(generate(b, "a", {.max_tokens = 9}, {}, [](const std::string&) { return false; }).tokens.size(), 1u);
  expect_error(ErrorKind::data, {"--prompt", "empty"}, [&] { generate(b, ""); });
  expect_error(ErrorKind::usage, {"--temperature"}, [&] { generate(b, "a", {.temperature = -1}); });
  run(config("reviews.csv", "text_bow"));
  store::Bundle classes = stored();
  expect_error(ErrorKind::usage, {"not a language model"}, [&] { generate(classes, "a"); });
}

TEST_F(TextTraining, ModelsThatDoNotFitAreRefused) {
  expect_error(ErrorKind::usage, {"--model", "is missing", "gpt_char"}, [&] { run(config("letters.txt", "")); });
  expect_error(ErrorKind::usage, {"a corpus needs a result (N, T, vocabulary)"},
               [&] { run(config("letters.txt", "textcnn")); });
  expect_error(ErrorKind::usage, {"it is a language model, the data has classes"}, [&] {
    Config c = config("reviews.csv", bigram_file());
    c.max_length = 0;
    run(c);
  });
  expect_error(ErrorKind::usage, {"does not read text", "[1,28,28]"}, [&] { run(config("reviews.csv", "lenet")); });
  const auto refused = [&](const char* flag, void (*give)(Config&)) {
    Config c = config("reviews.csv", "textcnn");
    give(c);
    expect_error(ErrorKind::usage, {flag, "is text"}, [&] { run(c); });
  };
  refused("--flip", [](Config& c) { c.flip = true; });
  refused("--crop-padding", [](Config& c) { c.crop_padding = 2; });
  refused("--rand-augment", [](Config& c) { c.rand_augment = 2; });
  refused("--random-erase", [](Config& c) { c.random_erase = 0.5; });
  refused("--val-crop-size", [](Config& c) { c.val_crop_size = 32; });
  io::write_file_atomic(dir_ / "small.json", std::string_view(bigram(16, 8)));
  Config c = config("letters.txt", dir_ / "small.json");
  expect_error(ErrorKind::usage, {"--vocabulary", "13 tokens", "8 rows"}, [&] { run(c); });
}

TEST_F(TextTraining, ANetForOneLengthHasOneBucket) {
  const std::string spec = R"({"format":"freight-model-1","name":"flat","input":[64],"input_dtype":"i32","net":[
      {"type":"Embedding","rows":200,"width":4,"padding_idx":0},{"type":"Flatten"},{"type":"Linear","out":2}]})";
  io::write_file_atomic(dir_ / "flat.json", std::string_view(spec));
  Config c = config("reviews.csv", dir_ / "flat.json");
  c.max_length = 0;
  c.max_steps = 2;
  run(c);
  EXPECT_EQ(stored().preprocessing.lengths, (std::vector<int64_t>{64}));
  c.max_length = 32;
  expect_error(ErrorKind::usage, {"--max-length", "got 32", "takes 64"}, [&] { run(c); });
}

TEST_F(TextTraining, AVocabularyThatIsNotTheWeightsIsRefused) {
  Config c = config("reviews.csv", "text_bow");
  c.max_steps = 2;
  run(c);
  const std::string path = dir_ / "run/model.safetensors";
  const io::SafeTensors good = io::load_safetensors(path);
  const auto damaged = [&](const std::vector<std::string>& parts, const auto& change) {
    io::SafeTensors file = good;
    change(file);
    file.metadata.erase("xxh3_128");
    io::save_safetensors(dir_ / "bad.safetensors", file);
    expect_error(ErrorKind::checkpoint, parts, [&] { store::load_bundle(dir_ / "bad.safetensors"); });
  };
  const auto tokenizer = [](io::SafeTensors& f) -> Array& {
    for (auto& [name, array] : f.tensors) {
      if (name == "freight.tokenizer") return array;
    }
    throw std::logic_error("no tokenizer");
  };
  const int64_t size = stored().preprocessing.tokenizer->size();
  damaged({"it has 4 tokens", cat("trained with ", size)},
          [&](io::SafeTensors& f) { tokenizer(f) = data::learn_tokenizer({"a a b b"}, {})->stored(); });
  damaged({"vocabulary is damaged"}, [&](io::SafeTensors& f) {
    tokenizer(f) = tokenizer(f).clone();  // the file's copies share their arrays
    tokenizer(f).data<uint8_t>()[0] = 'x';
  });
  damaged({"tokenizer is missing"}, [&](io::SafeTensors& f) {
    std::erase_if(f.tensors, [](const auto& t) { return t.first == "freight.tokenizer"; });
  });
  const auto edit = [](io::SafeTensors& f, const char* key, const nlohmann::json& value) {
    auto j = nlohmann::json::parse(f.metadata["preprocessing"]);
    j[key] = value;
    f.metadata["preprocessing"] = j.dump();
  };
  damaged({"unknown tokenizer", "syllable"}, [&](io::SafeTensors& f) { edit(f, "tokenizer", "syllable"); });
  damaged({"lengths"}, [&](io::SafeTensors& f) { edit(f, "lengths", {48, 32}); });
  damaged({"lengths"}, [&](io::SafeTensors& f) { edit(f, "lengths", {32, 64}); });
  damaged({"metadata is damaged"}, [&](io::SafeTensors& f) { edit(f, "vocabulary", "many"); });
}

TEST_F(TextTraining, WeightsBringTheirVocabularyToOtherTexts) {
  Config c = config("reviews.csv", "text_bow");
  c.max_steps = 2;
  run(c);
  c.weights = dir_ / "run/model.safetensors";
  c.output_dir = dir_ / "again";
  EXPECT_NO_THROW(run(c));
  std::string other = reviews(600);
  for (size_t at = other.find("dull"); at != std::string::npos; at = other.find("dull")) other.replace(at, 4, "zest");
  io::write_file_atomic(dir_ / "reviews.csv", std::string_view(other));
  run(c);
  const auto vocabulary = [](const std::string& path) {
    const Array bytes = store::load_bundle(path).preprocessing.tokenizer->stored();
    return std::vector<uint8_t>(bytes.data<uint8_t>(), bytes.data<uint8_t>() + bytes.bytes());
  };
  EXPECT_EQ(vocabulary(c.output_dir + "/model.safetensors"), vocabulary(c.weights));
}

TEST_F(TextTraining, ClassesAreMatchedByNameInOtherData) {
  run(config("reviews.csv", "text_bow"));
  store::Bundle b = stored();
  Evaluator evaluator(b.model, {}, 32);
  const auto top1 = [&](const std::string& csv) {
    io::write_file_atomic(dir_ / "other.csv", std::string_view("text,label\n" + csv));
    const data::TextSet set = data::load_text(dir_ / "other.csv", {.text = {.val_split = 0.5}});
    return evaluator.run(*evaluation_feed(set, set.train, b, 32), "other").top1.value();
  };
  EXPECT_EQ(top1("great w1,good\nfine w2,good\ndull w3,bad\npoor w1,bad\n"), 100);
  expect_error(ErrorKind::data, {"class awful", "bad, good"}, [&] { top1("x,awful\ny,awful\nz,good\nw,good\n"); });
}

// A short run of every named set of texts, as its recipe says but for the length.
struct RealText {
  const char *name, *file, *model;
  int64_t length, steps;
  double top1;
};
class RealTexts : public ::testing::TestWithParam<RealText> {};
TEST_P(RealTexts, TrainForAShortWhile) {
  const RealText& t = GetParam();
  const std::string data = real_data(t.file);
  if (data.empty()) GTEST_SKIP() << "no " << t.file << " here: set FREIGHT_DATA";
  const TemporaryDir dir;
  Config c = recipe(data::Source(t.name, {.data_dir = data}), "default");
  c.data_dir = data;
  set_model(c, t.model);
  c.max_length = t.length;
  c.max_steps = t.steps;
  c.lr_warmup_epochs = 0;
  c.lr = 3e-3;
  c.output_dir = dir / "run";
  Observer silent;
  const Result r = train(c, silent);
  EXPECT_EQ(r.steps, t.steps);
  EXPECT_TRUE(r.bad_samples.empty());
  EXPECT_GT(r.test.top1.value(), t.top1);
}
INSTANTIATE_TEST_SUITE_P(Sets, RealTexts,
                         ::testing::Values(RealText{"sms_spam", "sms_spam/SMSSpamCollection", "text_bow", 128, 207, 94},
                                           RealText{"ag_news", "ag_news/test.csv.gz", "text_bow", 128, 95, 60},
                                           RealText{"imdb", "aclImdb/train/pos", "text_bow", 128, 150, 65},
                                           RealText{"imdb", "aclImdb/train/pos", "lstm_text", 64, 100, 60}),
                         [](const auto& set) { return cat(set.param.name, "_", set.param.model); });

// The recipe with a smaller net, for 150 steps. Counts of characters give 3.35 nats, of pairs 2.48.
TEST(RealCorpus, AShortRunOfGptCharKnowsMoreOfShakespeareThanPairsOfCharacters) {
  const std::string data = real_data("tinyshakespeare/input.txt");
  if (data.empty()) GTEST_SKIP() << "no real data here: set FREIGHT_DATA";
  const TemporaryDir dir;
  Config c = recipe(data::Source("tinyshakespeare", {.data_dir = data}), "default");
  c.data_dir = data;
  c.max_length = 64;
  c.layers = 2;
  c.width = 128;
  c.max_steps = 150;
  c.lr_warmup_epochs = 0;
  c.output_dir = dir / "run";
  Observer silent;
  const Result r = train(c, silent);
  EXPECT_EQ(r.test.count, 111538);
  EXPECT_LT(r.test.loss, 2.45);
}

TEST(Sst2, AFewHundredStepsTellMostSentences) {
  const std::string data = real_data("sst2/dev.tsv");
  if (data.empty()) GTEST_SKIP() << "no real data here: set FREIGHT_DATA";
  const TemporaryDir dir;
  Config c = recipe(data::Source("sst2", {.data_dir = data}), "default");
  c.data_dir = data;
  set_model(c, "text_bow");
  c.max_length = 64;
  c.epochs = 1;
  c.lr = 3e-3;
  c.output_dir = dir / "run";
  Observer silent;
  const Result r = train(c, silent);
  EXPECT_EQ(r.test.count, 872);
  EXPECT_GT(r.test.top1.value(), 74);
}

}  // namespace
}  // namespace freight::train
