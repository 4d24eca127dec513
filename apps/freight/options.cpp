// See options.h. A value from a flag, from --set and from a file is checked by the same code (`assign`). CLI11 was
// tried and refused (docs/dependencies.md): the table, the layering and the messages had to be ours anyway, and the
// rest is the four `collect` functions.
#include "options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "freight/base/duration.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/file.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/nn/plugin.h"

namespace freight::app {

namespace {

// Ordered, so that a printed configuration has the order of the help.
using Json = nlohmann::ordered_json;

struct Option {
  std::vector<std::string> names;  // as shown; the first long one names the option in messages
  std::vector<std::string> hidden;
  std::string name, help, heading;
  Options::Target target;
  Options::More more;
  bool positional = false, required = false, given = false;
  std::string default_text;
  std::vector<std::string> values;                   // as on the command line
  std::vector<std::pair<std::string, bool*>> words;  // words that the option accepts instead of a number
};

template <class T>
struct ValueOf {
  using type = T;
};
template <class T>
struct ValueOf<std::optional<T>> {
  using type = T;
};

[[noreturn]] void bad_value(const Option& o, const std::string& text, const std::string& need,
                            const std::string& hint = {}) {
  fail(ErrorKind::usage, o.name, "expected ", need, ", got '", excerpt(text), "'", hint);
}

bool counts(const Option& o) {
  return std::holds_alternative<int64_t*>(o.target) || std::holds_alternative<std::optional<int64_t>*>(o.target);
}

void check_bounds(const Option& o, double v, const std::string& text) {
  const auto& m = o.more;
  if (!std::isfinite(v)) bad_value(o, text, "a finite number");
  // Larger counts are typing errors, and products of two of them overflow 64 bits. A seed is not a count.
  constexpr double kLargestCount = 0x1p40;
  if (std::fabs(v) > kLargestCount && !m.max && counts(o) && o.name != "--seed") {
    bad_value(o, text, cat("at most ", kLargestCount));
  }
  if ((m.min && v < *m.min) || (m.max && v > *m.max)) {
    bad_value(o, text,
              m.min && m.max ? cat("a number from ", *m.min, " to ", *m.max)
              : m.min        ? cat("at least ", *m.min)
                             : cat("at most ", *m.max));
  }
}

template <class T>
T convert(const Option& o, const std::string& text) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::string t = lower(text);
    if (t == "true" || t == "1" || t == "yes" || t == "on") return true;
    if (t == "false" || t == "0" || t == "no" || t == "off") return false;
    bad_value(o, text, "true or false");
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text;
  } else {
    const std::optional<T> v = parse_number<T>(text);
    if (!v) bad_value(o, text, std::is_integral_v<T> ? "a whole number" : "a number");
    check_bounds(o, static_cast<double>(*v), text);
    return *v;
  }
}

// Stores a value; appends it to a list.
void assign(Option& o, const std::string& text) {
  for (const auto& [word, word_given] : o.words) {
    *word_given = text == word;
    if (*word_given) return;
  }
  if (o.more.seconds) {
    *o.more.seconds =
        !text.empty() && std::isalpha(static_cast<unsigned char>(text.back())) ? parse_seconds(o.name, text) : 0;
    if (*o.more.seconds > 0) {
      *std::get<int64_t*>(o.target) = 0;
      return;
    }
  }
  if (o.more.rule) {
    const bool rule = text.find('=') != std::string::npos;
    *o.more.rule = rule ? text : "";
    if (rule) {
      *std::get<double*>(o.target) = 0;
      return;
    }
  }
  for (const auto& [synonym, means] : o.more.synonyms) {
    if (text == synonym) return assign(o, means);
  }
  if (!o.more.one_of.empty() && std::find(o.more.one_of.begin(), o.more.one_of.end(), text) == o.more.one_of.end()) {
    bad_value(o, text, "one of " + join(o.more.one_of, ", "), did_you_mean(text, o.more.one_of));
  }
  std::visit(
      [&](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          target->push_back(text);
        } else {
          *target = convert<typename ValueOf<T>::type>(o, text);
        }
      },
      o.target);
}

