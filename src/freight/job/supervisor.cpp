// See supervisor.h.
#include "freight/job/supervisor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"

namespace freight::job {

namespace {

constexpr const char* kStepsVariable = "FREIGHT_STEPS";
constexpr double kMostStopped = 5;  // seconds
constexpr size_t kFailures = 3;     // failures of one device within kWithinSteps after which it is skipped
constexpr int64_t kWithinSteps = 10;
constexpr int kWholeJob = -1;  // the key of failures that no device is known to have caused

int new_file() {
  const int file = ::memfd_create("freight-steps", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, sizeof(int64_t)) != 0) {
    fail(ErrorKind::runtime, "supervisor", "cannot make shared memory: ", std::strerror(errno));
  }
  return file;
}

class Supervisor {
 public:
  explicit Supervisor(const Supervision& s) : s_(s) {}

  comm::JobEnd run() {
    for (bool again = false;; again = true) {
      const std::vector<int> devices = devices_of_start();
      const comm::JobEnd end = comm::run_job(launch(devices, again));
      if (!end.failed() || end.forwarded != 0) return end;
      const std::string left_out = judge(end, devices);
      const auto left = static_cast<int>(devices_of_start().size());
      if (!restarts_ || left < s_.least) return end;
      if (const int stop = s_.stop_signal()) return {.forwarded = stop};
      comm::JobEnd shown = end;
      shown.log.clear();
      s_.report(cat(to_string(shown), left_out, "; last completed step ", steps_.load(), "; ", left,
                    left == 1 ? " device restarts" : " devices restart", " from the last checkpoint"));
    }
  }

 private:
  std::vector<int> devices_of_start() const {
    std::vector<int> all;
    for (int d = 0; d < s_.devices && static_cast<int>(all.size()) < s_.most; ++d) {
      if (!left_out_.contains(d)) all.push_back(d);
    }
    return all;
  }

  comm::LaunchOptions launch(const std::vector<int>& devices, bool again) const {
    comm::LaunchOptions o = s_.launch;
    o.command = s_.command(devices);
    o.world = static_cast<int>(devices.size());
    o.settings.push_back(steps_.setting());
    o.inherited.push_back(steps_.descriptor());
    o.append = again;
    o.most_stopped = kMostStopped;
    return o;
  }

  // Decides whether the job is restarted. Returns the message about a device that is skipped from now on.
  std::string judge(const comm::JobEnd& end, const std::vector<int>& devices) {
    const int64_t step = steps_.load();
    const int device = devices[static_cast<size_t>(end.rank)];
    const bool peer_lost = end.exit_code == static_cast<int>(ErrorKind::peer_lost);
    if (end.exit_code == static_cast<int>(ErrorKind::device) && step > 0) {
      restarts_ = true;
      left_out_.insert(device);
      return "; its device is gone and is skipped";
    }
    restarts_ = end.signal != 0 || peer_lost;
    // A process that ends with 7 has lost another one, which has not failed by itself: it may have hung.
    std::vector<int64_t>& failures = failures_[peer_lost ? kWholeJob : device];
    failures.push_back(step);
    const bool often = failures.size() >= kFailures && step - failures[failures.size() - kFailures] < kWithinSteps;
    if (!restarts_ || !often) return {};
    if (peer_lost) {
      restarts_ = false;
      return {};
    }
    left_out_.insert(device);
    return cat("; its device is skipped, since it failed ", kFailures, " times within ", kWithinSteps, " steps");
  }

  const Supervision& s_;
  StepCount steps_;
  std::map<int, std::vector<int64_t>> failures_;  // by device: the last step before each failure
  std::set<int> left_out_;
  bool restarts_ = false;
};

}  // namespace

StepCount::StepCount() : StepCount(new_file()) {}

StepCount::StepCount(int file) : file_(file) {
  void* const p = ::mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (p == MAP_FAILED) fail(ErrorKind::runtime, "mmap", "cannot map the count of steps: ", std::strerror(errno));
  step_ = static_cast<std::atomic<int64_t>*>(p);
}

StepCount::~StepCount() {
  ::munmap(step_, sizeof(int64_t));
  ::close(file_);
}

std::string StepCount::setting() const { return cat(kStepsVariable, "=", file_); }

std::unique_ptr<StepCount> StepCount::of_process() {
  const std::string text = env::get(kStepsVariable);
  if (text.empty()) return nullptr;
  const int file = parse_number<int>(text).value_or(-1);
  if (::fcntl(file, F_SETFD, FD_CLOEXEC) != 0) {
    fail(ErrorKind::usage, kStepsVariable, "expected what freight train --elastic sets, got '", excerpt(text),
         "': unset it");
  }
  return std::unique_ptr<StepCount>(new StepCount(file));
}

comm::JobEnd supervise(const Supervision& supervision) { return Supervisor(supervision).run(); }

}  // namespace freight::job
