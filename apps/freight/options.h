// The options of one command: a table that parses the command line, layers the configuration (default < --config FILE
// < --set key=value < arguments and flags), prints the help and the resolved configuration. JSON stays in options.cpp.
// Rules for every command: `--flag value` and `--flag=value`; dashes and underscores alike; booleans have `--no-X`; the
// last of several wins; an unknown flag is a usage error that names the nearest one.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace freight::app {

class Options {
 public:
  // The variable that takes a value; its initial value is the default that the help and --print-config show.
  using Target = std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*, std::optional<bool>*,
                              std::optional<int64_t>*, std::optional<double>*, std::optional<std::string>*>;
  struct More {
    std::string key = {};                  // dotted name in configuration files; "" keeps the option out of them
    std::string value = {};                // name of the value in the help; "" follows from the type
    std::vector<std::string> one_of = {};  // allowed values; empty allows all
    std::vector<std::pair<std::string, std::string>> synonyms = {};  // other words for values, and which each means
    std::optional<double> min = {}, max = {};  // inclusive bounds of a number (NaN and infinity are always refused)
    std::vector<std::string> aliases = {};     // accepted, not shown first in the help
    // A time like 30s may replace a whole number, and is stored here; the number is 0 then.
    double* seconds = nullptr;
    // A value with an equals sign, such as recall=0.95, may stand in place of a number, and goes here.
    std::string* rule = nullptr;
  };
  enum class Outcome { run, done };  // done: help or the configuration was printed

  // `synopsis` follows the command's name in the usage line; `notes` closes the help (examples).
  Options(std::string command, std::string summary, std::string synopsis = "[options]", std::string notes = {});
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  // The heading of the options added next.
  void group(const std::string& heading);
  // `names`: "-b,--batch-size"; the first long one names the option in messages. A bool also accepts --no-NAME.
  void add(const std::string& names, Target target, const std::string& help, const More& more);
  void add(const std::string& names, Target target, const std::string& help) { add(names, target, help, More{}); }
  // An argument without a flag, in the order of addition; a vector takes all remaining ones.
  void positional(const std::string& name, Target target, const std::string& help, bool required);
  // Everything from the first argument on is an argument, flags too: those of a program that is started.
  void ends_at_arguments();
  // `flag` stands for `meaning`: shorthand("--bf16", "--precision=bf16").
  void shorthand(const std::string& flag, const std::string& meaning);
  // The option also accepts `word` instead of a number, which sets `*word_given` and leaves the number. `help` is added
  // to its help.
  void accept_word(const std::string& name, const std::string& word, bool* word_given, const std::string& help);
  // The arguments and flags that `--help` shows, one line each, for a command with many; `--help all` shows the others,
  // too. Without it both show everything.
  void essentials(const std::vector<std::string>& names);
  // Adds --config, --set, --print-config and --dry-run.
  void enable_config();

  // Fills the targets. Throws Error(usage). Also applies -v and -q to the log level, and loads the --plugin libraries.
  Outcome parse(const std::vector<std::string>& args);

  // Fills the targets as far as the arguments are valid, without messages, and loads the --plugin libraries: for
  // commands whose defaults depend on an option. Then parse() with new Options.
  void peek(const std::vector<std::string>& args);

  bool dry_run() const;
  // True if the command only prints something: --dry-run, --print-config or --help.
  bool only_prints() const;
  bool quiet() const;
  // True if a configuration file, --set, a flag or an argument for the same variable set the option (named as in `add`,
  // "--batch-size").
  bool given(const std::string& name) const;
  // True if a flag on the command line set it. A configuration file may be of another model and contain all options.
  bool given_as_flag(const std::string& name) const;
  // Every option with a key, as nested JSON: what --print-config prints and a run saves.
  std::string config_json() const;
  // The text of `--help all`: every option by subject.
  std::string help() const;
  // The text of `--help json`: arguments and options as JSON, for programs that call the command.
  std::string help_json() const;
  // The text of `--help`: at most 40 lines.
  std::string short_help() const;

 private:
  struct Impl;
  void add_common();
  std::unique_ptr<Impl> impl_;
};

}  // namespace freight::app