Json value_json(const Option& o) {
  if (o.more.seconds && *o.more.seconds > 0) return cat(*o.more.seconds, "s");
  if (o.more.rule && !o.more.rule->empty()) return *o.more.rule;
  return std::visit(
      [](auto* target) {
        using T = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<T, typename ValueOf<T>::type>) {
          return Json(*target);
        } else {
          return *target ? Json(**target) : Json(nullptr);
        }
      },
      o.target);
}

bool is_list(const Option& o) { return std::holds_alternative<std::vector<std::string>*>(o.target); }

void clear_list(Option& o) {
  if (is_list(o)) std::get<std::vector<std::string>*>(o.target)->clear();
}

bool is_bool(const Option& o) {
  return std::holds_alternative<bool*>(o.target) || std::holds_alternative<std::optional<bool>*>(o.target);
}

std::string value_name(const Option& o) {
  if (is_bool(o)) return "";
  if (!o.more.value.empty()) return o.more.value;
  if (std::holds_alternative<int64_t*>(o.target) || std::holds_alternative<std::optional<int64_t>*>(o.target))
    return "N";
  if (std::holds_alternative<double*>(o.target) || std::holds_alternative<std::optional<double>*>(o.target)) return "X";
  return o.more.one_of.empty() ? "TEXT" : join(o.more.one_of, "|");
}

// The column of the descriptions in a help text, and the width of the text.
constexpr size_t kColumn = 30, kWidth = 100;

// "  -b, --batch-size N"
std::string flag_text(const Option& o) {
  std::string text = o.positional ? cat("  ", o.name) : cat("  ", join(o.names, ", "), " ", value_name(o));
  if (!o.positional && o.names[0].size() > 2) text.insert(2, "    ");
  while (text.back() == ' ') text.pop_back();
  return text;
}

// The beginning of a description, up to its first semicolon, cut to at most `width` characters where possible.
std::string first_clause(const std::string& help, size_t width) {
  std::string text = help.substr(0, help.find("; "));
  if (text.size() > width) text = text.substr(0, text.find(" ("));
  if (text.size() > width) text = text.substr(0, std::min(text.rfind(", ", width), text.rfind(' ', width)));
  while (!text.empty() && (text.back() == ':' || text.back() == ',')) text.pop_back();
  return text;
}

// "--no-progress" for "--progress".
std::string negated(const std::string& name) { return "--no-" + name.substr(2); }

std::vector<std::string> wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines{""};
  for (const std::string& word : split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

// The scalars of a JSON document by dotted key.
void flatten(const Json& node, const std::string& prefix, std::vector<std::pair<std::string, Json>>& out) {
  // An empty object is not a value either, and is refused under its name.
  if (!node.is_object() || (node.empty() && !prefix.empty())) {
    out.emplace_back(prefix, node);
    return;
  }
  for (const auto& [key, value] : node.items()) flatten(value, prefix.empty() ? key : prefix + "." + key, out);
}

// A command reads its options several times, but a pipe provides its content only once.
Json read_once(const std::string& path) {
  struct Read {
    Json document;
    std::optional<Error> error;
  };
  static std::map<std::string, Read> pipes;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return io::read_json<Json>(path);
  const auto [at, fresh] = pipes.try_emplace(path);
  Read& r = at->second;
  if (fresh) {
    try {
      r.document = io::read_json<Json>(path);
    } catch (const Error& e) {
      r.error = e;
    }
  }
  if (r.error) throw Error(*r.error);
  return r.document;
}

}  // namespace

struct Options::Impl {
  std::string command, summary, synopsis, notes, heading = "Options";
  std::vector<Option> options;
  std::vector<std::pair<std::string, std::string>> shorthands;
  bool with_config = false, dry_run = false, print_config = false, help_wanted = false, verbose = false, quiet = false;
  std::string config_file;
  std::vector<std::string> sets, plugins, essentials;
  bool help_all = false, help_json = false, flags_end_at_arguments = false;

  std::vector<std::string> known_flags() const {
    std::vector<std::string> all;
    for (const Option& o : options) {
      for (const auto* list : {&o.names, &o.hidden}) {
        for (const std::string& n : *list) {
          if (!starts_with(n, "--")) continue;
          all.push_back(n);
          if (is_bool(o)) all.push_back(negated(n));
        }
      }
    }
    for (const auto& s : shorthands) all.push_back(s.first);
    return all;
  }

