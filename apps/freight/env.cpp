// `freight env`: the environment variables that Freight reads, and their values.
#include "freight/base/env.h"

#include <cstdio>

#include "command.h"
#include "freight/io/json_library.h"
#include "options.h"
#include "text_table.h"

namespace freight::app {

namespace {

// A secret is not shown, as listings end up in logs and bug reports.
std::string value_shown(const env::Variable& v) { return v.secret ? "(set, not shown)" : env::get(v.name); }

}  // namespace

int env_command(const Args& args) {
  bool as_json = false;
  Options options("env", "Lists the environment variables that Freight reads, with their values.");
  options.add("--json", &as_json, "print a JSON array");
  if (options.parse(args) == Options::Outcome::done) return 0;

  if (as_json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const env::Variable& v : env::variables()) {
      list.push_back({{"name", v.name},
                      {"value", env::is_set(v.name) ? nlohmann::ordered_json(value_shown(v)) : nullptr},
                      {"meaning", v.meaning},
                      {"flag", v.flag}});
    }
    std::printf("%s\n", list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const env::Variable& v : env::variables()) {
    rows.push_back({v.name, env::is_set(v.name) ? value_shown(v) : "-", v.flag[0] ? v.flag : "-", v.meaning});
  }
  std::fputs(text_table({"variable", "value", "flag", "meaning"}, rows).c_str(), stdout);
  return 0;
}

}  // namespace freight::app
