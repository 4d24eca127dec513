// `freight bench comm`: all-reduce over processes of this host, by the number of ranks and of bytes. The command starts
// the ranks, which run it again; under another launcher (mpirun, srun, torchrun) it is one of them.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <variant>

#include "bench_output.h"
#include "command.h"
#include "freight/base/cpu_info.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/bench/comm.h"
#include "freight/comm/join.h"
#include "freight/comm/launch_environment.h"
#include "freight/comm/launcher.h"
#include "freight/io/file.h"
#include "lists.h"
#include "options.h"
#include "ranks.h"

namespace freight::app {
namespace {

struct CommFlags : JobFlags {
  std::string world = default_world(), bytes = "1k,64k,1M,16M";
  double seconds = 0.5;
  bool json = false;

  // The default numbers of ranks: powers of two up to a rank per core.
  static std::string default_world() {
    std::string text = "1";
    for (int n = 2; n <= cpu_info().cores; n *= 2) text += cat(",", n);
    return text;
  }
};

// Parses "1k,64k,1M": bytes, in powers of 1024, ascending.
std::vector<int64_t> parse_sizes(const std::string& text) {
  constexpr int64_t kMost = int64_t{1} << 34;
  std::vector<int64_t> all;
  for (const std::string& part : parse_list("--bytes", text)) {
    std::string_view unit = part;
    const int64_t n = take_number<int64_t>(unit).value_or(0);
    const int shift = unit.empty() ? 0 : unit == "k" || unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
    const bool sound = shift >= 0 && n > 0 && n <= kMost >> shift;
    const int64_t bytes = sound ? n << shift : 0;
    if (!sound || bytes % 4 != 0 || (!all.empty() && bytes <= all.back())) {
      refuse_text("--bytes", "multiples of 4 up to 16G in ascending order, like 1k,64k,1M,16M with k, M and G of 1024",
                  text);
    }
    all.push_back(bytes);
  }
  return all;
}

// The times, or the number of the signal that ended the job.
std::variant<bench::CommTimes, int> times_of_world(int64_t world, const CommFlags& flags) {
  LogFolder logs("bench-comm");
  comm::LaunchOptions o;
  o.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "bench", "comm", "--json", "--quiet"};
  o.command.insert(o.command.end(), {"--bytes", flags.bytes, "--seconds", cat(flags.seconds), "--comm-timeout",
                                     cat(flags.comm_timeout), "--comm", flags.comm});
  if (!flags.interface.empty()) o.command.insert(o.command.end(), {"--interface", flags.interface});
  o.world = static_cast<int>(world);
  o.bound = flags.transport() == comm::Transport::shared_memory;
  o.log_dir = logs.path();
  o.result = logs.path() + "/result.json";
  const comm::JobEnd end = comm::run_job(o);
  if (end.forwarded != 0) return end.forwarded;
  if (end.failed()) {
    logs.keep();
    const std::string why = last_line(end.log);  // empty for a rank that was killed
    fail(kind_of(end), "bench comm", to_string(end), why.empty() ? "" : ": " + why);
  }
  return bench::read_comm_times(io::read_text(o.result), "rank 0").at(0);
}

std::string machine() { return cat(cpu_info().model, ", ", cpu_info().cores, " cores"); }

void print_times(const std::vector<bench::CommTimes>& all, comm::Transport transport, bool json) {
  if (json) {
    std::printf("%s\n", bench::to_json(machine(), comm::to_string(transport), all).c_str());
    return;
  }
  std::printf("all-reduce of f32 over processes (%s): %s\n\n", comm::to_string(transport), machine().c_str());
  print(bench::figures_of(all));
  for (const std::string& text : bench::findings(all)) std::printf("%s\n", text.c_str());
}

}  // namespace

int bench_comm_command(const Args& args) {
  CommFlags flags;
  Options o("bench comm", "Times the all-reduce over processes that training on several devices uses.", "[options]",
            "us: microseconds of an all-reduce of f32, of the slowest rank. bus: 2 (W - 1) / W * bytes / time.\n"
            "  freight bench comm --world 1,2,4 --bytes 1k,64k,1M,16M\n"
            "  freight bench comm --comm gloo\n"
            "  mpirun -n 2 freight bench comm --json");
  o.add("--world", &flags.world, "numbers of ranks, ascending; each starts that many processes", {.value = "LIST"});
  o.add("--bytes", &flags.bytes, "sizes of the arrays, ascending, with k, M and G of 1024", {.value = "LIST"});
  o.add("--seconds", &flags.seconds, "time to measure each size for", {.min = 0.001, .max = 3600});
  declare_job(o, flags);
  o.add("--json", &flags.json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  const std::vector<int64_t> worlds = parse_counts("--world", flags.world), sizes = parse_sizes(flags.bytes);
  constexpr int64_t kMostRanks = 1024;
  need_between("--world", "ranks", static_cast<double>(worlds.back()), 1, static_cast<double>(kMostRanks));
  refuse_nccl(flags);
  const comm::JobOptions job = flags.job();
  const comm::Launch launch = comm::read_launch_environment();
  if (!launch.source.empty()) {
    if (o.given("--world")) need_started("--world", flags.world, launch);
    const auto comm = comm::join_job(launch, job);
    bench::CommTimes times = bench::time_all_reduce(*comm, sizes, flags.seconds);
    if (launch.world > 1) times.beside = bench::time_beside_compute(*comm, times.cost, sizes, flags.seconds);
    times.hosts = (launch.world + launch.local_world - 1) / launch.local_world;
    if (launch.rank == 0) print_times({times}, comm::transport_for(launch, job), flags.json);
    return 0;
  }
  std::vector<bench::CommTimes> all;
  for (const int64_t world : worlds) {
    if (!o.quiet()) std::fprintf(stderr, "ranks: %lld\n", static_cast<long long>(world));
    std::variant<bench::CommTimes, int> times = times_of_world(world, flags);
    if (const int* const signal = std::get_if<int>(&times)) return 128 + *signal;
    all.push_back(std::get<bench::CommTimes>(std::move(times)));
  }
  print_times(all, flags.transport(), flags.json);
  return 0;
}

}  // namespace freight::app
