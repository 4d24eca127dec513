// How much of the processors this process may count on while other programs compute, too. A pool of threads that meets
// at a barrier after every step of a plan is as slow as its slowest thread: where others hold a processor, all wait for
// the thread that shares it, and by default they wait spinning, through the time slices of those who could work.
// A monitor compares what the machine's processors did with what this process used, five times a second while plans
// run. Where others compute, regions use fewer threads and waiting threads sleep soon; alone, nothing changes.
// Results keep their bits: chunks of work do not depend on the number of threads that take them.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace freight {

// Processor time, in processors, that a control group grants by its quota: the least of the process's group and those
// above it. Nothing where there is no limit.
std::optional<double> processor_quota();

// Reads "cpu.max" of a version 2 group ("max 100000", "150000 100000"). Nothing where it states no limit.
std::optional<double> parse_quota(const std::string& cpu_max);

// Ticks, of /proc/stat's text, that these processors were taken: all columns but idle, waiting for disks, and work of
// low priority (`nice`), which gives way by itself.
double busy_ticks(const std::string& proc_stat, const std::vector<int>& processors);

// Threads of the whole machine that compute or wait for a processor, of /proc/loadavg's text ("0.9 0.8 0.7 3/145 99").
int runnable_threads(const std::string& loadavg);

// What other programs use, in processors, of samples in a row. A rise counts once two samples show it: a program that
// starts and ends within one is gone before fewer threads would help. A fall counts by and by, since others pause, too.
class LastingUse {
 public:
  double take(double sample);

 private:
  double last_ = 0, now_ = 0;
};

class CpuShare {
 public:
  // Says that compute threads are about to be used: starts the monitor, or wakes it. Cheap; called for every replay.
  static void touch();
  // Makes a thread of the pool known that meets `leader`, a thread's number for the system (gettid), at its barriers.
  static void add_worker(int leader);
  // How many of `threads` a region should use now: all of them while the machine is idle otherwise, at least one.
  static int of(int threads);
  // True if no other program computes, or waits for a processor, at this moment.
  static bool alone();
  // Processors that other programs used lately, and on average while plans ran: 0 before the first sample.
  static double others();
  static double average_others();
};

}  // namespace freight
