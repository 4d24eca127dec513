// Recipes, and the check of a configuration.
#include "freight/train/config.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "freight/data/catalog.h"
#include "freight/models/models.h"
#include "freight/train/config_fields.h"
#include "freight/train/recipe_files_internal.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"

namespace freight::train {
namespace {

using freight::testing::expect_error;

TEST(Recipe, EveryDataSetHasADefaultThatIsValid) {
  for (const char* data : {"digits", "mnist", "fashion-mnist", "cifar10", "some/directory"}) {
    const Config c = recipe(data);
    EXPECT_EQ(c.data, data);
    EXPECT_FALSE(c.model.empty());
    EXPECT_NO_THROW(validate(c));
  }
  EXPECT_EQ(recipe("cifar10").model, "cifarnet");
}

TEST(Recipe, EveryFileOfTheCommandGivesARunThatIsValid) {
  ASSERT_FALSE(recipe_files().empty());
  const std::set<std::string> kinds = {"pictures", "documents", "corpus", "any"};
  std::set<std::string> names;
  for (const RecipeFile& file : recipe_files()) {
    SCOPED_TRACE(file.path);
    const auto json = nlohmann::json::parse(file.text);
    const auto data = json.at("for").get<std::string>(), name = json.at("name").get<std::string>();
    EXPECT_TRUE(names.insert(cat(data, " ", name)).second) << "another file has this name for this data";
    const Config c = recipe("digits", cat(source_dir(), "/", file.path));
    EXPECT_NO_THROW(validate(c));
    EXPECT_NO_THROW(models::create(c.model));
    EXPECT_TRUE(json.contains("note")) << "what it reached";
    const bool known = data::find_entry(data) != nullptr;
    EXPECT_TRUE(known || kinds.contains(data)) << "no data is called " << data << ", so that nobody gets this recipe";
    if (known) {
      EXPECT_EQ(recipe(data, name).model, c.model);
    }
  }
}

TEST(Recipe, AnUnknownNameListsTheKnownOnes) {
  expect_error(ErrorKind::usage, {"--recipe", "fsat", "default", "fast"}, [] { recipe("mnist", "fsat"); });
}

TEST(Recipe, AFileOfTheUsersIsTaken) {
  const testing::TemporaryDir dir;
  const std::string path = dir / "mine.json";
  io::write_file_atomic(
      path,
      std::string_view(R"({"for": "any", "name": "mine", "config": {"model": "mlp", "optimizer": {"lr": 0.5}}})"));
  const Config c = recipe("digits", path);
  EXPECT_EQ(c.model, "mlp");
  EXPECT_EQ(c.lr, 0.5);
  EXPECT_EQ(c.recipe, path);
  EXPECT_EQ(c.data, "digits");
}

TEST(Recipe, ABadFileIsNamedWithWhatIsWrong) {
  const testing::TemporaryDir dir;
  const std::string path = dir / "mine.json";
  const std::pair<const char*, std::vector<std::string>> rows[] = {
      {"{", {path, "not valid JSON at line 1"}},
      {"[]", {path, "not a recipe"}},
      {R"({"for": "any", "name": "x", "config": {"epochs": {}}})", {path, "epochs", "{}", "a whole number"}},
      {R"({"for": "any", "name": "x", "config": {"epochs": 18446744073709551615}})", {path, "epochs", "1844674407"}},
      {R"({"for": "any", "name": "x", "name": "y"})", {path, "\"name\"", "twice"}},
      {R"({"name": "x", "config": {}})", {path, "\"for\""}},
      {R"({"for": "any", "name": "x", "lr": 1})", {path, "'lr'", "config"}},
      {R"({"for": "any", "name": "x", "config": {"optimizer": {"lrr": 1}}})", {path, "optimizer.lrr", "optimizer.lr?"}},
      {R"({"for": "any", "name": "x", "config": {"epochs": 1.5}})", {path, "epochs", "1.5", "a whole number"}},
      {R"({"for": "any", "name": "x", "config": {"flip": 1}})", {path, "flip"}},
      {R"({"for": "any", "name": "x", "config": []})", {path, "must be a JSON object"}},
  };
  for (const auto& [text, need] : rows) {
    io::write_file_atomic(path, std::string_view(text));
    SCOPED_TRACE(text);
    expect_error(ErrorKind::usage, need, [&] { recipe("digits", path); });
  }
  expect_error(ErrorKind::usage, {"there is no file"}, [&] { recipe("digits", dir / "none.json"); });
}

TEST(Config, EveryFieldWithAKeySurvivesJson) {
  Config c;
  for (const Field& f : config_fields()) {
    std::visit(
        [&](auto member) {
          using T = std::remove_cvref_t<decltype(c.*member)>;
          if constexpr (std::is_same_v<T, bool>) {
            c.*member = !(c.*member);
          } else if constexpr (std::is_same_v<T, std::string>) {
            c.*member += "x";
          } else {
            c.*member += 1;
          }
        },
        f.member);
  }
  Config back;
  set_from_json(back, to_json(c), "test");
  EXPECT_EQ(to_json(back), to_json(c));
  EXPECT_NE(to_json(back), to_json(Config{}));
}

TEST(Config, ValuesThatCannotWorkNameTheirFlag) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  struct Row {
    const char* flag;
    void (*spoil)(Config&, double);
    double value;
  };
  const Row rows[] = {
      {"--batch-size", [](Config& c, double v) { c.batch_size = static_cast<int64_t>(v); }, 0},
      {"--epochs", [](Config& c, double v) { c.epochs = static_cast<int64_t>(v); }, -1},
      {"--epochs", [](Config& c, double v) { c.epochs = static_cast<int64_t>(v); }, 0},
      {"--max-steps", [](Config& c, double v) { c.max_steps = static_cast<int64_t>(v); }, -1},
      {"--lr", [](Config& c, double v) { c.lr = v; }, nan},
      {"--lr", [](Config& c, double v) { c.lr = v; }, inf},
      {"--lr", [](Config& c, double v) { c.lr = v; }, -0.1},
      {"--momentum", [](Config& c, double v) { c.momentum = v; }, 1},
      {"--momentum", [](Config& c, double v) { c.momentum = v; }, nan},
      {"--weight-decay", [](Config& c, double v) { c.weight_decay = v; }, nan},
      {"--label-smoothing", [](Config& c, double v) { c.label_smoothing = v; }, 1},
      {"--model-ema", [](Config& c, double v) { c.model_ema = v; }, 1},
      {"--clip-grad-norm", [](Config& c, double v) { c.clip_grad_norm = v; }, nan},
      {"--clip-grad-norm", [](Config& c, double v) { c.clip_grad_norm = v; }, inf},
      {"--lr-gamma", [](Config& c, double v) { c.lr_gamma = v; }, nan},
      {"--lr-warmup-epochs", [](Config& c, double v) { c.lr_warmup_epochs = v; }, inf},
      {"--lr-step-size", [](Config& c, double v) { c.lr_step_size = static_cast<int64_t>(v); }, 0},
      {"--onecycle-pct-start", [](Config& c, double v) { c.onecycle_pct_start = v; }, 1.5},
      {"--keep", [](Config& c, double v) { c.keep = static_cast<int64_t>(v); }, -1},
      {"--save-every", [](Config& c, double v) { c.save_every = static_cast<int64_t>(v); }, -1},
      {"--eval-every", [](Config& c, double v) { c.eval_every = static_cast<int64_t>(v); }, 0},
      {"--seed", [](Config& c, double v) { c.seed = static_cast<int64_t>(v); }, -1},
  };
  for (const Row& row : rows) {
    Config c = recipe("digits");
    row.spoil(c, row.value);
    SCOPED_TRACE(cat(row.flag, " ", row.value));
    expect_error(ErrorKind::usage, {row.flag}, [&] { validate(c); });
  }
}

TEST(Config, TasksHaveTheirUsualNamesToo) {
  const std::pair<const char*, const char*> names[] = {
      {"classification", "classes"}, {"regression", "values"}, {"count", "counts"}, {"values", "values"}};
  for (const auto& [name, task] : names) {
    Config c = recipe("digits");
    set_from_json(c, cat(R"({"tables": {"task": ")", name, R"("}})"), "f");
    EXPECT_EQ(c.task, task);
    validate(c);
  }
}

TEST(Config, CheckpointsMayBeASpanOfTimeApart) {
  Config c = recipe("digits");
  set_from_json(c, R"({"save_every": "1m30s"})", "f");
  EXPECT_EQ(c.save_seconds, 90);
  EXPECT_EQ(c.save_every, 0);
  Config again = recipe("digits");
  set_from_json(again, to_json(c), "f");
  EXPECT_EQ(again.save_seconds, 90);
  set_from_json(again, R"({"save_every": 7})", "f");
  EXPECT_EQ(again.save_seconds, 0);
  EXPECT_EQ(again.save_every, 7);
  expect_error(ErrorKind::usage, {"--save-every", "30x"}, [&] { set_from_json(c, R"({"save_every": "30x"})", "f"); });
  c.save_seconds = -1;
  expect_error(ErrorKind::usage, {"--save-every"}, [&] { validate(c); });
}

TEST(Config, UnknownNamesGiveTheNearest) {
  Config c = recipe("digits");
  c.optimizer = "adma";
  expect_error(ErrorKind::usage, {"--optimizer", "adma", "did you mean adam?"}, [&] { validate(c); });
  c = recipe("digits");
  c.lr_scheduler = "cosin";
  expect_error(ErrorKind::usage, {"--lr-scheduler", "did you mean cosine?"}, [&] { validate(c); });
}

TEST(Config, AnotherModelThanTheRecipesHasItsOwnSizes) {
  Config c;
  set_from_json(c, R"({"model": "lstm_text", "dropout": 0.5, "text": {"layers": 2, "width": 64}})", "test");
  set_model(c, "lstm_text");
  EXPECT_EQ(c.layers, 2);
  set_model(c, "textcnn");
  EXPECT_EQ(c.model, "textcnn");
  EXPECT_EQ(c.layers, 0);
  EXPECT_EQ(c.width, 0);
  EXPECT_EQ(c.dropout, 0);
}

}  // namespace
}  // namespace freight::train
