// See cpu_share.h.
#include "freight/base/cpu_share.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/env.h"
#include "freight/base/log.h"
#include "freight/base/parse_number.h"
#include "freight/base/strings.h"

namespace freight {

namespace {

using Clock = std::chrono::steady_clock;

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

double seconds_of(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

double own_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

// libgomp's waiting threads spin some 300,000 times before they sleep, but 100 times where the program has more threads
// than there are processors, as its manual says. That is the only way to change it once the library is loaded: extra
// threads that sleep. They are made while others compute and end when nobody does.
class ShortSpins {
 public:
  explicit ShortSpins(int extra)
      : thread_([this, extra] {
#pragma omp parallel num_threads(extra + 1)
          (void)omp_get_thread_num();
          std::unique_lock lock(mutex_);
          end_.wait(lock, [this] { return over_; });
        }) {
  }
  ~ShortSpins() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    end_.notify_one();
    thread_.join();
  }
  ShortSpins(const ShortSpins&) = delete;
  ShortSpins& operator=(const ShortSpins&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable end_;
  bool over_ = false;
  std::thread thread_;
};

// oneDNN fixes the number of threads of a primitive when it makes it. Where one processor is left, its threads do best
// to take turns on the one that their leader has: each meeting then costs two switches of threads, and not a time slice
// of some other program that a worker waits for elsewhere.
class Workers {
 public:
  void add(int leader, int worker) {
    const std::lock_guard lock(mutex_);
    if (std::find(pairs_.begin(), pairs_.end(), std::pair(leader, worker)) == pairs_.end())
      pairs_.emplace_back(leader, worker);
  }
  void follow_leaders() {
    const std::lock_guard lock(mutex_);
    confined_ = true;
    for (const auto& [leader, worker] : pairs_) {
      if (const int at = processor_of(leader); at >= 0) confine(worker, {at});
    }
  }
  void release(const std::vector<int>& processors) {
    const std::lock_guard lock(mutex_);
    if (!confined_) return;
    confined_ = false;
    for (const auto& [leader, worker] : pairs_) confine(worker, processors);
  }

 private:
  // Field 39 of a thread's line, -1 where the thread has ended. The name in brackets may hold blanks.
  static int processor_of(int thread) {
    const std::string line = text_of(cat("/proc/self/task/", thread, "/stat"));
    std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
    std::string field;
    for (int i = 3; i <= 39; ++i) {
      if (!(rest >> field)) return -1;
    }
    return parse_number<int>(field).value_or(-1);
  }
  static void confine(int thread, const std::vector<int>& processors) {
    if (::syscall(SYS_tgkill, ::getpid(), thread, 0) != 0) return;  // it has ended
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int p : processors) CPU_SET(p, &set);
    sched_setaffinity(thread, sizeof set, &set);
  }

  std::mutex mutex_;
  std::vector<std::pair<int, int>> pairs_;
  bool confined_ = false;
};

class Monitor {
 public:
  // Lives as long as the process: its thread may run while static objects are destroyed.
  static Monitor& the() {
    static Monitor* const kMonitor = new Monitor;
    return *kMonitor;
  }

