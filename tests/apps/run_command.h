// Runs the built command and returns what it wrote and its exit code.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace freight::test {

struct Ran {
  int code = -1;  // exit code, or 128 + the signal that ended it
  std::string out, err;
};

// The command while it runs: for tests that send signals. Destroying it kills what still runs.
class Running {
 public:
  // `before` runs in the child, before the command starts.
  explicit Running(const std::vector<std::string>& args, const std::string& input = {},
                   const std::vector<std::string>& environment = {}, void (*before)() = nullptr);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  // Waits until `event` is true; false where the command ended without it. The limit of five minutes only ends a hang:
  // a loaded machine may be slow.
  bool wait_until(const std::function<bool()>& event);
  // Waits until standard error contains `text`.
  bool wait_for(const std::string& text);
  void send(int signal) const;
  int pid() const { return child_; }
  Ran finish();

 private:
  bool ended();  // without waiting
  std::string dir_;
  int child_ = -1, status_ = 0;
  bool done_ = false;
};

// freight(args...) with standard input from `input` and extra NAME=VALUE settings; CI, TERM and FREIGHT_* are cleared.
Ran run_freight(const std::vector<std::string>& args, const std::string& input = {},
                const std::vector<std::string>& environment = {});
// A directory for this test, emptied first.
std::string scratch_dir();
void write_file(const std::string& path, const std::string& content);
std::string read_file(const std::string& path);

}  // namespace freight::test
