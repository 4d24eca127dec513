// See launcher.h.
#include "freight/comm/launcher.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/comm/descriptor_internal.h"
#include "freight/comm/process_watch_internal.h"
#include "freight/comm/proof_internal.h"

extern char** environ;

namespace freight::comm {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
// Seconds that the other ranks have to end by themselves: they write what they know to their logs, and if the first
// failure was the loss of a peer, the failure behind it becomes visible.
constexpr double kAlone = 1;

std::atomic<int> signal_pipe{-1};

void note_signal(int number) {
  const int before = errno;
  const auto byte = static_cast<char>(number);
  [[maybe_unused]] const ssize_t n = ::write(signal_pipe.load(), &byte, 1);
  errno = before;
}

struct Pipe {
  Descriptor read, write;
};
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    fail(ErrorKind::runtime, "launcher", "cannot make a pipe: ", std::strerror(errno));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Turns the signals that would end this process into bytes in a pipe while the object lives. Signals that are ignored
// stay ignored (nohup).
class CaughtSignals {
 public:
  CaughtSignals() : pipe_(make_pipe()) {
    signal_pipe = pipe_.write.get();
    for (size_t i = 0; i < kForwarded.size(); ++i) {
      ::sigaction(kForwarded[i], nullptr, &before_[i]);
      if (before_[i].sa_handler == SIG_IGN) continue;
      struct sigaction now {};
      now.sa_handler = note_signal;
      now.sa_flags = SA_RESTART;
      ::sigaction(kForwarded[i], &now, nullptr);
    }
  }
  ~CaughtSignals() {
    for (size_t i = 0; i < kForwarded.size(); ++i) ::sigaction(kForwarded[i], &before_[i], nullptr);
    signal_pipe = -1;
  }
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;

  int descriptor() const { return pipe_.read.get(); }
  // The next signal that was caught; 0 if there is none.
  int take() const {
    char byte = 0;
    return ::read(pipe_.read.get(), &byte, 1) == 1 ? byte : 0;
  }

 private:
  Pipe pipe_;
  std::array<struct sigaction, kForwarded.size()> before_{};
};

// A port on which nothing listens. Another program may take it before rank 0 listens; rank 0 then reports that.
int free_port() {
  const Descriptor s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  socklen_t length = sizeof(a);
  if (s.get() < 0 || ::bind(s.get(), reinterpret_cast<const sockaddr*>(&a), length) != 0 ||
      ::getsockname(s.get(), reinterpret_cast<sockaddr*>(&a), &length) != 0) {
    fail(ErrorKind::runtime, "launcher", "cannot find a free port: ", std::strerror(errno));
  }
  return ntohs(a.sin_port);
}

Descriptor open_output(const std::string& path, bool goes_on = false) {
  const int fresh = goes_on ? 0 : O_TRUNC;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | fresh, 0666));
  if (file.get() < 0) fail(ErrorKind::runtime, path, "cannot be written: ", std::strerror(errno));
  return file;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& t : texts) all.push_back(t.data());
  all.push_back(nullptr);
  return all;
}

// Rank r's share of this process's cores; all of them if there are fewer cores than ranks.
cpu_set_t processors_of(int rank, int world) {
  const std::vector<int> all = allowed_processors();
  const auto n = static_cast<int>(all.size());
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < n; ++i) {
    const bool mine = n < world || (i >= rank * n / world && i < (rank + 1) * n / world);
    if (mine && all[static_cast<size_t>(i)] < CPU_SETSIZE) CPU_SET(all[static_cast<size_t>(i)], &set);
  }
  return set;
}

struct Process {
  pid_t number = -1;
  Descriptor watched;
  bool running = false;
  bool given_up = false;                 // killed here, since it was stopped for too long
  Clock::time_point ran = Clock::now();  // when it was last seen running
};

class Job {
 public:
  explicit Job(const LaunchOptions& options) : options_(options), name_(new_token()), port_(free_port()) {
    if (options.command.empty() || options.world < 1) {
      fail(ErrorKind::usage, "launcher", "expected at least one of both, got ", options.world, " processes of ",
           options.command.size(), " words of a command");
    }
    std::error_code error;
    std::filesystem::create_directories(options.log_dir, error);
    if (error) fail(ErrorKind::runtime, options.log_dir, "cannot be made: ", error.message());
    processes_.resize(static_cast<size_t>(options.world));
  }
  // No process outlives the job, even if an error ends it.
  ~Job() {
    for (const Process& p : processes_) {
      if (p.running) ::kill(-p.number, SIGKILL);
    }
    for (Process& p : processes_) reap(p, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  JobEnd run() {
    for (int r = 0; r < options_.world; ++r) start(r);
    while (any_runs()) {
      look();
      kill_stopped();
      const double since = seconds_since(failed_at_);
      if (end_.failed() && !asked_ && since > kAlone) {
        asked_ = true;
        send(SIGTERM);
        send(SIGCONT);  // a stopped process receives the signal only once it continues
      }
      if (end_.failed() && since > options_.grace + kAlone) send(SIGKILL);
    }
    return end_;
  }

 private:
  bool any_runs() const {
    return std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.running; });
  }

