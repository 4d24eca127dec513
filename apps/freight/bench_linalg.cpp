// `freight bench linalg`: factorizations, solves, eigenvalues and singular values beside the matrix product.
#include <cstdio>

#include "bench_output.h"
#include "command.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/bench/linalg.h"
#include "lists.h"
#include "options.h"

namespace freight::app {
namespace {

std::vector<DType> dtypes_of(const std::string& text) {
  std::vector<DType> all;
  for (const std::string& name : parse_list("--dtype", text)) {
    need_name("--dtype", name, {"f64", "f32"});
    all.push_back(name == "f64" ? DType::f64 : DType::f32);
  }
  return all;
}

}  // namespace

int bench_linalg_command(const Args& args) {
  std::string extents = "500,1000,2000", ops = join(bench::linalg_ops(), ","), dtypes = "f64,f32", device = "cpu";
  bool json = false;
  bench::LinalgOptions run;
  int64_t threads = 0;
  Options o("bench linalg", "Times linear algebra, compared with matmul.", "[options]",
            "Times are the best of all runs (docs/linalg.md).\n"
            "  freight bench linalg --n 500,1000,2000,4000\n"
            "  freight bench linalg --op lu,solve --dtype f64 --n 16,64 --batch 1000\n"
            "  freight bench linalg --op lu --device cuda:0 --n 1000,4000,16000 --json");
  o.add("--n", &extents, "rows and columns of the matrices, ascending", {.value = "LIST"});
  o.add("--op", &ops, "operations to time, in addition to matmul", {.value = "LIST"});
  o.add("--dtype", &dtypes, "f64, f32 or both", {.value = "LIST"});
  o.add("-b,--batch-size", &run.batch, "matrices at a time", {.min = 1, .aliases = {"--batch"}});
  o.add("--device", &device, "device to compare with the CPU: cuda:N, opencl:N, ref");
  o.add("--threads", &threads, "of the CPU (0: all)", {.min = 0, .max = 1024});
  o.add("--seconds", &run.seconds, "time to measure each figure for", {.min = 0.001, .max = 3600});
  o.add("--most-seconds", &run.most_seconds, "skip sizes of which one run would take longer", {.min = 0.001});
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  run.extents = parse_counts("--n", extents);
  run.ops = parse_list("--op", ops);
  run.dtypes = dtypes_of(dtypes);
  run.threads = static_cast<int>(threads);
  if (device != "cpu") run.devices.push_back(device);
  const bench::LinalgTimes times = bench::time_linalg(run, [&](const std::string& what) {
    if (!o.quiet()) std::fprintf(stderr, "%s\n", what.c_str());
    return true;
  });
  if (json) {
    std::printf("%s\n", bench::to_json(times).c_str());
    return 0;
  }
  std::printf("%s, %d %s, batch %lld\n", times.machine.c_str(), times.threads,
              times.threads == 1 ? "thread" : "threads", static_cast<long long>(run.batch));
  std::printf("\n");
  print(bench::figures_of(times));
  for (const std::string& text : bench::findings(times)) std::printf("%s\n", text.c_str());
  return 0;
}

}  // namespace freight::app
