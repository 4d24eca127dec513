// The command `freight`: the table of commands, and how an error leaves the program. To add a command: a file NAME.cpp
// here, its declaration in command.h, a row below, a test in tests/apps.
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/base/version.h"

namespace freight::app {
namespace {

constexpr Command kCommands[] = {
    {"devices", "the devices of this machine, and why others are missing", devices_command},
    {"env", "the environment variables that are honoured, and their values", env_command},
};

std::string usage() {
  std::string text = "Freight trains, stores and deploys deep-learning models.\n\nUsage: freight COMMAND [options]\n\n";
  text += "Commands:\n";
  for (const Command& c : kCommands) {
    std::string left = cat("  ", c.name);
    left.resize(12, ' ');
    text += left + c.summary + "\n";
  }
  return text + "\nfreight COMMAND --help explains a command; freight --version prints the version.\n";
}

int dispatch(const Args& args) {
  if (args.empty()) {
    std::fputs(usage().c_str(), stderr);
    return static_cast<int>(ErrorKind::usage);
  }
  std::string name = args[0];
  Args rest(args.begin() + 1, args.end());
  if (name == "--version" || name == "-V" || name == "version") {
    std::printf("freight %s\n", version());
    return 0;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    if (name != "help" || rest.empty()) {
      std::fputs(usage().c_str(), stdout);
      return 0;
    }
    name = rest[0];
    rest = {"--help"};
  }
  std::vector<std::string> names;
  for (const Command& c : kCommands) {
    if (name == c.name) return c.run(rest);
    names.emplace_back(c.name);
  }
  const std::string near = nearest(name, names);
  fail(ErrorKind::usage, name, name[0] == '-' ? "unknown flag" : "unknown command",
       near.empty() ? "; freight --help lists the commands" : cat("; did you mean ", near, "?"));
}

int report(const char* text, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "freight: error: %s\n", text);
  return code;
}

int guarded(const Args& args) {
  try {
    const int code = dispatch(args);
    // Results that could not be written are a failure even though the work was done.
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      return report("cannot write to standard output", static_cast<int>(ErrorKind::runtime));
    }
    return code;
  } catch (const Error& e) {
    return report(e.what(), e.exit_code());
  } catch (const std::bad_alloc&) {
    return report("out of memory", static_cast<int>(ErrorKind::capacity));
  } catch (const std::exception& e) {
    return report(e.what(), static_cast<int>(ErrorKind::runtime));
  }
}

}  // namespace
}  // namespace freight::app

int main(int argc, char** argv) { return freight::app::guarded(freight::app::Args(argv + 1, argv + argc)); }
