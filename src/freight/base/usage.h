// Refusals that many commands and modules share, each with one wording. All throw Error(usage), whose op is `what`: a
// flag, a file or an op.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "freight/base/strings.h"

namespace freight {

// A flag, and whether it was given.
struct GivenFlag {
  std::string flag;
  bool given = false;
};
// Throws where both are given: "--grad-accum: cannot be combined with --shards: WHY".
void excludes(const GivenFlag& a, const GivenFlag& b, const std::string& why = {});

// Throws where a flag is given without another that it needs: "--elastic: needs --output-dir: WHY".
void requires_flag(const GivenFlag& a, const GivenFlag& needed, const std::string& why);

// "--rounds is a flag of tree models; this run trains a network"
[[noreturn]] void refuse_flag_of(const std::string& flag, const std::string& of, const std::string& here);

// Throws where a name is none of those that are known, of which the nearest is named: "unknown value: expected one of
// sgd, adam, got adm; did you mean adam?"
void need_name(const std::string& what, const std::string& got, const std::vector<std::string>& known);
[[noreturn]] void refuse_name(const std::string& what, const std::string& got, const std::vector<std::string>& known);
// A name of some kind that does not exist.
struct UnknownName {
  std::string kind, got;           // "model", "resnt18"
  std::vector<std::string> known;  // the nearest of these is named
  std::string otherwise = {};      // where none is near: "; freight ops lists them"
  std::string all = {};            // in any case, behind it
};
// "unknown model 'resnt18'; did you mean resnet18?"; the name is not repeated where `what` is the name.
[[noreturn]] void refuse_unknown(const std::string& what, const UnknownName& name);
// A column that a table does not have: "there is no column ag in people.csv: got age, sex; did you mean age?"
[[noreturn]] void refuse_column(const std::string& what, const std::string& column,
                                const std::vector<std::string>& columns, const std::string& table);
// "; did you mean adam?", or `otherwise` where no name is near. What other programs call it comes first
// (catalog/other_names.txt): "; did you mean --devices? (--devices 2, or a list like cuda:0,cuda:1)" for --gpus.
std::string did_you_mean(const std::string& got, const std::vector<std::string>& known,
                         const std::string& otherwise = {});

// A row of catalog/other_names.txt.
struct OtherName {
  std::string name, of;           // in lower case, with - for _; whose name it is
  std::vector<std::string> here;  // names here: the first that is known is meant
  std::string note;               // added; without names here it is the advice
};
const std::vector<OtherName>& other_names();

// A value that is well formed and does not fit the rest: "got cuda:0: a model of gbdt runs on the CPU"
[[noreturn]] void refuse_value(const std::string& what, const std::string& got, const std::string& why);
// A variable of the environment that is needed: "MASTER_PORT: is not set" and why
[[noreturn]] void refuse_unset(const std::string& variable, const std::string& why);
// Throws unless there is such a file, a pipe too: "there is no file nets/own.json"
void need_file(const std::string& what, const std::string& path);
// Throws for "-", where the result cannot be a stream: "expected a path, got -: a run is a directory"
void need_no_stream(const std::string& what, const std::string& path, const std::string& why);
// Things that several devices divide among them.
struct DeviceParts {
  int64_t devices = 1, parts = 1;
  std::string of;  // "8 shards", "a batch of 4"
  std::string fix = "expected one for each";
};
// Throws where devices are left without a part: "got 4 devices for 2 shards: expected one for each"
void need_part_for_each(const std::string& what, const DeviceParts& parts);

// "expected NAME*COUNT, like cpu*4, got 'cpu*x'"
[[noreturn]] void refuse_text(const std::string& what, const std::string& form, const std::string& got);

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();
// Throws for numbers outside [least, most], infinities and NaN: "workers: expected -1 to 1024, got -2". `name` may be
// empty.
void need_between(const std::string& what, const std::string& name, double got, double least, double most);
inline void need_at_least(const std::string& what, const std::string& name, double got, double least) {
  need_between(what, name, got, least, kNoLimit);
}
// Throws for numbers outside [least, below).
void need_below(const std::string& what, const std::string& name, double got, double least, double below);
// Throws unless finite and above 0.
void need_positive(const std::string& what, const std::string& name, double got);

// "expected 3, got 4 inputs"
void need_count(const std::string& what, const std::string& name, size_t got, size_t expected);
// "channels: expected a multiple of 3, got 8"
void need_multiple(const std::string& what, const std::string& name, int64_t got, int64_t of);
// A flag that a command needs: "--output: is missing; see freight export --help".
void need_given(const std::string& flag, bool given, const std::string& command);
// Something is there twice that may be there once: "two groups are named 'a'".
[[noreturn]] void refuse_twice(const std::string& what, const std::string& things, const std::string& name);

}  // namespace freight
