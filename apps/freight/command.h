// A command of `freight`: one row in a table (main.cpp, or its group's file) and one function. Commands throw
// freight::Error; main.cpp turns it into the line on stderr and the exit code.
#pragma once
#include <string>
#include <vector>

namespace freight::app {

using Args = std::vector<std::string>;  // the words after the command's name

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Args& args);  // the exit code
};

// `freight` itself, or a command with subcommands (`freight data`).
struct CommandGroup {
  std::string name;  // "freight", "freight data"
  std::string summary;
  std::vector<Command> commands;
};

// Runs the command that args[0] names, or shows the group's help (`--help`, `help [COMMAND]`). Throws Error(usage) that
// names the nearest command for an unknown one.
int dispatch(const CommandGroup& group, const Args& args);

int advise_command(const Args& args);
int bench_comm_command(const Args& args);
int bench_command(const Args& args);
int bench_compare_command(const Args& args);
int bench_linalg_command(const Args& args);
int calibrate_command(const Args& args);
int completion_command(const Args& args);
int data_check_command(const Args& args);
int data_command(const Args& args);
int data_preview_command(const Args& args);
int devices_command(const Args& args);
int env_command(const Args& args);
int eval_command(const Args& args);
int explain_command(const Args& args);
int export_command(const Args& args);
int generate_command(const Args& args);
int launch_command(const Args& args);
int models_command(const Args& args);
int models_convert_command(const Args& args);
int models_get_command(const Args& args);
int ops_command(const Args& args);
int plan_command(const Args& args);
int predict_command(const Args& args);
int profile_command(const Args& args);
int report_command(const Args& args);
int linalg_command(const Args& args);
int run_command(const Args& args);
int runs_command(const Args& args);
int serve_command(const Args& args);
int train_command(const Args& args);
int verify_command(const Args& args);

}  // namespace freight::app