  // Kills ranks that have been stopped for too long, which frees what they hold, such as a lock. If all are stopped,
  // the user wants the whole job to pause.
  void kill_stopped() {
    if (options_.most_stopped <= 0) return;
    bool all = true;
    for (Process& p : processes_) {
      if (!p.running || state_of(p.number) == "is stopped") continue;
      all = false;
      p.ran = Clock::now();
    }
    for (Process& p : processes_) {
      if (all) p.ran = Clock::now();
      if (!p.running || seconds_since(p.ran) < options_.most_stopped) continue;
      p.given_up = true;
      ::kill(-p.number, SIGKILL);
    }
  }

  std::string log_of(int rank) const { return cat(options_.log_dir, "/rank-", rank, ".log"); }

  // The variables that make a process a rank. The token is not the job's name, since all users of the host can see the
  // name (a socket has it).
  std::vector<std::string> own_settings(int rank, const cpu_set_t& processors) const {
    std::vector<std::string> all = {cat("FREIGHT_RANK=", rank),
                                    cat("FREIGHT_WORLD_SIZE=", options_.world),
                                    cat("FREIGHT_LOCAL_RANK=", rank),
                                    cat("FREIGHT_LOCAL_WORLD_SIZE=", options_.world),
                                    cat("FREIGHT_JOB=", name_),
                                    "MASTER_ADDR=127.0.0.1",
                                    cat("MASTER_PORT=", port_),
                                    "FREIGHT_TOKEN=" + token_,
                                    "FREIGHT_TOKEN_FILE=",
                                    "FREIGHT_RANK_PROCESS=",
                                    cat("OMP_NUM_THREADS=", threads_of(processors)),
                                    "TORCHELASTIC_USE_AGENT_STORE="};
    all.insert(all.end(), options_.settings.begin(), options_.settings.end());
    return all;
  }

  // The compute threads of a rank: as many as requested, limited by its cores.
  int threads_of(const cpu_set_t& processors) const {
    const bool fewer = static_cast<int>(allowed_processors().size()) < options_.world;
    const int share = fewer ? 1 : std::max(CPU_COUNT(&processors), 1);
    const std::string by_environment = env::get("OMP_NUM_THREADS");  // "4", or "4,2" where parallel regions are nested
    std::string_view outermost = by_environment;
    const int asked = options_.threads > 0 ? options_.threads : take_number<int>(outermost).value_or(0);
    return asked > 0 ? std::min(asked, share) : share;
  }

  // This process's environment, in which `own` replaces variables of the same names.
  static std::vector<std::string> settings_with(std::vector<std::string> own) {
    std::vector<std::string> settings;
    for (char** e = environ; *e; ++e) {
      const std::string_view set = *e;
      const auto same_name = [&](const std::string& s) { return starts_with(set, s.substr(0, s.find('=') + 1)); };
      if (std::none_of(own.begin(), own.end(), same_name)) settings.emplace_back(set);
    }
    std::move(own.begin(), own.end(), std::back_inserter(settings));
    return settings;
  }

