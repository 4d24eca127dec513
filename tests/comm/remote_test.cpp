// Ranks that the launcher starts on other hosts: by a stand-in for ssh, which runs the words that ssh would send, and
// by a real sshd on a loopback port, where there is one.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "freight/base/clock.h"
#include "freight/comm/launcher.h"
#include "tests/comm/ranks.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

using comm::JobEnd;
using testing::read_text;

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// True while the process is there and no zombie.
bool lives(int process) {
  std::string text;
  std::getline(std::ifstream(cat("/proc/", process, "/stat")), text);
  return !text.empty() && text.find(") Z ") == std::string::npos;
}

bool is_gone_within(int process, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (lives(process) && seconds_since(start) < seconds) ::usleep(20000);
  return !lives(process);
}

int number_soon_in(const std::string& path) {
  for (int i = 0; i < 500; ++i) {
    int number = -1;
    if (std::ifstream(path) >> number) return number;
    ::usleep(20000);
  }
  return -1;
}

// Notes its words and runs the last one in a shell of its own, as sshd does.
class StandInSsh {
 public:
  explicit StandInSsh(const testing::TemporaryDir& dir) : path_(dir / "ssh"), words_(dir / "words") {
    std::ofstream(path_) << "#!/bin/sh\necho \"$@\" >> " << words_
                         << "\nshift $(($# - 1))\nexec setsid -w sh -c \"$1\"\n";
    ::chmod(path_.c_str(), 0755);
    ::setenv("FREIGHT_SSH", path_.c_str(), 1);
  }
  ~StandInSsh() { ::unsetenv("FREIGHT_SSH"); }
  std::string words() const { return read_text(words_); }

 private:
  std::string path_, words_;
};

comm::LaunchOptions shell_on(const testing::TemporaryDir& dir, int world, const std::string& script) {
  comm::LaunchOptions o = {.command = {"sh", "-c", script}, .world = world, .log_dir = dir / "logs", .grace = 1};
  o.hosts = {"127.0.0.1", "other"};
  return o;
}

TEST(RemoteRanks, GetTheirNumbersAndTheTokenAndNoCommandLineHasIt) {
  const testing::TemporaryDir dir;
  const StandInSsh ssh(dir);
  const testing::ScopedEnvironment handed_on("FREIGHT_LOG", "info");
  ::setenv("SOME_SECRET", "of mine", 1);
  const JobEnd end = comm::run_job(
      shell_on(dir, 3,
               "echo $FREIGHT_RANK of $FREIGHT_WORLD_SIZE, $FREIGHT_LOCAL_RANK of $FREIGHT_LOCAL_WORLD_SIZE at "
               "$MASTER_ADDR, log $FREIGHT_LOG, it\\'s \"$SOME_SECRET\"; echo $FREIGHT_JOB; echo $FREIGHT_TOKEN; pwd"));
  ::unsetenv("SOME_SECRET");
  EXPECT_FALSE(end.failed()) << to_string(end);
  std::vector<std::vector<std::string>> logs;
  for (int r = 0; r < 3; ++r) logs.push_back(split(read_text(cat(dir / "logs", "/rank-", r, ".log")), '\n'));
  ASSERT_EQ(logs[2].size(), 5u) << logs[2][0];
  EXPECT_EQ(logs[0][0], "0 of 3, 0 of 2 at 127.0.0.1, log info, it's of mine");
  EXPECT_EQ(logs[1][0], "1 of 3, 1 of 2 at 127.0.0.1, log info, it's of mine");
  EXPECT_TRUE(starts_with(logs[2][0], "2 of 3, 0 of 1 at 127.0.0.1, log info, it's")) << logs[2][0];
  const std::string token = logs[0][2];
  EXPECT_EQ(token.size(), 32u);
  for (const auto& log : logs) {
    EXPECT_EQ(log[1], logs[0][1]) << "the job";
    EXPECT_EQ(log[2], token);
    EXPECT_EQ(log[3], logs[0][3]) << "the folder";
  }
  EXPECT_TRUE(holds(ssh.words(), "other exec sh -c ")) << ssh.words();
  EXPECT_FALSE(holds(ssh.words(), token));
  EXPECT_FALSE(holds(ssh.words(), "of mine"));
}

