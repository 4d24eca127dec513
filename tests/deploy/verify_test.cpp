// Verification: that its claims hold for a sound model, fail for one that is not, and say what was not checked.
#include "freight/deploy/verify.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/files.h"
#include "tests/support/python.h"
#include "tests/support/small_digits.h"

namespace freight::deploy {
namespace {

using freight::testing::expect_error;
using freight::testing::peer_python;
using freight::testing::TemporaryDir;
using State = Claim::State;

store::Bundle images() {
  store::Bundle b;
  b.model = models::create("lenet");
  b.preprocessing = {.input = {1, 28, 28}, .mean = {0.13f}, .std = {0.31f}};
  for (int i = 0; i < 10; ++i) b.classes.push_back(cat(i));
  return b;
}

std::vector<nn::NamedArray> arrays_of(const models::Model& model) {
  std::vector<nn::NamedArray> out;
  for (const nn::NamedVariable& v : model.net->state_dict()) out.push_back({v.name, v.variable.array().clone()});
  return out;
}

std::map<std::string, State> states(const std::vector<Claim>& claims) {
  std::map<std::string, State> out;
  for (const Claim& c : claims) out[c.name] = c.state;
  return out;
}

TEST(Verify, AllClaimsHoldForASoundModel) {
  const TemporaryDir dir;
  test::write_small_digits(dir.path());
  const store::Bundle b = images();
  const auto claims = verify(b, b, {.data = dir.path(), .samples = 8, .python = peer_python()});
  for (const Claim& c : claims) {
    const bool onnx = starts_with(c.name, "onnx");
    EXPECT_EQ(c.state, onnx && peer_python().empty() ? State::unchecked : State::holds) << c.name << ": " << c.note;
    EXPECT_LE(c.difference, c.limit) << c.name;
  }
  ASSERT_EQ(claims.size(), 7u);
  EXPECT_EQ(claims[4].name, "file");
  EXPECT_EQ(claims[4].difference, 0);
}

TEST(Verify, WhatWasNotCheckedIsSaid) {
  const store::Bundle b = images();
  const auto claims = verify(b, b, {.samples = 2});
  for (const Claim& c : claims) {
    const std::string needed = c.name == "eval" ? "--data" : starts_with(c.name, "onnx") ? "--onnx-runtime" : "";
    EXPECT_NE(c.note.find(needed), std::string::npos) << c.name;
    EXPECT_EQ(c.state, needed.empty() ? State::holds : State::unchecked) << c.name;
  }
}

// The mistake that users of other systems ship: the mean of the pixels was another one in training.
TEST(Verify, AnotherPreprocessingThanThatOfEvaluationFails) {
  const TemporaryDir dir;
  test::write_small_digits(dir.path());
  const store::Bundle trained = images();
  store::Bundle deployed = trained;  // the same net
  deployed.preprocessing.mean = {0.5f};
  const auto found = states(verify(trained, deployed, {.data = dir.path(), .samples = 8, .python = peer_python()}));
  EXPECT_EQ(found.at("eval"), State::fails);
  EXPECT_EQ(found.at("forward"), State::fails);
  EXPECT_EQ(found.at("batch"), State::holds);  // these look at the deployed model alone
  EXPECT_EQ(found.at("file"), State::holds);
}

TEST(Verify, OtherWeightsThanThoseOfEvaluationFail) {
  const store::Bundle trained = images();
  store::Bundle deployed = images();
  deployed.model.net->load_state_dict(arrays_of(trained.model), "trained");
  EXPECT_EQ(states(verify(trained, deployed, {.samples = 4})).at("forward"), State::holds);
  const nn::NamedVariable bias = deployed.model.net->state_dict().back();
  Array one = bias.variable.array().clone();
  one.data<float>()[3] += 2;
  bias.variable.set(one);
  EXPECT_EQ(states(verify(trained, deployed, {.samples = 4})).at("forward"), State::fails);
}

TEST(Verify, TextsArePreparedAlikeInEveryLength) {
  const std::string words = "the old man and the sea is a film to remember but not one to see for a second time at all";
  for (const std::string name : {"textcnn", "gru_text"}) {
    store::Bundle b;
    b.preprocessing.input = {16};
    b.preprocessing.tokenizer = data::learn_tokenizer({words, words}, {});
    b.preprocessing.lengths = {6, 9, 16};
    b.model = models::create(name, {.classes = 2, .vocabulary = b.preprocessing.tokenizer->size(), .length = 16});
    b.classes = {"bad", "good"};
    const TemporaryDir dir;
    io::write_file_atomic(dir / "t.csv",
                          std::string_view("text,label\nthe old man,good\nto see a film,bad\nnot a film,bad\n"
                                           "and the sea,good\nto remember,good\na second time,bad\n"));
    for (const std::string& data : {std::string(), dir / "t.csv"}) {
      data::LoadOptions load;
      load.text.val_split = 0.5;
      for (const Claim& c : verify(b, b, {.data = data, .load = load, .samples = 12, .python = peer_python()})) {
        const bool possible = c.name == "eval" ? !data.empty() : c.name != "onnx" || !peer_python().empty();
        EXPECT_EQ(c.state, possible ? State::holds : State::unchecked)
            << name << " " << c.name << " " << c.difference << " " << c.note;
      }
    }
  }
}

TEST(Verify, WhatCannotBeVerifiedIsRefused) {
  expect_error(ErrorKind::usage, {"--onnx-runtime", "no-such-python"},
               [] { verify(images(), images(), {.samples = 1, .python = "/no-such-python"}); });
  expect_error(ErrorKind::usage, {"samples", "0"}, [] { verify(images(), images(), {.samples = 0}); });
  store::Bundle language;
  language.model = models::create("gpt_char", {.length = 16, .layers = 1, .width = 64});
  language.preprocessing.input = {16};
  expect_error(ErrorKind::usage, {"gpt_char", "no tokenizer"}, [&] { verify(language, language, {}); });
  expect_error(ErrorKind::usage, {"--onnx-runtime", "/bin/true", "no Python", "pip install"},
               [] { verify(images(), images(), {.samples = 1, .python = "/bin/true"}); });
}

store::Bundle language_model() {
  store::Bundle b;
  b.preprocessing.input = {16};
  b.preprocessing.lengths = {16};
  b.preprocessing.tokenizer =
      data::learn_tokenizer({"the old man and the sea"}, {.kind = data::TokenizerKind::character, .exact = true});
  b.model = models::create("gpt_char", {.classes = b.preprocessing.tokenizer->size(),
                                        .vocabulary = b.preprocessing.tokenizer->size(),
                                        .length = 16,
                                        .layers = 1,
                                        .width = 64});
  return b;
}

TEST(Verify, OfALanguageModelWhatMakesSenseIsChecked) {
  const store::Bundle b = language_model();
  const auto claims = verify(b, b, {.samples = 3, .python = peer_python()});
  ASSERT_EQ(claims.size(), 5u);
  for (const Claim& c : claims) {
    const bool possible = c.name != "eval" && (c.name != "onnx" || !peer_python().empty());
    EXPECT_EQ(c.state, possible ? State::holds : State::unchecked) << c.name << " " << c.difference << " " << c.note;
  }
  EXPECT_NE(claims[0].note.find("freight eval"), std::string::npos);
  EXPECT_EQ(claims[3].name, "file");
  EXPECT_EQ(claims[3].difference, 0);
  // Two loads of one file that differ.
  const store::Bundle other = language_model();
  EXPECT_EQ(states(verify(b, other, {.samples = 1})).at("batch"), State::fails);
}

}  // namespace
}  // namespace freight::deploy
