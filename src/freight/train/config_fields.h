// The fields of a training configuration as one table: flag, key in files, help, allowed values. The command line,
// recipes, the stored config.json and the check of values all read it. A new setting is a member of Config and a row.
#pragma once
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "freight/train/config.h"

namespace freight::train {

// Limits say what a number may be, or which words a text. Numbers must be finite.
struct Limits {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool below_max = false;  // max itself is refused
  bool above_min = false;  // min itself is refused
  std::vector<std::string> one_of = {};
  std::vector<std::pair<std::string, std::string>> synonyms = {};  // other words for these, and which each means
};

// The kind of run that has a setting; it decides which flags need_flags_of() refuses.
enum class FlagKind { data, job, common, network, table, trees };
template <class Part>
constexpr FlagKind kind_of = FlagKind::data;
template <>
inline constexpr FlagKind kind_of<JobConfig> = FlagKind::job;
template <>
inline constexpr FlagKind kind_of<CommonConfig> = FlagKind::common;
template <>
inline constexpr FlagKind kind_of<NetworkConfig> = FlagKind::network;
template <>
inline constexpr FlagKind kind_of<TableConfig> = FlagKind::table;
template <>
inline constexpr FlagKind kind_of<TreeConfig> = FlagKind::trees;

struct Field {
  using Pointer = std::variant<bool Config::*, int64_t Config::*, double Config::*, std::string Config::*>;
  struct Member : Pointer {
    template <class T, class Part>
    Member(T Part::*member) : Pointer(static_cast<T Config::*>(member)), kind(kind_of<Part>) {}  // NOLINT
    FlagKind kind;
  };
  const char* group;  // heading in the help
  const char* names;  // flags: "-b,--batch-size"
  const char* key;    // dotted, in JSON; "" keeps the field out of files
  Member member;
  const char* help;
  Limits limits = {};
  std::vector<std::string> aliases = {};
  const char* value = "";   // name of the value in the help; "" follows from the type
  bool may_change = false;  // when a run goes on: its length, record keeping and the machine
  // A time like 30s may stand in place of a whole number, and goes here; the number is 0 then.
  double Config::*seconds = nullptr;
  // A rule like recall=0.95 may stand in place of a number, and goes here; the number is 0 then.
  std::string Config::*rule = nullptr;

  // The long flag: "--batch-size".
  std::string flag() const;
  // The word that `word` means, which is itself unless it is a synonym.
  std::string meaning(const std::string& word) const;
};
// The kind of model that a run trains, for the flags of other models.
struct Trained {
  FlagKind kind = FlagKind::network;       // or table
  std::string name;                        // "a network", "gbdt"
  std::vector<std::string> flags = {};     // of other kinds, that it has besides
  std::vector<Config> usual = {Config()};  // values that say nothing: defaults, and those of a recipe
};
// Throws Error(usage) for a setting that what is trained does not have, and that is given or not as usual: "--rounds is
// a flag of tree models; this run trains a network".
void need_flags_of(const Trained& trained, const Config& config,
                   const std::function<bool(const std::string& flag)>& flag_is_given);
const std::vector<Field>& config_fields();

// All fields with a key as nested JSON, indented.
std::string to_json(const Config& config);
// Sets the fields that a JSON object names. Throws Error(usage) with `source` for text that is no JSON object, unknown
// keys (the nearest is named) and values of another type.
void set_from_json(Config& config, const std::string& text, const std::string& source);

}  // namespace freight::train
