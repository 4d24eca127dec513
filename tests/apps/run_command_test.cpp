// The helper of this folder's tests (see run_command.h), and the behavior that all commands share.
#include "run_command.h"
#include "freight/base/clock.h"
#include "tests/support/folders.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

extern char** environ;

namespace freight::test {

namespace {

bool inherited(const char* entry) {
  for (const char* prefix : {"FREIGHT_", "CI=", "TERM=", "NO_COLOR="}) {
    if (std::strncmp(entry, prefix, std::strlen(prefix)) == 0) return false;
  }
  return true;
}

}  // namespace

std::string scratch_dir() {
  // Removed when the program ends; one per test, so that tests may run at once.
  struct Scratch {
    std::filesystem::path path;
    ~Scratch() {
      std::error_code ignored;
      if (!path.empty()) std::filesystem::remove_all(path, ignored);
    }
  };
  static Scratch scratch;
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(info->test_suite_name()) + "." + info->name();
  if (scratch.path.empty()) {
    scratch.path = std::filesystem::temp_directory_path() / ("freight-test." + std::to_string(getpid()));
  }
  const auto dir = scratch.path / name;
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  return dir.string();
}

void write_file(const std::string& path, const std::string& content) { std::ofstream(path) << content; }

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Running::Running(const std::vector<std::string>& args, const std::string& input,
                 const std::vector<std::string>& environment, void (*before)()) {
  char dir[] = "/tmp/freight-run.XXXXXX";
  EXPECT_NE(mkdtemp(dir), nullptr);
  dir_ = dir;
  const std::string in = dir_ + "/in", out = dir_ + "/out", err = dir_ + "/err";
  for (const std::string& path : {in, out, err}) write_file(path, path == in ? input : "");
  std::vector<std::string> words = {binary_dir() + "/bin/freight"};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv, envp;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  std::vector<std::string> settings = environment;
  for (char** e = environ; *e; ++e) {
    if (inherited(*e)) settings.emplace_back(*e);
  }
  for (std::string& s : settings) envp.push_back(s.data());
  envp.push_back(nullptr);

  child_ = fork();
  if (child_ == 0) {
    dup2(open(in.c_str(), O_RDONLY), 0);
    dup2(open(out.c_str(), O_WRONLY), 1);
    dup2(open(err.c_str(), O_WRONLY), 2);
    if (before) before();
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
}

Running::~Running() {
  if (!done_) {
    kill(child_, SIGKILL);
    waitpid(child_, &status_, 0);
  }
  std::filesystem::remove_all(dir_);
}

bool Running::ended() {
  if (!done_) done_ = waitpid(child_, &status_, WNOHANG) == child_;
  return done_;
}

bool Running::wait_until(const std::function<bool()>& event) {
  const auto start = std::chrono::steady_clock::now();
  while (seconds_since(start) < 300) {
    const bool last = ended();
    if (event()) return true;
    if (last) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // a checkpoint is half-written for a few milliseconds
  }
  return false;
}

bool Running::wait_for(const std::string& text) {
  return wait_until([&] { return read_file(dir_ + "/err").find(text) != std::string::npos; });
}

void Running::send(int signal) const { kill(child_, signal); }

Ran Running::finish() {
  if (!done_) waitpid(child_, &status_, 0);
  done_ = true;
  Ran ran;
  ran.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  ran.out = read_file(dir_ + "/out");
  ran.err = read_file(dir_ + "/err");
  return ran;
}

Ran run_freight(const std::vector<std::string>& args, const std::string& input,
                const std::vector<std::string>& environment) {
  return Running(args, input, environment).finish();
}

namespace {

TEST(Command, VersionAndHelpGoToStdout) {
  EXPECT_EQ(run_freight({"--version"}).out.rfind("freight ", 0), 0u);
  const Ran help = run_freight({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("devices"), std::string::npos);
  EXPECT_EQ(help.err, "");
}

TEST(Command, WithoutArgumentsShowsTheUsageOnStderr) {
  const Ran r = run_freight({});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("Usage:"), std::string::npos);
}

TEST(Command, UnknownCommandNamesTheNearest) {
  const Ran r = run_freight({"devcies"});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.err, "freight: error: devcies: unknown command of `freight`; did you mean devices?\n");
}

TEST(Command, UnknownFlagNamesTheNearest) {
  const Ran r = run_freight({"env", "--jsno"});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.err, "freight: error: --jsno: unknown flag of `freight env`; did you mean --json?\n");
}

TEST(Command, EveryCommandOfTheListExplainsItself) {
  std::istringstream lines(run_freight({"--help"}).out);
  std::string line;
  while (std::getline(lines, line) && line != "Commands:") {
  }
  int commands = 0;
  while (std::getline(lines, line) && line.rfind("  ", 0) == 0) {
    std::string name;
    std::istringstream(line) >> name;
    const Ran r = run_freight({name, "--help"});
    EXPECT_EQ(r.code, 0) << name;
    EXPECT_NE(r.out.find("Usage: freight " + name), std::string::npos) << r.out;
    EXPECT_EQ(run_freight({"help", name}).out, r.out);
    ++commands;
  }
  EXPECT_GE(commands, 2);
}

// Names of the commands that a help lists; none where it is no group's.
std::vector<std::string> listed_commands(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  std::string line;
  while (std::getline(lines, line) && line != "Commands:") {
  }
  while (std::getline(lines, line) && line.rfind("  ", 0) == 0) {
    std::istringstream(line) >> names.emplace_back();
  }
  return names;
}

TEST(Command, HelpFitsAScreenAndHelpAllShowsEveryOption) {
  std::vector<std::vector<std::string>> commands = {{"verify", "--world", "1"}};
  for (const std::string& name : listed_commands(run_freight({"--help"}).out)) {
    const std::vector<std::string> members = listed_commands(run_freight({name, "--help"}).out);
    for (const std::string& member : members) commands.push_back({name, member});
    if (members.empty()) commands.push_back({name});
  }
  for (std::vector<std::string> command : commands) {
    command.emplace_back("--help");
    const std::string brief = run_freight(command).out;
    EXPECT_LE(std::count(brief.begin(), brief.end(), '\n'), 40) << brief;
    EXPECT_NE(brief.find("-h, --help"), std::string::npos) << brief;
    std::istringstream lines(brief.substr(0, brief.find("--help all: all ")));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
    command.emplace_back("all");
    const std::string all = run_freight(command).out;
    EXPECT_GE(all.size(), brief.size()) << all;
    EXPECT_EQ(all.find("--help all: all "), std::string::npos) << all;
  }
  const std::string predict = run_freight({"predict", "--help"}).out;
  EXPECT_NE(predict.find("--csv                   write CSV\n"), std::string::npos) << predict;
  EXPECT_NE(predict.find("--columns NAMES         columns of the CSV"), std::string::npos) << predict;
  const std::string brief = run_freight({"train", "--help"}).out, all = run_freight({"train", "--help=all"}).out;
  EXPECT_NE(brief.find("freight train --help all: all "), std::string::npos) << brief;
  EXPECT_NE(brief.find("--epochs N"), std::string::npos) << brief;
  EXPECT_EQ(brief.find("--mixup-alpha"), std::string::npos) << brief;
  EXPECT_NE(all.find("--mixup-alpha"), std::string::npos) << all;
  EXPECT_NE(all.find("\nOptimizer and schedule:\n"), std::string::npos) << all;
  EXPECT_EQ(run_freight({"help", "train", "all"}).out, all);
  EXPECT_EQ(run_freight({"train", "-h", "all"}).out, all);
}

TEST(Command, HelpJsonHasTheArgumentsAndOptionsForPrograms) {
  const std::string help = run_freight({"train", "--help", "json"}).out;
  EXPECT_EQ(help.rfind(R"({"command":"train")", 0), 0u) << help;
  EXPECT_NE(help.find(R"("arguments":[{"name":"data","type":"text","required":false)"), std::string::npos) << help;
  // Where a word may stand in place of a number, the value is a text.
  EXPECT_NE(help.find(R"({"name":"--batch-size","type":"text")"), std::string::npos) << help;
  EXPECT_NE(help.find(R"({"name":"--epochs","type":"integer","required":false,"default":)"), std::string::npos) << help;
  EXPECT_NE(help.find(R"("choices":["refuse","auto","off"])"), std::string::npos) << help;
  EXPECT_EQ(run_freight({"help", "train", "json"}).out, help);
}

TEST(Command, ResultsThatCannotBeWrittenAreAFailure) {
  const std::string command = binary_dir() + "/bin/freight env > /dev/full 2> /dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
}

}  // namespace
}  // namespace freight::test
