// Text on the command line: data info and verify, train, eval, predict and generate as a user meets them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

std::string small_reviews() {
  const std::string dir = scratch_dir();
  std::string csv = "body,stars\n";
  for (int i = 0; i < 200; ++i) {
    const bool good = i % 2;
    csv += "the film number " + std::to_string(i % 17) + (good ? " is a joy" : " is a bore") + "," +
           (good ? "5" : "1") + "\n";
  }
  write_file(dir + "/reviews.csv", csv);
  return dir;
}

const std::vector<std::string> kColumns = {"--text-column", "body", "--label-column", "stars"};

Ran with_columns(std::vector<std::string> args) {
  args.insert(args.end(), kColumns.begin(), kColumns.end());
  return run_freight(args);
}

std::string trained(const std::string& dir) {
  const Ran r = with_columns(
      {"train", dir + "/reviews.csv", "--model", "text_bow", "--lr", "0.02", "--max-length", "16", "-o", dir + "/run"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("160 train, 40 validation, 2 classes"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("note    vocabulary of "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(" doc/s"), std::string::npos) << r.err;
  EXPECT_NE(r.out.find("validation accuracy 100.00 %"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("--text \"...\""), std::string::npos) << r.out;
  return dir + "/run/model.safetensors";
}

TEST(TextCommands, DataInfoTellsClassesAndLengths) {
  const std::string dir = small_reviews();
  const Ran r = with_columns({"data", "info", dir + "/reviews.csv"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("train    160 documents, 2 classes"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("classes  1 (80), 5 (80)"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("words    7 (p50), 7 (p90)"), std::string::npos) << r.out;
  const Json j = Json::parse(with_columns({"data", "info", dir + "/reviews.csv", "--json"}).out);
  EXPECT_EQ(j.at("train").at("words").at("max"), 7);
  EXPECT_EQ(j.at("test").at("per_class"), Json({20, 20}));
  EXPECT_EQ(j.at("kind"), "documents");
}

// Documents of up to 32 words, of up to 64 and of 100, so many of each.
std::string documents_of_lengths(const int64_t (&counts)[3]) {
  std::string csv = "body,stars\n";
  for (int kind = 0; kind < 3; ++kind) {
    for (int64_t i = 0; i < counts[kind]; ++i) {
      const int64_t words = kind == 0 ? 1 + i % 32 : kind == 1 ? 33 + i % 32 : 100;
      for (int64_t w = 0; w < words; ++w) csv += w % 2 ? "good " : "bad ";
      csv += i % 2 ? ",5\n" : ",1\n";
    }
  }
  return csv;
}

TEST(TextCommands, APlanWeighsTheLengthsThatBatchesHave) {
  const std::string dir = scratch_dir();
  write_file(dir + "/train.csv", documents_of_lengths({60, 120, 20}));
  write_file(dir + "/test.csv", documents_of_lengths({10, 25, 5}));
  const std::vector<std::string> plan = {"plan", dir, "--model", "text_bow", "-b", "8"};
  std::vector<std::string> args = plan;
  args.emplace_back("--json");
  const Ran r = with_columns(args);
  ASSERT_EQ(r.code, 0) << r.err;
  const Json texts = Json::parse(r.out).at("texts");
  EXPECT_EQ(texts.at("assumed"), false);
  ASSERT_EQ(texts.at("lengths").size(), 3u);
  // Full batches of 8: 7, 15 and 2.
  const double steps[] = {7.0 / 24, 15.0 / 24, 2.0 / 24}, tested[] = {0.25, 0.625, 0.125};
  for (size_t i = 0; i < 3; ++i) {
    const Json& l = texts.at("lengths")[i];
    EXPECT_EQ(l.at("tokens"), 32 << i);
    EXPECT_DOUBLE_EQ(l.at("share_of_steps").get<double>(), steps[i]);
    EXPECT_DOUBLE_EQ(l.at("share_of_test").get<double>(), tested[i]);
  }
  const std::string line =
      "texts     of the steps 29 % of 32, 62 % of 64, 8 % of 128 tokens: times are their mean, memory is that of 256\n";
  const Ran text = with_columns(plan);
  EXPECT_NE(text.out.find(line), std::string::npos) << text.out;
  args = plan;
  args.insert(args.end(), {"--world", "1,2"});
  const Ran world = with_columns(args);
  EXPECT_NE(world.out.find(line), std::string::npos) << world.out << world.err;
  const Ran alone = run_freight({"plan", "--model", "text_bow"});
  EXPECT_NE(alone.out.find("the full length: without data the lengths are unknown"), std::string::npos) << alone.out;
  EXPECT_EQ(run_freight({"plan", "--model", "lenet"}).out.find("texts "), std::string::npos);
}

TEST(TextCommands, TrainEvalAndPredictAgree) {
  const std::string dir = small_reviews(), model = trained(dir);
  const Ran e = run_freight({"eval", model, "--json"});  // columns and split as in training
  ASSERT_EQ(e.code, 0) << e.err;
  EXPECT_EQ(Json::parse(e.out).at("count"), 40);
  EXPECT_EQ(Json::parse(e.out).at("top1"), 100.0);
  const Ran p = run_freight({"predict", model, "--text", "what a joy", "--text", "a BORE", "--json"});
  ASSERT_EQ(p.code, 0) << p.err;
  const size_t second = p.out.find('\n') + 1;
  const Json joy = Json::parse(p.out.substr(0, second)), bore = Json::parse(p.out.substr(second));
  EXPECT_EQ(joy.at("text"), "what a joy");
  EXPECT_EQ(joy.at("class"), "5");
  EXPECT_EQ(bore.at("class"), "1");
  // The same from standard input and from a file; each line has an answer, a blank one too.
  const Ran in = run_freight({"predict", model, "-", "--csv"}, "what a joy\n\na BORE\r\n");
  EXPECT_EQ(std::count(in.out.begin(), in.out.end(), '\n'), 1 + 3) << in.out;
  EXPECT_EQ(in.out.substr(0, in.out.find('\n')), "text,class,probability");
  EXPECT_NE(in.out.find("\nwhat a joy,5,"), std::string::npos) << in.out;
  EXPECT_NE(in.out.find("\na BORE,1,"), std::string::npos) << in.out;
  write_file(dir + "/lines.txt", "what a joy\n\na BORE\n");
  EXPECT_EQ(run_freight({"predict", model, dir + "/lines.txt", "--csv"}).out, in.out);
}

// Files with a label beside each text give their texts alone; what cannot be understood is refused.
TEST(TextCommands, PredictReadsTheTextColumnOfAFile) {
  const std::string dir = small_reviews(), model = trained(dir);
  const std::pair<const char*, const char*> kFiles[] = {
      {"a.csv", "stars,body\n1,what a joy\n5,\n1,\"a BORE\"\n"},  // the column that training read
      {"c.tsv", "body\tid\nwhat a joy\t7\n\t8\na BORE\t9\n"},
      {"d.jsonl", "{\"body\": \"what a joy\"}\n{\"body\": \"\"}\n{\"body\": \"a BORE\", \"stars\": 5}\n"},
      {"e.txt", "__label__1 what a joy\n__label__5\n__label__1 a BORE\n"},
  };
  for (const auto& [name, content] : kFiles) {
    write_file(dir + "/" + name, content);
    const Ran r = run_freight({"predict", model, dir + "/" + name, "--jsonl"});
    ASSERT_EQ(r.code, 0) << name << r.err;
    std::vector<Json> answers;
    for (size_t at = 0; at < r.out.size(); at = r.out.find('\n', at) + 1) {
      answers.push_back(Json::parse(r.out.substr(at, r.out.find('\n', at) - at)));
    }
    ASSERT_EQ(answers.size(), 3u) << name << r.out;
    const char* const texts[] = {"what a joy", "", "a BORE"};
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(answers[i].at("text"), texts[i]) << name;
    EXPECT_EQ(answers[0].at("top").at(0).at("class"), "5") << name;
    EXPECT_EQ(answers[2].at("top").at(0).at("class"), "1") << name;
  }
  write_file(dir + "/other.csv", "a,b,c\nx,y,z\n");
  const Ran refused = run_freight({"predict", model, dir + "/other.csv"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_NE(refused.err.find("other.csv: has no column body"), std::string::npos) << refused.err;
  write_file(dir + "/short.csv", "stars,body\n1,what a joy\n5\n");
  const Ran skipped = run_freight({"predict", model, dir + "/short.csv", "--csv", "--on-bad-sample", "skip"});
  ASSERT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_EQ(std::count(skipped.out.begin(), skipped.out.end(), '\n'), 2) << skipped.out;
  EXPECT_NE(skipped.err.find("short.csv:3: expected 2 fields as in the first line, got 1"), std::string::npos)
      << skipped.err;
}

TEST(TextCommands, EvalMeasuresAllOfAFileOfOnesOwn) {
  const std::string dir = small_reviews(), model = trained(dir);
  const auto count = [](const Ran& r) { return r.code == 0 ? Json::parse(r.out).at("count").get<int>() : -1; };
  const Ran same = run_freight({"eval", model, "--data", dir + "/run/../reviews.csv", "--json"});
  EXPECT_EQ(count(same), 40) << same.err;
  EXPECT_NE(same.err.find("20.0 % of each class"), std::string::npos) << same.err;
  write_file(dir + "/copy.csv", read_file(dir + "/reviews.csv"));
  EXPECT_EQ(count(run_freight({"eval", model, "--data", dir + "/copy.csv", "--json"})), 40)
      << "a copy is told by its content";
  std::string mine = "body,stars\n";
  for (int i = 0; i < 30; ++i) mine += "what a joy " + std::to_string(i) + ",5\n";
  write_file(dir + "/mine.csv", mine);
  const Ran own = run_freight({"eval", model, "--data", dir + "/mine.csv", "--json"});
  EXPECT_EQ(count(own), 30) << own.err;
  const Ran share = run_freight({"eval", model, "--data", dir + "/mine.csv", "--val-split", "0.5", "--json"});
  EXPECT_NE(share.code, 0) << "one class cannot be divided";
}

// A test set that training left alone stays one, whatever was chosen on the validation set beside it.
TEST(TextCommands, EvalNamesTheTestSetBesideAValidationSetThatDecided) {
  const std::string dir = scratch_dir(), data = dir + "/texts", model = dir + "/run/model.safetensors";
  std::filesystem::create_directory(data);
  for (const auto& [part, count] : {std::pair{"train", 80}, {"val", 30}, {"test", 50}}) {
    std::string rows;
    for (int i = 0; i < count; ++i) {
      rows += cat("{\"text\": \"a ", i % 2 ? "good" : "bad", " film of ", i, "\", \"label\": \"", i % 2, "\"}\n");
    }
    write_file(cat(data, "/", part, ".jsonl"), rows);
  }
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--metric", "f1"}, {"--early-stop", "2"}, {"--threshold", "recall=0.9"}}) {
    std::vector<std::string> args = {"train", data, "--model", "text_bow", "-o", dir + "/run", "--overwrite"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran r = run_freight(args);
    ASSERT_EQ(r.code, 0) << r.err;
    for (const auto& [split, count] : {std::pair{"test", 50}, {"val", 30}}) {
      const Ran e = run_freight({"eval", model, "--split", split, "--json"});
      ASSERT_EQ(e.code, 0) << e.err;
      EXPECT_EQ(Json::parse(e.out).at("split"), split) << (more.empty() ? "" : more[0]);
      EXPECT_EQ(Json::parse(e.out).at("count"), count);
      EXPECT_TRUE(Json::parse(e.out).at("scores").contains("mcc"));
    }
  }
}

TEST(TextCommands, BadInputIsNamedAndExitsThree) {
  const std::string dir = small_reviews(), model = trained(dir);
  write_file(dir + "/lines.txt", "fine\nnot \xff utf8\n");
  const Ran p = run_freight({"predict", model, dir + "/lines.txt"});
  EXPECT_EQ(p.code, 3);
  EXPECT_NE(p.err.find("lines.txt:2: not UTF-8"), std::string::npos) << p.err;
  EXPECT_EQ(run_freight({"predict", model}).code, 2);
  write_file(dir + "/bad.csv", read_file(dir + "/reviews.csv") + "a,b,c\n,5\n");
  const Ran stop = with_columns({"data", "info", dir + "/bad.csv"});
  EXPECT_EQ(stop.code, 3);
  EXPECT_NE(stop.err.find("bad.csv:202: expected 2 fields as in the first line, got 3"), std::string::npos) << stop.err;
  const Ran skip = with_columns({"data", "info", dir + "/bad.csv", "--on-bad-sample", "skip"});
  EXPECT_EQ(skip.code, 0);
  EXPECT_NE(skip.err.find("skipped: " + dir + "/bad.csv:203: the document is empty"), std::string::npos) << skip.err;
  write_file(dir + "/plain.csv", "text,label\na,x\nb,y\nc,x\nd,y\n\xff,x\n");
  const Ran verify = run_freight({"data", "verify", dir + "/plain.csv", "--json"});
  EXPECT_EQ(verify.code, 3);
  EXPECT_EQ(Json::parse(verify.out).at("bad").size(), 1u);
}

TEST(TextCommands, GenerateContinuesAPrompt) {
  const std::string dir = scratch_dir();
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcdef\n";
  write_file(dir + "/input.txt", text);
  write_file(dir + "/bigram.json", R"({"format":"freight-model-1","name":"bigram","input":[16],"input_dtype":"i32",
      "net":[{"type":"Embedding","rows":16,"width":16},{"type":"Linear","out":16}]})");
  const Ran t = run_freight({"train", dir + "/input.txt", "--model", dir + "/bigram.json", "--epochs", "20", "--lr",
                             "0.05", "-b", "8", "-o", dir + "/run"});
  ASSERT_EQ(t.code, 0) << t.err;
  EXPECT_NE(t.err.find("tokens of a corpus"), std::string::npos) << t.err;
  EXPECT_NE(t.out.find("freight generate"), std::string::npos) << t.out;
  const std::string model = dir + "/run/model.safetensors";
  const Ran g = run_freight({"generate", model, "--prompt", "cd", "--max-tokens", "6", "--temperature", "0"});
  EXPECT_EQ(g.out, "cdef\nabc\n") << g.err;
  const Json j = Json::parse(
      run_freight({"generate", model, "--prompt", "cd", "--max-tokens", "3", "--top-k", "1", "--json"}).out);
  EXPECT_EQ(j.at("text"), "ef\n");
  EXPECT_EQ(j.at("tokens").size(), 3u);
  EXPECT_EQ(run_freight({"generate", model, "--prompt", ""}).code, 3);
  EXPECT_EQ(run_freight({"generate", model, "--max-tokens", "4", "--temperature", "0"}).out, "\nabcd\n");
  EXPECT_NE(run_freight({"generate", "--help"}).out.find("the prompt to complete (default: a newline)\n"),
            std::string::npos);
  EXPECT_EQ(run_freight({"predict", model, "--text", "x"}).code, 2);
  EXPECT_EQ(Json::parse(run_freight({"eval", model, "--json"}).out).at("count"), 279);
}

}  // namespace
}  // namespace freight::test
