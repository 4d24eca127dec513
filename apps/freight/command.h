// A command of `freight`: one row in the table of main.cpp and one file with its function. Commands throw
// freight::Error; main.cpp turns it into the line on stderr and the exit code.
#pragma once
#include <string>
#include <vector>

namespace freight::app {

using Args = std::vector<std::string>;  // what follows the command's name

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Args& args);  // the exit code
};

int devices_command(const Args& args);
int env_command(const Args& args);

}  // namespace freight::app