  void start(int rank) {
    const cpu_set_t processors = processors_of(rank, options_.world);
    std::vector<std::string> words = options_.command, settings = settings_with(own_settings(rank, processors));
    const std::vector<char*> argv = pointers(words), environment = pointers(settings);
    Process& p = processes_[static_cast<size_t>(rank)];
    const bool apart = rank == 0 && !options_.result.empty(), shown = rank == 0 && options_.terminal;
    const Descriptor log =
        shown ? Descriptor(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) : open_output(log_of(rank), options_.append);
    const Descriptor result = apart   ? open_output(options_.result)
                              : shown ? Descriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3))
                                      : Descriptor();
    Pipe fault = make_pipe();
    const pid_t parent = ::getpid(), child = ::fork();
    if (child < 0) fail(ErrorKind::runtime, "launcher", "cannot start rank ", rank, ": ", std::strerror(errno));
    if (child == 0) {
      if (options_.bound) ::sched_setaffinity(0, sizeof(processors), &processors);
      const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      for (const int fd : options_.inherited) ::fcntl(fd, F_SETFD, 0);
      become(argv.data(), environment.data(), parent, {in, result.get() >= 0 ? result.get() : log.get(), log.get()},
             fault.write.get());
    }
    ::setpgid(child, child);  // the child does the same: it is not known which of the two runs first
    p = {.number = child, .watched = watch_process(child), .running = true};
    await_program(rank, fault);
  }

  // Runs in the child, which must make only system calls: locks that other threads held stay locked in it.
  [[noreturn]] static void become(char* const* argv, char* const* environment, pid_t parent,
                                  const std::array<int, 3>& streams, int fault) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // the parent ended before the line above
    ::setpgid(0, 0);
    ::signal(SIGUSR1, SIG_IGN);  // ignored until the program installs its handler: there is nothing to save yet
    for (int i = 0; i < 3; ++i) {
      ::dup2(streams[static_cast<size_t>(i)], i);
      ::fcntl(i, F_SETFL, ::fcntl(i, F_GETFL) & ~O_NONBLOCK);  // the pipe's end is the launcher's kind
    }
    ::execvpe(argv[0], argv, environment);
    const int error = errno;
    [[maybe_unused]] const ssize_t n = ::write(fault, &error, sizeof(error));
    ::_exit(127);
  }

  // Waits until the pipe closes, which it does when the program starts, or contains the reason why it does not.
  void await_program(int rank, Pipe& fault) const {
    fault.write = Descriptor();
    pollfd p = {.fd = fault.read.get(), .events = POLLIN, .revents = 0};
    while (::poll(&p, 1, -1) < 0 && errno == EINTR) continue;
    int error = 0;
    if (::read(fault.read.get(), &error, sizeof(error)) != sizeof(error)) return;
    fail(ErrorKind::usage, excerpt(options_.command[0]), "cannot be started as rank ", rank, ": ",
         std::strerror(error));
  }

  void look() {
    std::vector<pollfd> all = {{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Process& p : processes_) all.push_back({.fd = p.watched.get(), .events = POLLIN, .revents = 0});
    constexpr int kMilliseconds = 50;  // short, since failures have deadlines
    ::poll(all.data(), all.size(), end_.failed() ? kMilliseconds : options_.most_stopped > 0 ? 4 * kMilliseconds : -1);
    while (const int number = signals_.take()) {
      const bool stops = number != SIGUSR1;  // SIGUSR1 asks to save and to continue
      if (stops && end_.forwarded == 0) end_.forwarded = number;
      send(number);
      if (stops) send(SIGCONT);  // a stopped rank would never handle the signal
    }
    for (int r = 0; r < options_.world; ++r) {
      int status = 0;
      Process& p = processes_[static_cast<size_t>(r)];
      if (all[static_cast<size_t>(r) + 1].revents != 0 && reap(p, WNOHANG, &status)) judge(r, status);
    }
  }

  static bool reap(Process& p, int flags, int* status = nullptr) {
    if (!p.running || ::waitpid(p.number, status, flags) != p.number) return false;
    p.running = false;
    p.watched = Descriptor();
    ::kill(-p.number, SIGKILL);  // kills the processes that it left behind in its group
    return true;
  }

  void judge(int rank, int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0, killed = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (code == 0 && killed == 0) return;
    constexpr int kPeerLost = static_cast<int>(ErrorKind::peer_lost);
    // All ranks may fail alike, because of the same bad input: then rank 0 reports it on the terminal.
    const bool prints = options_.terminal && rank == 0;
    const bool shown = prints && code != 0 && code == end_.exit_code;
    const bool cause = !asked_ && (shown || (end_.exit_code == kPeerLost && code != kPeerLost));
    if (end_.failed() && !cause) return;
    if (!end_.failed()) failed_at_ = Clock::now();
    end_.rank = rank;
    end_.exit_code = code;
    end_.signal = killed;
    end_.stopped = killed == SIGKILL && processes_[static_cast<size_t>(rank)].given_up;
    end_.log = prints ? "" : log_of(rank);
    say_end_in_log();
  }

  // The error refers to the log, which would be empty for a rank that was killed before it wrote anything.
  void say_end_in_log() const {
    std::error_code none;
    if (end_.signal == 0 || end_.log.empty() || std::filesystem::file_size(end_.log, none) != 0 || none) return;
    const std::string line = cat("rank ", end_.rank, " was killed by signal ", end_.signal, " (",
                                 ::strsignal(end_.signal), ") before it printed anything\n");
    const Descriptor log = open_output(end_.log, true);
    [[maybe_unused]] const ssize_t n = ::write(log.get(), line.data(), line.size());
  }

  void send(int number) const {
    for (const Process& p : processes_) {
      if (p.running) ::kill(-p.number, number);
    }
  }

  const LaunchOptions& options_;
  const std::string name_, token_ = new_token();
  const int port_;  // of the rendezvous of ranks that do not share memory
  CaughtSignals signals_;
  std::vector<Process> processes_;  // by rank
  JobEnd end_;
  Clock::time_point failed_at_ = Clock::now();
  bool asked_ = false;  // the other ranks were asked to end
};

}  // namespace

std::string to_string(const JobEnd& end) {
  if (!end.failed()) return "all ranks succeeded";
  return cat("rank ", end.rank,
             end.stopped  ? cat(" was stopped, and was killed by the supervisor")
             : end.signal ? cat(" was killed by signal ", end.signal, " (", ::strsignal(end.signal), ")")
                          : cat(" ended with exit code ", end.exit_code),
             end.log.empty() ? "" : "; its log is " + end.log);
}

JobEnd run_job(const LaunchOptions& options) { return Job(options).run(); }

}  // namespace freight::comm