  void touch() {
    used_.store(true, std::memory_order_relaxed);
    if (!asleep_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    wake_.notify_one();
  }
  Workers& workers() { return workers_; }
  double others() const { return others_.load(std::memory_order_relaxed); }
  double average_others() const { return sum_.load(std::memory_order_relaxed) / std::max(1, samples_.load()); }
  double available() const { return available_.load(std::memory_order_relaxed); }

 private:
  static constexpr auto kPeriod = std::chrono::milliseconds(200);
  static constexpr double kBusy = 0.3, kQuiet = 0.15;  // processors that others use: sleep soon above, spin again below
  static constexpr double kAll = 1e9;        // processors, before the first sample: as many as anybody asks for
  static constexpr int kReportedAfter = 25;  // samples, 5 seconds: a short burst of others is not worth a line

  Monitor() : processors_(allowed_processors()), ticks_per_second_(static_cast<double>(sysconf(_SC_CLK_TCK))) {
    if (processors_.empty() || read_busy() <= 0) return;
    std::thread([this] { watch(); }).detach();
    // A forked child has no monitor's thread, which may have held the mutex: it wakes nobody, and gives nothing away.
    pthread_atfork(nullptr, nullptr, [] {
      the().asleep_.store(false, std::memory_order_relaxed);
      the().others_.store(0, std::memory_order_relaxed);
      the().available_.store(kAll, std::memory_order_relaxed);
    });
  }

  double read_busy() const { return busy_ticks(text_of("/proc/stat"), processors_) / ticks_per_second_; }

  void watch() {
    ::pthread_setname_np(::pthread_self(), "cpu_share");  // for top, gdb, and tests that leave the thread out
    std::unique_lock lock(mutex_);
    for (;;) {
      used_.store(false, std::memory_order_relaxed);
      const double busy = read_busy(), own = own_seconds();
      const Clock::time_point start = Clock::now();
      wake_.wait_for(lock, kPeriod, [] { return false; });
      const double seconds = seconds_since(start);
      take(std::max(0.0, read_busy() - busy - (own_seconds() - own)) / seconds);
      if (used_.load(std::memory_order_relaxed)) continue;
      // Nobody computes: no need to look, until somebody does.
      workers_.release(processors_);
      lasting_ = LastingUse();
      asleep_.store(true, std::memory_order_release);
      wake_.wait(lock, [this] { return used_.load(std::memory_order_relaxed); });
      asleep_.store(false, std::memory_order_release);
    }
  }

  void take(double others) {
    const double now = lasting_.take(others);
    const auto all = static_cast<double>(processors_.size());
    others_.store(now, std::memory_order_relaxed);
    sum_.store(sum_.load(std::memory_order_relaxed) + others, std::memory_order_relaxed);
    ++samples_;
    if (!gives_way_) return;
    available_.store(std::max(1.0, all - now), std::memory_order_relaxed);
    if (now > kBusy && !short_spins_) {
      const int pool = omp_get_max_threads(), most = omp_get_num_procs();
      short_spins_.emplace(std::max(1, most - pool + 1));
    } else if (now < kQuiet) {
      short_spins_.reset();
    }
    if (all - now < 1.5) {
      workers_.follow_leaders();
    } else {
      workers_.release(processors_);
    }
    report(all - now < all - 0.5 && omp_get_max_threads() > 1);
  }

  void report(bool fewer) {
    fewer_for_ = fewer ? fewer_for_ + 1 : 0;
    if (fewer_for_ != kReportedAfter || reported_) return;
    reported_ = true;
    logging::warn(cat("other programs use ", fixed(others(), 1), " of ", processors_.size(),
                      " cores: using fewer threads meanwhile (FREIGHT_SHARE_CPUS=0: use all threads)"));
  }

  const bool gives_way_ = env::get("FREIGHT_SHARE_CPUS") != "0";
  const std::vector<int> processors_;
  const double ticks_per_second_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> used_{false}, asleep_{false};
  std::atomic<double> others_{0}, available_{kAll}, sum_{0};
  std::atomic<int> samples_{0};
  LastingUse lasting_;
  std::optional<ShortSpins> short_spins_;
  Workers workers_;
  int fewer_for_ = 0;
  bool reported_ = false;
};

}  // namespace

std::optional<double> parse_quota(const std::string& cpu_max) {
  std::istringstream in(cpu_max);
  double quota = 0, period = 0;
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return {};
  return quota / period;
}

std::optional<double> processor_quota() {
  std::optional<double> least;
  const auto take = [&](const std::optional<double>& quota) {
    if (quota && (!least || *quota < *least)) least = quota;
  };
  std::istringstream groups(text_of("/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    const size_t colon = line.rfind(':');
    if (colon == std::string::npos) continue;
    const bool v2 = starts_with(line, "0::"),
               v1 = line.find(",cpu") != std::string::npos || line.find(":cpu") != std::string::npos;
    for (std::string path = line.substr(colon + 1); v1 || v2; path.erase(path.rfind('/'))) {
      if (v2) {
        take(parse_quota(text_of("/sys/fs/cgroup" + path + "/cpu.max")));
      } else {
        const std::string at = "/sys/fs/cgroup/cpu" + path + "/cpu.cfs_";
        take(parse_quota(text_of(at + "quota_us") + " " + text_of(at + "period_us")));
      }
      if (path.find('/') == std::string::npos) break;
    }
  }
  return least;
}

double busy_ticks(const std::string& proc_stat, const std::vector<int>& processors) {
  double sum = 0;
  std::istringstream in(proc_stat);
  for (std::string line; std::getline(in, line);) {
    if (!starts_with(line, "cpu") || line.size() < 4 || line[3] < '0' || line[3] > '9') continue;
    std::istringstream columns(line.substr(3));
    int processor = 0;
    double user = 0, nice = 0, system = 0, idle = 0, disk = 0, irq = 0, soft_irq = 0, steal = 0;
    columns >> processor >> user >> nice >> system >> idle >> disk >> irq >> soft_irq >> steal;
    if (std::find(processors.begin(), processors.end(), processor) == processors.end()) continue;
    sum += user + system + irq + soft_irq + steal;
  }
  return sum;
}

double LastingUse::take(double sample) {
  const double twice = std::min(sample, std::exchange(last_, sample));
  return now_ = twice > now_ ? twice : 0.7 * now_ + 0.3 * twice;
}

void CpuShare::touch() { Monitor::the().touch(); }
void CpuShare::add_worker(int leader) { Monitor::the().workers().add(leader, ::gettid()); }

int CpuShare::of(int threads) {
  const double available = Monitor::the().available();
  return available >= threads ? threads : std::max(1, static_cast<int>(std::lround(available)));
}

int runnable_threads(const std::string& loadavg) {
  std::istringstream in(loadavg);
  double average = 0;
  int runnable = 0;
  for (int i = 0; i < 3; ++i) in >> average;
  in >> runnable;
  return runnable;
}

bool CpuShare::alone() {
  int own = 0;
  std::error_code none;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", none)) {
    const std::string line = text_of((thread.path() / "stat").string());
    const size_t state = line.rfind(')') + 2;  // behind the name in brackets
    own += state < line.size() && line[state] == 'R';
  }
  return runnable_threads(text_of("/proc/loadavg")) <= own;
}

double CpuShare::others() { return Monitor::the().others(); }
double CpuShare::average_others() { return Monitor::the().average_others(); }

}  // namespace freight
