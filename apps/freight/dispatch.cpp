// Finds a command in a group's table; see command.h.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"

namespace freight::app {

namespace {

std::string help_of(const CommandGroup& group) {
  std::string text = cat(group.summary, "\n\nUsage: ", group.name, " COMMAND [options]\n\nCommands:\n");
  size_t width = 0;
  for (const Command& c : group.commands) width = std::max(width, std::string_view(c.name).size());
  for (const Command& c : group.commands) {
    std::string left = cat("  ", c.name);
    left.resize(width + 4, ' ');
    text += left + c.summary + "\n";
  }
  return text + cat("\n", group.name, " COMMAND --help explains a command.\n");
}

}  // namespace

int dispatch(const CommandGroup& group, const Args& args) {
  if (args.empty()) {
    std::fputs(help_of(group).c_str(), stderr);
    return static_cast<int>(ErrorKind::usage);
  }
  std::string name = args[0];
  Args rest(args.begin() + 1, args.end());
  if (name == "--help" || name == "-h" || name == "help") {
    if (name != "help" || rest.empty()) {
      std::fputs(help_of(group).c_str(), stdout);
      return 0;
    }
    name = rest[0];
    rest.erase(rest.begin());
    const bool form = !rest.empty() && (rest.back() == "all" || rest.back() == "json");  // "--help all"
    rest.insert(form ? rest.end() - 1 : rest.end(), "--help");
  }
  std::vector<std::string> names;
  for (const Command& c : group.commands) {
    if (name == c.name) return c.run(rest);
    names.emplace_back(c.name);
  }
  refuse_unknown(name, {.kind = cat(starts_with(name, "-") ? "flag" : "command", " of `", group.name, "`"),
                        .got = name,
                        .known = names,
                        .otherwise = cat("; ", group.name, " --help lists the commands")});
}

}  // namespace freight::app