TEST(RemoteRanks, HandOnTheirExitCodesWithTheirHost) {
  const testing::TemporaryDir dir;
  const StandInSsh ssh(dir);
  const JobEnd end = comm::run_job(shell_on(dir, 2, "test $FREIGHT_RANK = 0 || exit 5; exec sleep 60"));
  EXPECT_TRUE(holds(to_string(end), "rank 1 on host other ended with exit code 5; its log is ")) << to_string(end);
}

TEST(RemoteRanks, AreEndedWhenAnotherFails) {
  const testing::TemporaryDir dir;
  const StandInSsh ssh(dir);
  const std::string note = dir / "number";
  const auto start = std::chrono::steady_clock::now();
  // It ignores what asks it to end.
  const JobEnd end = comm::run_job(shell_on(
      dir, 2,
      cat("if test $FREIGHT_RANK = 0; then while ! test -s ", note,
          "; do sleep 0.05; done; exit 3; fi; trap '' TERM; echo $$ > ", note, "; while :; do sleep 0.1; done")));
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_LT(seconds_since(start), 30);
  EXPECT_TRUE(is_gone_within(number_soon_in(note), 5));
}

// A request to save ends no job. It is ignored until a program says what it does, and a shell cannot say that of what
// is ignored when it starts.
TEST(RemoteRanks, GetTheSignalsOfTheLauncher) {
  const testing::TemporaryDir dir;
  const StandInSsh ssh(dir);
  const std::string note = dir / "number";
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    comm::LaunchOptions o = shell_on(dir, 2,
                                     cat("trap 'echo asked; exit 0' USR1; test $FREIGHT_RANK = 1 && echo $$ > ", note,
                                         "; while :; do sleep 0.05; done"));
    o.command.insert(o.command.begin(), {"env", "--default-signal=USR1"});
    const JobEnd end = comm::run_job(o);
    ::_exit(end.failed() || end.forwarded != 0 ? 1 : 0);
  }
  ASSERT_GT(number_soon_in(note), 0);
  ::usleep(200000);
  ::kill(launcher, SIGUSR1);
  int status = 0;
  ::waitpid(launcher, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(read_text(dir / "logs/rank-1.log"), "asked\n");
}

TEST(RemoteRanks, DoNotOutliveAKilledLauncher) {
  const testing::TemporaryDir dir;
  const StandInSsh ssh(dir);
  const std::string note = dir / "number";
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    comm::run_job(
        shell_on(dir, 2, cat("test $FREIGHT_RANK = 1 && echo $$ > ", note, "; while :; do sleep 0.05; done")));
    ::_exit(0);
  }
  const int rank = number_soon_in(note);
  ASSERT_GT(rank, 0);
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(is_gone_within(rank, 5));
}

TEST(RemoteRanks, AreRefusedWhereTheHostsDoNotFit) {
  const testing::TemporaryDir dir;
  struct Row {
    std::vector<std::string> hosts;
    const char* part;
  };
  const Row rows[] = {
      {{"127.0.0.1", "b", "c"}, "--hosts: got 3 hosts for 2 processes"},
      {{"192.0.2.1", "b"}, "--hosts: got '192.0.2.1' for the first host, need "},
      {{"127.0.0.1", "-oProxyCommand=touch"}, "--hosts: got '-oProxyCommand=touch', need names or addresses"},
      {{"127.0.0.1", ""}, "--hosts: got '', need names"},
  };
  for (const Row& row : rows) {
    comm::LaunchOptions o = shell_on(dir, 2, "exit 0");
    o.hosts = row.hosts;
    const Error e = testing::error_of([&] { comm::run_job(o); });
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_TRUE(holds(e.what(), row.part)) << e.what();
  }
}

TEST(RemoteRanks, NameAnSshThatFails) {
  const testing::TemporaryDir dir;
  const std::string ssh = dir / "no-ssh";
  std::ofstream(ssh) << "#!/bin/sh\necho no route to $1 >&2\nexit 255\n";
  ::chmod(ssh.c_str(), 0755);
  const testing::ScopedEnvironment fails("FREIGHT_SSH", ssh);
  const JobEnd end = comm::run_job(shell_on(dir, 2, "test $FREIGHT_RANK = 0 && exec sleep 60"));
  EXPECT_TRUE(holds(to_string(end), "rank 1 on host other ended with exit code 255, which is ssh's where it fails;"))
      << to_string(end);
  EXPECT_EQ(read_text(end.log), "no route to other\n");
  EXPECT_TRUE(end.of_ssh());
}

