// A rank on another host: the words of an ssh command that starts it there, and ends it when the connection ends.
#pragma once
#include <string>
#include <vector>

namespace freight::comm {

struct RemoteRank {
  std::string host;
  std::vector<std::string> command;   // program and arguments, at the same paths there
  std::vector<std::string> settings;  // NAME=VALUE of its environment; no secrets, since others see command lines
  std::string job;                    // FREIGHT_JOB's value, which is among the settings, too
  double grace = 5;                   // seconds between SIGTERM and SIGKILL when the connection ends
};

// Runs in this process's folder there. The first line of its standard input becomes FREIGHT_TOKEN, each further one is
// the name of a signal for the rank ("TERM"); at the end of its input the rank is ended. Its exit code is the rank's,
// or 255 where ssh failed. FREIGHT_SSH names another command than ssh, with its options.
std::vector<std::string> remote_command(const RemoteRank& rank);

}  // namespace freight::comm