  [[noreturn]] void unknown_flag(const std::string& token) const {
    const std::string flag = token.substr(0, token.find('='));
    refuse_unknown(flag, {.kind = cat("flag of `freight ", command, "`"),
                          .got = flag,
                          .known = known_flags(),
                          .otherwise = cat("; see freight ", command, " --help")});
  }

  // Stores the values of the command line. An option that shares its variable with a given argument, as --data does
  // with DATA, is given, too: neither --set nor a file replaces it.
  void assign_given() {
    for (Option& o : options) {
      if (o.values.empty()) continue;
      clear_list(o);
      for (const std::string& v : o.values) assign(o, v);
      for (Option& other : options) other.given = other.given || other.target == o.target;
    }
  }

  // A positional argument and a flag may set the same value: only one of them may be given.
  void need_one_of_each() const {
    for (const Option& p : options) {
      if (!p.positional || p.values.empty()) continue;
      for (const Option& o : options) {
        if (o.positional || o.values.empty() || o.target != p.target || o.values == p.values) continue;
        fail(ErrorKind::usage, o.name, "is given twice: expected one of them, got ", excerpt(p.values.back()), " and ",
             o.name, " ", excerpt(o.values.back()));
      }
    }
  }

  // `--batch_size=x` -> `--batch-size=x`; shorthands are replaced.
  std::string canonical(std::string token) const {
    const size_t end = std::min(token.find('='), token.size());
    std::replace(token.begin(), token.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
    for (const auto& [flag, meaning] : shorthands) {
      if (token == flag) return meaning;
    }
    return token;
  }

  Option* find(const std::string& name) {
    const auto holds = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    for (Option& o : options) {
      if (holds(o.names) || holds(o.hidden)) return &o;
    }
    return nullptr;
  }

  // The value after a flag: the next argument, unless that is a flag of this command.
  std::string next_value(const Option& o, const std::vector<std::string>& args, size_t& i) {
    const bool last = i + 1 >= args.size();
    if (last || (starts_with(args[i + 1], "--") && find(canonical(args[i + 1].substr(0, args[i + 1].find('=')))))) {
      fail(ErrorKind::usage, o.name, "needs a value (", value_name(o), ")", last ? "" : ", got the flag ",
           last ? "" : args[i + 1]);
    }
    return args[++i];
  }

  void collect_long(const std::vector<std::string>& args, size_t& i) {
    const std::string token = canonical(args[i]);
    const size_t eq = token.find('=');
    const std::string name = token.substr(0, eq);
    if (Option* o = find(name)) {
      o->values.push_back(eq != std::string::npos ? token.substr(eq + 1)
                          : is_bool(*o)           ? "true"
                                                  : next_value(*o, args, i));
      return;
    }
    Option* positive = starts_with(name, "--no-") ? find("--" + name.substr(5)) : nullptr;
    if (!positive || !is_bool(*positive)) unknown_flag(args[i]);
    if (eq != std::string::npos) fail(ErrorKind::usage, name, "takes no value");
    positive->values.emplace_back("false");
  }

  // Parses "-b 7", "-b7", and clusters of booleans: "-vq".
  void collect_short(const std::vector<std::string>& args, size_t& i) {
    const std::string& token = args[i];
    for (size_t at = 1; at < token.size(); ++at) {
      Option* o = find(std::string{'-', token[at]});
      if (!o) unknown_flag(token);
      if (is_bool(*o)) {
        o->values.emplace_back("true");
        continue;
      }
      o->values.push_back(at + 1 < token.size() ? token.substr(at + 1) : next_value(*o, args, i));
      return;
    }
  }

  void collect_positional(const std::string& text) {
    for (Option& o : options) {
      if (!o.positional || (!o.values.empty() && !is_list(o))) continue;
      o.values.push_back(text);
      return;
    }
    fail(ErrorKind::usage, text, "unexpected argument; see freight ", command, " --help");
  }

  // "all" for --help all and --help=all, "json" likewise; "" for other words.
  static std::string help_form(const std::vector<std::string>& args, size_t& i) {
    for (const std::string form : {"all", "json"}) {
      if (args[i] == "--help=" + form) return form;
      if ((args[i] != "--help" && args[i] != "-h") || i + 1 >= args.size() || args[i + 1] != form) continue;
      ++i;
      return form;
    }
    return "";
  }

  void collect(const std::vector<std::string>& args) {
    bool flags_end = false;
    for (size_t i = 0; i < args.size(); ++i) {
      const std::string& a = args[i];
      if (flags_end || a.size() < 2 || a[0] != '-') {
        collect_positional(a);
        flags_end = flags_end || flags_end_at_arguments;
      } else if (const std::string form = help_form(args, i); !form.empty()) {
        help_all = form == "all";
        help_json = form == "json";
        find("--help")->values.emplace_back("true");
      } else if (a == "--") {
        flags_end = true;
      } else if (a[1] == '-') {
        collect_long(args, i);
      } else {
        collect_short(args, i);
      }
    }
  }

  void apply_json(const std::string& key, const Json& value, const std::string& source) {
    const auto at = std::find_if(options.begin(), options.end(),
                                 [&](const Option& o) { return !o.more.key.empty() && o.more.key == key; });
    if (at == options.end()) {
      std::vector<std::string> keys;
      for (const Option& o : options) {
        if (!o.more.key.empty()) keys.push_back(o.more.key);
      }
      refuse_unknown(source, {.kind = "key",
                              .got = key,
                              .known = keys,
                              .otherwise = cat("; freight ", command, " --print-config lists the keys")});
    }
    Option& o = *at;
    if (o.given) return;  // the command line takes precedence over the file
    if (value.is_null()) return;
    clear_list(o);
    const auto text = [](const Json& v) { return v.is_string() ? v.get<std::string>() : v.dump(); };
    try {
      if (value.is_object()) bad_value(o, "{}", is_list(o) ? "a list" : "a value");
      if (value.is_array()) {
        if (!is_list(o)) bad_value(o, value.dump(), "one value");
        for (const Json& v : value) assign(o, text(v));
      } else {
        assign(o, text(value));
      }
    } catch (const Error& e) {
      fail(ErrorKind::usage, source, key, ": ", e.message());
    }
  }

  // Layers with precedence are applied first and mark their options as given.
  void apply_layer(const Json& document, const std::string& source) {
    std::vector<std::pair<std::string, Json>> values;
    flatten(document, "", values);
    for (const auto& [key, value] : values) apply_json(key, value, source);
    for (const auto& entry : values) {
      for (Option& o : options) {
        if (!o.more.key.empty() && o.more.key == entry.first && !entry.second.is_null()) o.given = true;
      }
    }
  }

  void apply_sets() {
    for (auto it = sets.rbegin(); it != sets.rend(); ++it) {
      const size_t eq = it->find('=');
      if (eq == std::string::npos || eq == 0) refuse_text("--set", "key=value", *it);
      const std::string text = it->substr(eq + 1);
      const Json value = io::try_parse_json<Json>(text).value_or(Json(text));
      apply_layer(Json{{it->substr(0, eq), value}}, "--set");
    }
  }

  void apply_file() {
    if (config_file.empty()) return;
    need_file("--config", config_file);
    const Json document = read_once(config_file);
    if (!document.is_object()) fail(ErrorKind::usage, config_file, "a configuration must be a JSON object");
    apply_layer(document, config_file);
  }
};

Options::Options(std::string command, std::string summary, std::string synopsis, std::string notes)
    : impl_(std::make_unique<Impl>()) {
  impl_->command = std::move(command);
  impl_->summary = std::move(summary);
  impl_->synopsis = std::move(synopsis);
  impl_->notes = std::move(notes);
}
Options::~Options() = default;

void Options::group(const std::string& heading) { impl_->heading = heading; }

void Options::add(const std::string& names, Target target, const std::string& help, const More& more) {
  Option o;
  o.names = split(names, ',');
  o.hidden = more.aliases;
  const auto long_name =
      std::find_if(o.names.begin(), o.names.end(), [](const auto& n) { return starts_with(n, "--"); });
  o.name = long_name == o.names.end() ? o.names[0] : *long_name;
  o.help = help;
  o.heading = impl_->heading;
  o.target = target;
  o.more = more;
  const Json value = value_json(o);
  if (!value.is_null() && !value.is_array() && !(is_bool(o) && value == false)) {
    o.default_text = value.is_string() ? value.get<std::string>() : value.dump();
  }
  impl_->options.push_back(std::move(o));
}

void Options::positional(const std::string& name, Target target, const std::string& help, bool required) {
  Option o;
  o.name = name;
  o.help = help;
  o.heading = "Arguments";
  o.target = target;
  o.positional = true;
  o.required = required;
  impl_->options.push_back(std::move(o));
}

void Options::ends_at_arguments() { impl_->flags_end_at_arguments = true; }

void Options::shorthand(const std::string& flag, const std::string& meaning) {
  impl_->shorthands.emplace_back(flag, meaning);
}

void Options::accept_word(const std::string& name, const std::string& word, bool* word_given, const std::string& help) {
  Option* o = impl_->find(name);
  FREIGHT_CHECK(o, "no option ", name);
  o->words.emplace_back(word, word_given);
  o->help += "; " + help;
}

void Options::essentials(const std::vector<std::string>& names) { impl_->essentials = names; }

void Options::enable_config() {
  impl_->with_config = true;
  group("Configuration");
  add("--config", &impl_->config_file, "read options from a JSON file; flags and --set override it", {.value = "FILE"});
  add("--set", &impl_->sets, "set one key of the configuration; may be repeated", {.value = "KEY=VALUE"});
  add("--print-config", &impl_->print_config, "print the resolved configuration as JSON and stop");
  add("--dry-run", &impl_->dry_run, "check everything, print what would be done, and stop");
}

void Options::add_common() {
  group("Common");
  add("--plugin", &impl_->plugins,
      "a shared library with custom layers; may be repeated, and its code is executed (docs/extend/layer.md)",
      {.value = "LIB.so"});
  add("-v,--verbose", &impl_->verbose, "print more (log level debug)");
  add("-q,--quiet", &impl_->quiet, "only warnings, errors and results");
  add("-h,--help", &impl_->help_wanted,
      impl_->essentials.empty() ? "show this text" : "show the most used options; --help all shows every option");
}

Options::Outcome Options::parse(const std::vector<std::string>& args) {
  Impl& m = *impl_;
  add_common();
  m.collect(args);
  m.need_one_of_each();
  m.assign_given();
  if (m.help_wanted) {
    const std::string text = m.help_json ? help_json() : m.help_all ? help() : short_help();
    std::fputs(text.c_str(), stdout);
    return Outcome::done;
  }
  for (const Option& o : m.options) {
    need_given(o.name, o.given || !o.required, m.command);
  }
  m.apply_sets();
  m.apply_file();
  for (const std::string& path : m.plugins) nn::load_plugin(path);
  if (m.quiet) logging::set_level(logging::Level::warn);
  if (m.verbose) logging::set_level(logging::Level::debug);
  if (m.print_config) {
    std::printf("%s\n", config_json().c_str());
    return Outcome::done;
  }
  return Outcome::run;
}

void Options::peek(const std::vector<std::string>& args) {
  Impl& m = *impl_;
  add_common();
  try {
    m.collect(args);
    m.assign_given();
    m.apply_sets();
    m.apply_file();
  } catch (const Error&) {  // parse() reports it
  }
  if (m.help_wanted) return;
  for (const std::string& path : m.plugins) nn::load_plugin(path);  // plugins may define what the arguments name
}

bool Options::dry_run() const { return impl_->dry_run; }
bool Options::only_prints() const { return impl_->dry_run || impl_->print_config || impl_->help_wanted; }
bool Options::quiet() const { return impl_->quiet; }

bool Options::given(const std::string& name) const {
  for (const Option& o : impl_->options) {
    if (o.name == name) return o.given;
  }
  FREIGHT_CHECK(false, "no option ", name);
  return false;
}

bool Options::given_as_flag(const std::string& name) const {
  return std::any_of(impl_->options.begin(), impl_->options.end(),
                     [&](const Option& o) { return o.name == name && !o.values.empty(); });
}

std::string Options::config_json() const {
  Json document = Json::object();
  for (const Option& o : impl_->options) {
    if (o.more.key.empty()) continue;
    Json* node = &document;
    for (const std::string& part : split(o.more.key, '.')) node = &(*node)[part];
    *node = value_json(o);
  }
  return document.dump(2);
}

std::string Options::help_json() const {
  const Impl& m = *impl_;
  Json arguments = Json::array(), options = Json::array();
  for (const Option& o : m.options) {
    const bool number =
        std::holds_alternative<double*>(o.target) || std::holds_alternative<std::optional<double>*>(o.target);
    const char* const type = is_list(o)   ? "list"
                             : is_bool(o) ? "flag"
                             : counts(o)  ? "integer"
                             : number     ? "number"
                                          : "text";
    const bool plain = o.words.empty() && !o.more.seconds && !o.more.rule && o.more.synonyms.empty();
    (o.positional ? arguments : options)
        .push_back(
            {{"name", o.name},
             {"type", plain || is_list(o) ? type : "text"},
             {"required", o.required},
             {"default", o.default_text},
             {"choices", o.words.empty() && o.more.synonyms.empty() ? o.more.one_of : std::vector<std::string>()},
             {"help", o.help}});
  }
  return Json{{"command", m.command}, {"summary", m.summary}, {"arguments", arguments}, {"options", options}}.dump() +
         "\n";
}

std::string Options::short_help() const {
  const Impl& m = *impl_;
  if (m.essentials.empty()) return help();
  std::string out = cat(m.summary, "\n\nUsage: freight ", m.command, " ", m.synopsis, "\n\n");
  for (const std::string& name : m.essentials) {
    const auto at = std::find_if(m.options.begin(), m.options.end(), [&](const Option& o) { return o.name == name; });
    FREIGHT_CHECK(at != m.options.end(), "no option ", name);
    std::string left = flag_text(*at);
    if (left.size() + 2 > kColumn)
      left = cat(left.substr(0, left.rfind(' ')), value_name(*at).find('|') == std::string::npos ? " N" : " NAME");
    left.resize(std::max(left.size() + 2, kColumn), ' ');
    const std::string shown = at->default_text.empty() ? "" : cat(" (default ", at->default_text, ")");
    out += left + first_clause(at->help, kWidth - left.size() - shown.size()) + shown + "\n";
  }
  const auto all = std::count_if(m.options.begin(), m.options.end(), [](const Option& o) { return !o.positional; });
  out += cat("\nfreight ", m.command, " --help all: all ", all, " options by subject\n");
  if (!m.notes.empty()) out += "\n" + m.notes + "\n";
  return out;
}

std::string Options::help() const {
  const Impl& m = *impl_;
  std::string out = cat(m.summary, "\n\nUsage: freight ", m.command, " ", m.synopsis, "\n");
  std::vector<std::string> headings;
  for (const Option& o : m.options) {
    if (std::find(headings.begin(), headings.end(), o.heading) == headings.end()) headings.push_back(o.heading);
  }
  for (const std::string& heading : headings) {
    out += cat("\n", heading, ":\n");
    for (const Option& o : m.options) {
      if (o.heading != heading) continue;
      std::string left = flag_text(o);
      std::string right = o.help;
      std::vector<std::string> extra;
      if (!o.default_text.empty()) extra.push_back("default " + o.default_text);
      if (!o.hidden.empty()) extra.push_back("also " + join(o.hidden, ", "));
      if (is_bool(o) && o.default_text == "true") extra.push_back("off: " + negated(o.name));
      if (!extra.empty()) right += cat(" (", join(extra, "; "), ")");
      if (left.size() + 2 > kColumn) {
        out += left + "\n";
        left.clear();
      }
      for (const std::string& line : wrap(right, kWidth - kColumn)) {
        left.resize(kColumn, ' ');
        out += left + line + "\n";
        left.clear();
      }
    }
  }
  if (!m.shorthands.empty()) out += "\nShorthands:\n";
  for (const auto& [flag, meaning] : m.shorthands) out += cat("      ", flag, " stands for ", meaning, "\n");
  if (!m.notes.empty()) out += "\n" + m.notes + "\n";
  return out;
}

}  // namespace freight::app
