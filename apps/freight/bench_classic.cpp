// `freight bench compare --workloads classic`: the networks of the study of 2017 on this machine, next to published
// figures. For another number of CPU threads than this process has, a separate process is started, since kernels are
// chosen for a number of threads.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "bench_compare.h"
#include "bench_output.h"
#include "freight/backend/backend.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/bench/classic.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "lists.h"

extern char** environ;

namespace freight::app {
namespace {

using Json = nlohmann::json;

// Returns what this command prints with --json in a process with that many threads; its messages go where ours go.
Json in_process_of(int64_t threads, const std::vector<std::string>& arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<std::string> words = {self, "bench", "compare", "--workloads", "classic"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> settings = {cat("OMP_NUM_THREADS=", threads)};
  for (char** e = environ; *e; ++e) {
    if (!starts_with(*e, "OMP_NUM_THREADS=")) settings.emplace_back(*e);
  }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& t : texts) all.push_back(t.data());
    all.push_back(nullptr);
    return all;
  };
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(ErrorKind::runtime, "bench compare", "cannot make a pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, self.c_str(), &actions, nullptr, pointers(words).data(), pointers(settings).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; error == 0 && (n = read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  if (error == 0) waitpid(child, &status, 0);
  std::optional<Json> j = io::try_parse_json<Json>(text);
  if (error != 0 || status != 0 || !j) {
    fail(ErrorKind::runtime, "bench compare", "the measurement with ", threads, " threads failed");
  }
  return *std::move(j);
}

class Classic {
 public:
  Classic(const CompareFlags& flags, const bench::ClassicOptions& run, bool quiet)
      : flags_(flags), run_(run), quiet_(quiet), study_(bench::load_study()) {
    study_.machine = cat(cpu_info().model, ", ", cpu_info().cores, " cores");
    for (const std::string& d : parse_devices(flags.devices)) study_.devices.emplace_back(d, backend(d).description());
    const std::vector<std::string> names = study_.names();
    selected_ = flags.only.empty() ? names : parse_list("--only", flags.only);
    for (const std::string& s : selected_) {
      if (std::find(names.begin(), names.end(), s) != names.end()) continue;
      refuse_name("--only", s, names);
    }
    threads_ = thread_counts();
  }

  // Null if a signal asked to stop.
  const bench::Study* run() {
    for (const std::string& name : selected_) {
      for (const auto& [device, unused] : study_.devices) {
        const std::vector<int64_t> counts = device == "cpu" ? threads_ : std::vector<int64_t>{thread_count()};
        for (const int64_t threads : counts) {
          if (signals::stop_requested()) return nullptr;
          measure(name, device, threads);
        }
      }
    }
    return signals::stop_requested() ? nullptr : &study_;
  }

 private:
  std::vector<int64_t> thread_counts() const {
    if (!flags_.threads.empty()) return parse_counts("--threads", flags_.threads);
    const int64_t all = std::max(thread_count(), cpu_info().cores);
    if (flags_.quick) return all > 1 ? std::vector<int64_t>{1, all} : std::vector<int64_t>{1};
    std::vector<int64_t> counts;
    for (int64_t n = 1; n < all; n *= 2) counts.push_back(n);
    counts.push_back(all);
    return counts;
  }

  void measure(const std::string& name, const std::string& device, int64_t threads) {
    const bool here = device != "cpu" || threads == thread_count();
    if (here) {
      if (!quiet_) {
        std::fprintf(stderr, "%s on %s%s\n", name.c_str(), device.c_str(),
                     device == "cpu" ? cat(", threads: ", threads).c_str() : "");
      }
      for (const bench::StudyNet& net : study_.nets) {
        if (net.name == name) study_.steps.push_back(bench::measure_step(net, device, run_));
      }
      for (const bench::StudyTraining& t : study_.trainings) {
        if (t.name == name) study_.runs.push_back(bench::measure_training(t, device, run_));
      }
      return;
    }
    std::vector<std::string> arguments = {"--json",
                                          "--only",
                                          name,
                                          "--devices",
                                          device,
                                          "--threads",
                                          cat(threads),
                                          "--seconds",
                                          cat(run_.seconds),
                                          "--most-seconds",
                                          cat(run_.most_seconds),
                                          "--most-steps",
                                          cat(run_.most_steps)};
    if (run_.batch > 0) arguments.insert(arguments.end(), {"--batches", cat(run_.batch)});
    if (!run_.data_dir.empty()) arguments.insert(arguments.end(), {"--data-dir", run_.data_dir});
    if (quiet_) arguments.emplace_back("--quiet");
    const Json j = in_process_of(threads, arguments);
    for (const Json& net : j.at("nets")) {
      for (const Json& m : net.at("measured")) {
        study_.steps.push_back({.net = name,
                                .device = device,
                                .threads = static_cast<int>(threads),
                                .batch = m.at("batch_size"),
                                .seconds = m.value("seconds", 0.0),
                                .flops = m.value("flops", 0.0),
                                .skipped = m.value("skipped", "")});
      }
    }
    for (const Json& t : j.at("trainings")) {
      study_.runs.push_back({.name = name,
                             .device = device,
                             .threads = static_cast<int>(threads),
                             .seconds = t.value("seconds", 0.0),
                             .train_seconds = t.value("train_seconds", 0.0),
                             .samples_per_second = t.value("samples_per_second", 0.0),
                             .top1 = t.value("top1", 0.0),
                             .steps = t.value("steps", int64_t{0}),
                             .skipped = t.value("skipped", "")});
    }
  }

  const CompareFlags& flags_;
  const bench::ClassicOptions& run_;
  bool quiet_;
  bench::Study study_;
  std::vector<std::string> selected_;
  std::vector<int64_t> threads_;
};

// Flags determine what is measured and for how long, then --quick, then the defaults.
bench::ClassicOptions options_of(const CompareFlags& f, const Options& o) {
  bench::ClassicOptions run{.batch = one_batch(f, o), .most_steps = f.most_steps, .data_dir = f.data_dir};
  if (f.quick) {
    run.seconds = 0.3;
    run.most_seconds = 5;
    if (!o.given("--most-steps")) run.most_steps = 200;
  }
  if (o.given("--seconds")) run.seconds = f.run.seconds;
  if (o.given("--most-seconds")) run.most_seconds = f.run.most_seconds;
  return run;
}

}  // namespace

int compare_classic(const CompareFlags& f, const Options& o) {
  const bench::ClassicOptions run = options_of(f, o);
  signals::install();
  Classic classic(f, run, o.quiet());
  const bench::Study* study = classic.run();
  if (!study) return signals::exit_code();
  write_output(f.html, f.html.empty() ? "" : bench::to_html(*study));
  if (print_json(f, bench::to_json(*study))) return 0;
  std::printf("%s\n", study->machine.c_str());
  for (const auto& [device, description] : study->devices)
    std::printf("%-8s  %s\n", device.c_str(), description.c_str());
  if (!study->steps.empty()) {
    std::printf("\n");
    print(bench::steps_of(*study));
  }
  if (!study->runs.empty()) {
    std::printf("\n");
    print(bench::trainings_of(*study));
  }
  std::printf("\nothers' figures, gathered %s: other machines, years and software\n", study->date.c_str());
  for (const auto& [key, what] : study->sources) std::printf("  %s: %s\n", key.c_str(), what.c_str());
  return 0;
}

}  // namespace freight::app
