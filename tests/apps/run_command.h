// Runs the built command and returns what it wrote and its exit code.
#pragma once
#include <string>
#include <vector>

namespace freight::test {

struct Ran {
  int code = -1;  // exit code, or 128 + the signal that ended it
  std::string out, err;
};

// freight(args...) with standard input from `input` and extra NAME=VALUE settings; CI, TERM and FREIGHT_* are cleared.
Ran run_freight(const std::vector<std::string>& args, const std::string& input = {},
                const std::vector<std::string>& environment = {});
// A directory for this test, emptied first.
std::string scratch_dir();
void write_file(const std::string& path, const std::string& content);
std::string read_file(const std::string& path);

}  // namespace freight::test
