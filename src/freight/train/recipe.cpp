// Recipes: what recipes/*.json say for a data set. Each file names the data it is for ("mnist"; "pictures",
// "documents" and "corpus" are any set of that kind, "any" any other), the recipe's name, and the fields of Config that
// it changes.
#include "freight/train/recipe_files_internal.h"

#include <filesystem>

#include "freight/base/error.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/train/config_fields.h"
#include "freight/train/learner.h"

namespace freight::train {

namespace {

struct Recipe {
  std::string data, name;
  Config config;
};

Recipe read(const std::string& text, const std::string& source) {
  const auto j = io::parse_json<nlohmann::json>(text, source);
  Recipe r;
  for (const auto& [key, field] : {std::pair{"for", &r.data}, {"name", &r.name}}) {
    if (!j.is_object() || !j.contains(key) || !j[key].is_string()) {
      fail(ErrorKind::usage, source,
           "not a recipe: expected an object with the texts \"for\" and \"name\" and a \"config\"");
    }
    *field = j[key].get<std::string>();
  }
  const std::vector<std::string> keys = {"for", "name", "note", "config"};
  for (const auto& [key, value] : j.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    refuse_unknown(source, {.kind = "key", .got = key, .known = keys, .all = "; settings belong into \"config\""});
  }
  if (j.contains("config")) set_from_json(r.config, j["config"].dump(), source);
  return r;
}

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> kRecipes = [] {
    std::vector<Recipe> all;
    for (const RecipeFile& f : recipe_files()) all.push_back(read(f.text, f.path));
    return all;
  }();
  return kRecipes;
}

// Recipes of the set itself, else those of its kind.
std::vector<const Recipe*> for_data(const data::Source& source) {
  std::vector<const Recipe*> found;
  const char* kind = "any";
  switch (source.content()) {
    case data::Content::arrays:
    case data::Content::table: break;
    case data::Content::images: kind = "pictures"; break;
    case data::Content::documents: kind = "documents"; break;
    case data::Content::corpus: kind = "corpus"; break;
  }
  // A folder here that is called like a known set is not that set.
  std::error_code unreadable;  // such as a link to itself: reported when the data is read
  const bool own = source.in_memory() || (!source.entry() && std::filesystem::exists(source.name(), unreadable));
  for (const std::string& key : {own ? std::string(kind) : source.name(), std::string(kind)}) {
    for (const Recipe& r : recipes()) {
      if (r.data == key) found.push_back(&r);
    }
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace

Config::Config() = default;
Config::Config(const Config& other) = default;
Config::Config(Config&& other) noexcept = default;
Config& Config::operator=(const Config& other) = default;
Config& Config::operator=(Config&& other) noexcept = default;
Config::~Config() = default;

Config recipe(const data::Source& source, const std::string& name) {
  const auto named = [&](Config c) {
    c.data = source.name();
    c.data_dir = source.data_dir();
    c.recipe = name;
    return c;
  };
  if (ends_with(name, ".json")) {
    need_file("--recipe", name);
    return named(read(io::read_text(name), name).config);
  }
  for (const Recipe* r : for_data(source)) {
    if (r->name == name) return named(r->config);
  }
  const std::vector<std::string> names = recipe_names(source);
  refuse_unknown("--recipe", {.kind = "recipe",
                              .got = name,
                              .known = names,
                              .all = cat(" (for data ", source.name(), ": ", join(names, ", "), "; or a FILE.json)")});
}

namespace {

data::LoadOptions source_options(const Config& c) {
  return {.data_dir = c.data_dir, .text = {.text_column = c.text_column}};
}

}  // namespace

data::Source source_of(const Config& config) { return data::Source(config.data, source_options(config)); }

bool is_source_of(const data::Source& source, const Config& config) {
  return source.is(config.data, source_options(config));
}

void set_model(Config& c, const std::string& model) { set_model(c, model, source_of(c)); }

void set_model(Config& c, const std::string& model, const data::Source& source) {
  if (model == c.model) return;
  c.model = model;
  c.layers = c.width = 0;
  c.bidirectional = false;
  c.dropout = 0;
  const Learner* const learner = named_learner(c, source);
  if (!learner || learner == learners().front()) return;
  c.lr = kAutomaticRate;
  learner->choose(c);
}

void set_picture_sizes(Config& config, const Config& asked) {
  const bool crop = asked.train_crop_size > 0 || !asked.input_size.empty();
  if (crop) config.train_crop_size = config.val_crop_size = 0;
  if (crop || asked.val_crop_size > 0) config.val_resize_size = 0;
}

std::vector<std::string> recipe_names(const data::Source& source) {
  std::vector<std::string> names;
  for (const Recipe* r : for_data(source)) names.push_back(r->name);
  return names;
}

}  // namespace freight::train
