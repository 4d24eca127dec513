// The rules that the options of every command follow, on a command made for this test.
#include "apps/freight/options.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "freight/base/error.h"
#include "run_command.h"

namespace freight::app {
namespace {

using Words = std::vector<std::string>;

struct Sample {
  int64_t batch = 64;
  double lr = 0.1;
  std::string optimizer = "sgd", precision = "fp32";
  std::optional<int64_t> epochs;
  bool progress = true, nesterov = false;
  Words files, tags;
  Options options{"sample", "A sample."};
  Options::Outcome outcome = Options::Outcome::run;

  explicit Sample(const Words& args) {
    options.positional("FILE", &files, "files", false);
    options.add("-b,--batch-size", &batch, "samples per step", {.key = "batch_size", .min = 1});
    options.add("--lr", &lr, "learning rate", {.key = "optimizer.lr", .min = 0, .aliases = {"--learning-rate"}});
    options.add("--optimizer", &optimizer, "rule", {.key = "optimizer.name", .one_of = {"sgd", "adam", "adamw"}});
    options.add("--precision", &precision, "",
                {.key = "precision", .one_of = {"fp32", "bf16"}, .synonyms = {{"single", "fp32"}, {"brain", "bf16"}}});
    options.add("--epochs", &epochs, "passes", {.key = "epochs", .min = 0});
    options.add("--progress", &progress, "progress line");
    options.add("--nesterov", &nesterov, "look ahead", {.key = "optimizer.nesterov"});
    options.add("--tag", &tags, "labels", {.key = "tags"});
    options.shorthand("--bf16", "--precision=bf16");
    options.enable_config();
    outcome = options.parse(args);
  }
};

std::string error_of(const Words& args) {
  try {
    Sample s(args);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "no error";
}

TEST(OptionsTest, AFlagIsNotTheValueOfTheFlagBeforeIt) {
  EXPECT_EQ(error_of({"--optimizer", "--lr", "0.1"}), "--optimizer: needs a value (sgd|adam|adamw), got the flag --lr");
  EXPECT_EQ(error_of({"--lr"}).substr(0, 19), "--lr: needs a value");
  EXPECT_EQ(error_of({"--lr", "--learning-rate=1"}).substr(0, 19), "--lr: needs a value");
  EXPECT_EQ(Sample({"--tag", "--not-a-flag", "--lr", "1e-3"}).tags, Words{"--not-a-flag"});
}

TEST(OptionsTest, DefaultsStayWithoutArguments) {
  const Sample s({});
  EXPECT_EQ(s.batch, 64);
  EXPECT_EQ(s.lr, 0.1);
  EXPECT_FALSE(s.epochs);
  EXPECT_TRUE(s.progress);
  EXPECT_FALSE(s.options.given("--lr"));
}

TEST(OptionsTest, BothFormsAndBothSpellingsAreAccepted) {
  EXPECT_EQ(Sample({"--batch-size", "7"}).batch, 7);
  EXPECT_EQ(Sample({"--batch-size=7"}).batch, 7);
  EXPECT_EQ(Sample({"--batch_size=7"}).batch, 7);
  EXPECT_EQ(Sample({"-b", "7"}).batch, 7);
  EXPECT_EQ(Sample({"-b7"}).batch, 7);
  EXPECT_EQ(Sample({"--learning_rate", "1e-3"}).lr, 1e-3);
  EXPECT_EQ(Sample({"--bf16"}).precision, "bf16");
  EXPECT_EQ(Sample({"--tag", "a_b", "--tag=c"}).tags, (Words{"a_b", "c"}));
}

TEST(OptionsTest, BooleansHaveANegation) {
  EXPECT_FALSE(Sample({"--no-progress"}).progress);
  EXPECT_FALSE(Sample({"--no_progress"}).progress);
  EXPECT_FALSE(Sample({"--progress=false"}).progress);
  EXPECT_TRUE(Sample({"--nesterov"}).nesterov);
  EXPECT_TRUE(Sample({"--no-nesterov", "--nesterov"}).nesterov);
}

TEST(OptionsTest, TheLastOfSeveralWins) { EXPECT_EQ(Sample({"--lr=1", "--lr=2"}).lr, 2); }

TEST(OptionsTest, ArgumentsMayBeADashAndFollowATwoDashes) {
  EXPECT_EQ(Sample({"a.png", "-b", "2", "-", "c.png"}).files, (Words{"a.png", "-", "c.png"}));
  EXPECT_EQ(Sample({"--", "--odd.png"}).files, (Words{"--odd.png"}));
}

TEST(OptionsTest, SynonymsOfAValueMeanIt) {
  EXPECT_EQ(Sample({"--precision", "brain"}).precision, "bf16");
  EXPECT_EQ(Sample({"--bf16", "--precision=single"}).precision, "fp32");
  EXPECT_EQ(Sample({"--set", "precision=brain"}).precision, "bf16");
}

struct Refused {
  Words args;
  std::string text;
};

TEST(OptionsTest, BadValuesNameTheFlagTheValueAndTheNeed) {
  const Refused table[] = {
      {{"--batch-size=0"}, "--batch-size: expected at least 1, got '0'"},
      {{"--batch-size=many"}, "--batch-size: expected a whole number, got 'many'"},
      {{"--batch-size=1.5"}, "--batch-size: expected a whole number, got '1.5'"},
      {{"--batch-size=99999999999999999999"}, "--batch-size: expected a whole number, got '99999999999999999999'"},
      {{"--lr=nan"}, "--lr: expected a finite number, got 'nan'"},
      {{"--lr", "-1"}, "--lr: expected at least 0, got '-1'"},
      {{"--lr="}, "--lr: expected a number, got ''"},
      {{"--optimizer", "adamx"}, "--optimizer: expected one of sgd, adam, adamw, got 'adamx'; did you mean adam?"},
      // Names of other programs (catalog/other_names.txt).
      {{"--max_epochs=3"}, "--max_epochs: unknown flag of `freight sample`; did you mean --epochs?"},
      {{"--per-device-train-batch-size", "3"},
       "--per-device-train-batch-size: unknown flag of `freight sample`; did you mean --batch-size? (over all "
       "devices)"},
      {{"--wandb"},
       "--wandb: unknown flag of `freight sample`; a run writes TensorBoard event files, which W&B imports "
       "(docs/report.md)"},
      {{"--optimizer", "adamw_torch"},
       "--optimizer: expected one of sgd, adam, adamw, got 'adamw_torch'; did you mean adamw?"},
      {{"--btach-size", "3"}, "--btach-size: unknown flag of `freight sample`; did you mean --batch-size?"},
      {{"--progress=maybe"}, "--progress: expected true or false, got 'maybe'"},
      {{"--set", "optimizer.lt=3"}, "--set: unknown key 'optimizer.lt'; did you mean optimizer.lr?"},
      {{"--set", "optimizer.lr"}, "--set: expected key=value, got 'optimizer.lr'"},
      {{"--set", "optimizer.lr=fast"}, "--set: optimizer.lr: expected a number, got 'fast'"},
      {{"--batch-size", "1099511627777"}, "--batch-size: expected at most 1099511627776, got '1099511627777'"},
      {{"--batch-size", std::string(200, '9')},
       "--batch-size: expected a whole number, got '" + std::string(77, '9') + "...'"},
      {{"--config", "/no/such.json"}, "--config: there is no file /no/such.json"},
  };
  for (const Refused& r : table) EXPECT_EQ(error_of(r.args), r.text);
  EXPECT_NE(error_of({"--lr"}).find("--lr"), std::string::npos);
}

TEST(OptionsTest, FlagsBeatSetBeatsFileBeatsDefault) {
  const std::string file = test::scratch_dir() + "/c.json";
  test::write_file(file,
                   R"({"batch_size": 32, "epochs": 5, "optimizer": {"lr": 0.5, "name": "adam"}, "tags": ["x", "y"]})");
  const Sample s({"--config", file, "--set", "optimizer.lr=0.25", "--set=epochs=6", "--epochs=7", "--set",
                  "optimizer.lr=0.125", "--set", "optimizer.nesterov=true"});
  EXPECT_EQ(s.batch, 32);
  EXPECT_EQ(s.epochs, 7);
  EXPECT_EQ(s.lr, 0.125);
  EXPECT_EQ(s.optimizer, "adam");
  EXPECT_TRUE(s.nesterov);
  EXPECT_EQ(s.tags, (Words{"x", "y"}));
  EXPECT_TRUE(s.options.given("--batch-size"));
}

TEST(OptionsTest, AnArgumentBeatsSetAndFile) {
  const std::string file = test::scratch_dir() + "/c.json";
  test::write_file(file, R"({"data": "of_file"})");
  for (const bool peeks : {false, true}) {
    for (const Words& args :
         {Words{"named", "--config", file}, {"named", "--set", "data=set"}, {"--data", "named", "--config", file}}) {
      std::string data = "usual";
      Options o("sample", "A sample.");
      o.positional("DATA", &data, "data", false);
      o.add("--data", &data, "data", {.key = "data"});
      o.enable_config();
      if (peeks) {
        o.peek(args);
      } else {
        o.parse(args);
      }
      EXPECT_EQ(data, "named") << args[1];
      EXPECT_TRUE(o.given("--data"));
    }
  }
}

TEST(OptionsTest, AConfigurationReadBackIsTheSame) {
  const std::string file = test::scratch_dir() + "/c.json";
  const Sample first({"--lr=0.3", "--epochs=2", "--tag=a"});
  test::write_file(file, first.options.config_json());
  const Sample second({"--config", file});
  EXPECT_EQ(second.options.config_json(), first.options.config_json());
  EXPECT_EQ(nlohmann::json::parse(first.options.config_json()).at("optimizer").at("lr"), 0.3);
}

TEST(OptionsTest, ADamagedConfigurationIsRefusedByName) {
  const std::string file = test::scratch_dir() + "/c.json";
  test::write_file(file, R"({"epochs": )");
  EXPECT_NE(error_of({"--config", file}).find(file + ": not valid JSON"), std::string::npos);
  test::write_file(file, R"({"epochs": -1})");
  EXPECT_EQ(error_of({"--config", file}), file + ": epochs: expected at least 0, got '-1'");
  test::write_file(file, R"({"epochs": [1, 2]})");
  EXPECT_EQ(error_of({"--config", file}), file + ": epochs: expected one value, got '[1,2]'");
  test::write_file(file, R"({"epochs": {}})");
  EXPECT_EQ(error_of({"--config", file}), file + ": epochs: expected a value, got '{}'");
  test::write_file(file, R"({"optimizer": {}})");
  EXPECT_EQ(error_of({"--config", file}), file + ": unknown key 'optimizer'; did you mean optimizer.lr?");
  test::write_file(file, R"({"epochs": 1, "epochs": 2})");
  EXPECT_EQ(error_of({"--config", file}), file + ": the key \"epochs\" appears twice in one object");
}

TEST(OptionsTest, HelpNamesEveryFlagWithItsDefault) {
  const Sample s({});
  const std::string help = s.options.help();
  for (const char* part : {"Usage: freight sample", "-b, --batch-size N", "(default 64)", "also --learning-rate",
                           "off: --no-progress", "--set KEY=VALUE", "sgd|adam|adamw", "-h, --help"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
  }
}

TEST(OptionsTest, DryRunIsAskedOfTheCommand) { EXPECT_TRUE(Sample({"--dry-run"}).options.dry_run()); }

}  // namespace
}  // namespace freight::app
