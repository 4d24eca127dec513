// `freight calibrate`: measures once what this machine's kernels reach, for the time estimates of `freight plan`.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "command.h"
#include "freight/base/error.h"
#include "freight/io/file.h"
#include "freight/io/json_library.h"
#include "freight/job/signals.h"
#include "freight/plan/rates.h"
#include "freight/store/precision.h"
#include "options.h"
#include "output_path.h"

namespace freight::app {
namespace {

class Shown : public plan::CalibrationProgress {
 public:
  explicit Shown(bool quiet) : quiet_(quiet) {}
  bool next(size_t number, size_t count, const std::string& net) override {
    if (!quiet_) std::fprintf(stderr, "%zu/%zu  %s\n", number, count, net.c_str());
    return !signals::stop_requested();
  }

 private:
  bool quiet_;
};

}  // namespace

int calibrate_command(const Args& args) {
  std::string output;
  bool json = false;
  double seconds = plan::CalibrationOptions().seconds;
  Options o("calibrate", "Measures this machine's kernels for the time estimates of freight plan.", "[options]",
            "Takes two minutes, or --seconds; stop other programs first. The result is saved in the cache directory\n"
            "(freight env), by CPU and number of threads; freight plan reads it from there.");
  o.add("-o,--output", &output, "write the rates to FILE too, for freight plan --rates FILE", {.value = "FILE"});
  o.add("--seconds", &seconds, "measuring time; a short one measures fewer and smaller batches",
        {.min = 1, .max = 3600});
  o.add("--json", &json, "print JSON");
  if (o.parse(args) == Options::Outcome::done) return 0;
  check_output("-o", output, {});
  signals::install();
  plan::CalibrationOptions options{.seconds = seconds};
  if (store::compute_type("bf16", "auto").note.empty()) options.types.push_back(DType::bf16);
  Shown shown(o.quiet());
  const plan::Rates rates = plan::calibrate(options, shown);
  if (signals::stop_requested()) return signals::exit_code();
  const std::string path = plan::rates_path(), text = rates.to_json() + "\n";
  if (!path.empty()) std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  for (const std::string& file : {path, output}) {
    if (file.empty()) continue;
    io::AtomicFile out(file);
    out.write(text);
    out.commit();
  }
  if (json) {
    const nlohmann::ordered_json j = {
        {"device", rates.device},
        {"threads", rates.threads},
        {"date", rates.date},
        {"kernels", rates.size()},
        {"median_error", rates.median_error},
        {"p90_error", rates.p90_error},
        {"kept", path.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(path)}};
    std::printf("%s\n", j.dump(2).c_str());
    return 0;
  }
  std::printf("%zu kernels measured on %s, %d threads\n", rates.size(), rates.device.c_str(), rates.threads);
  std::printf("each network predicted from the others: median error %s %%, nine of ten within %s %%\n",
              fixed(100 * rates.median_error, 1).c_str(), fixed(100 * rates.p90_error, 1).c_str());
  if (!path.empty()) std::printf("saved   %s\n", path.c_str());
  return 0;
}

}  // namespace freight::app
