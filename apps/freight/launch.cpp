// `freight launch`: starts any program as the ranks of a job on this host. The program finds its rank in the
// environment, as `freight train` does (docs/launchers.md).
#include <string>
#include <vector>

#include "command.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/comm/launch_environment.h"
#include "options.h"
#include "ranks.h"

namespace freight::app {

int launch_command(const Args& args) {
  Args program;
  int64_t processes = 1;
  std::string log_dir;
  Options o("launch", "Starts a program as the ranks of a job on this host.", "-n N [options] PROGRAM [ARGUMENTS]",
            "Rank 0 prints here. When a rank fails, the others are ended and the error names it; Ctrl-C reaches all.\n"
            "  freight launch -n 2 script.py --epochs 3");
  o.positional("program", &program, "a program, or a Python script NAME.py, and its arguments", true);
  o.ends_at_arguments();
  o.add("-n,--processes", &processes, "processes to start", {.min = 1, .max = kMostDevices});
  o.add("--log-dir", &log_dir, "folder for the output of the other ranks (default: shown only of a rank that fails)",
        {.value = "DIR"});
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (const std::string source = comm::read_launch_environment().source; !source.empty()) {
    fail(ErrorKind::usage, "launch", "this process is a rank that ", source,
         " started: start the program without launch");
  }
  if (ends_with(program[0], ".py")) program.insert(program.begin(), env::get("FREIGHT_PYTHON_EXECUTABLE", "python3"));
  return run_program(program, processes, log_dir);
}

}  // namespace freight::app