TEST(RemoteRanks, NameAnSshThatIsNotThere) {
  const testing::TemporaryDir dir;
  const testing::ScopedEnvironment missing("FREIGHT_SSH", "/no/such/ssh -p 22");
  const Error e = testing::error_of([&] { comm::run_job(shell_on(dir, 2, "exec sleep 60")); });
  EXPECT_TRUE(holds(e.what(), "/no/such/ssh: cannot be started for rank 1 on host other: No such file")) << e.what();
  EXPECT_TRUE(holds(e.what(), "FREIGHT_SSH")) << e.what();
}

// Debian's openssh-server on a loopback port, with keys of its own.
class Sshd {
 public:
  explicit Sshd(const testing::TemporaryDir& dir) : port_(free_port()) {
    const std::string key = dir / "key", host_key = dir / "host-key", config = dir / "sshd_config";
    const auto run = [](const std::string& c) { return std::system((c + " >/dev/null 2>&1").c_str()) == 0; };
    if (::access("/usr/sbin/sshd", X_OK) != 0) {
      why_ = "there is no /usr/sbin/sshd (openssh-server)";
    } else if (!run(cat("ssh-keygen -q -t ed25519 -N '' -f ", key)) ||
               !run(cat("ssh-keygen -q -t ed25519 -N '' -f ", host_key))) {
      why_ = "ssh-keygen makes no keys";
    } else {
      std::ofstream(config) << "Port " << port_ << "\nListenAddress 127.0.0.1\nHostKey " << host_key
                            << "\nAuthorizedKeysFile " << key << ".pub\nStrictModes no\nPidFile " << dir / "pid"
                            << "\nUsePAM no\n";
      run("mkdir -p /run/sshd");
      daemon_ = ::fork();
      if (daemon_ == 0) {
        ::execl("/usr/sbin/sshd", "/usr/sbin/sshd", "-D", "-q", "-f", config.c_str(), nullptr);
        ::_exit(127);
      }
      const std::string ssh = cat("ssh -p ", port_, " -i ", key, " -o BatchMode=yes -o StrictHostKeyChecking=no ",
                                  "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR");
      bool in = false;
      for (int i = 0; i < 50 && !in; ++i, ::usleep(100000)) in = run(ssh + " 127.0.0.1 true");
      if (!in) why_ = "sshd lets nobody in on this machine";
      ::setenv("FREIGHT_SSH", ssh.c_str(), 1);
    }
  }
  ~Sshd() {
    ::unsetenv("FREIGHT_SSH");
    if (daemon_ > 0) {
      ::kill(daemon_, SIGTERM);
      ::waitpid(daemon_, nullptr, 0);
    }
  }
  Sshd(const Sshd&) = delete;
  Sshd& operator=(const Sshd&) = delete;
  const std::string& why_not() const { return why_; }

 private:
  int port_;
  pid_t daemon_ = -1;
  std::string why_;
};

TEST(RemoteRanks, StartEndAndFailByARealSshd) {
  const testing::TemporaryDir dir;
  const Sshd sshd(dir);
  if (!sshd.why_not().empty()) GTEST_SKIP() << sshd.why_not();
  comm::LaunchOptions o = shell_on(dir, 2, "echo $FREIGHT_RANK ${#FREIGHT_TOKEN} ${SSH_CONNECTION:+by ssh}; pwd");
  o.hosts = {"127.0.0.1", "127.0.0.1"};
  const JobEnd end = comm::run_job(o);
  EXPECT_FALSE(end.failed()) << to_string(end) << "\n" << read_text(dir / "logs/rank-1.log");
  EXPECT_TRUE(holds(read_text(dir / "logs/rank-1.log"), "1 32 by ssh\n")) << read_text(dir / "logs/rank-1.log");

  o.command = {"sh", "-c", "test $FREIGHT_RANK = 0 || exit 4; exec sleep 60"};
  EXPECT_TRUE(holds(to_string(comm::run_job(o)), "rank 1 on host 127.0.0.1 ended with exit code 4;"));

  const std::string note = dir / "number";
  o.command = {
      "sh", "-c",
      cat("if test $FREIGHT_RANK = 0; then while ! test -s ", note, "; do sleep 0.05; done; exit 3; fi; echo $$ > ",
          note, "; trap '' TERM; while :; do sleep 0.1; done")};
  EXPECT_EQ(comm::run_job(o).exit_code, 3);
  EXPECT_TRUE(is_gone_within(number_soon_in(note), 10));
}

}  // namespace
}  // namespace freight::test
