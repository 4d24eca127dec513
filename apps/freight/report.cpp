// `freight report`: the page of one or several runs.
#include <cstdio>
#include <filesystem>

#include "command.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/data/catalog.h"
#include "freight/data/source.h"
#include "freight/io/file.h"
#include "freight/job/signals.h"
#include "freight/report/page.h"
#include "freight/train/progress.h"
#include "options.h"
#include "output_path.h"

namespace freight::app {

int report_command(const Args& args) {
  std::vector<std::string> runs;
  std::string output;
  report::ExamineOptions examine;
  bool examples = true;
  Options o("report",
            "Writes one HTML file about one or several runs: curves, confusion matrix, errors, configuration.",
            "RUN ... [options]",
            "The saved model of each run is evaluated on its validation data; --no-examples skips that.\n"
            "  freight report runs/convnet-digits\n"
            "  freight report runs/a runs/b -o compared.html --no-examples");
  o.positional("runs", &runs, "directories of runs", true);
  o.add("-o,--output", &output,
        "the file; - is standard output (default: report.html, in the directory of a single run)",
        {.value = "FILE.html", .aliases = {"--out"}});
  o.add("--data", &examine.data, "a built-in dataset, a directory or a file (default: what each model was trained on)",
        {.aliases = {"--data-path"}});
  o.add("--data-dir", &examine.data_dir, "directory that is searched first for built-in datasets", {.value = "DIR"});
  o.add("--examples", &examples, "evaluate the model: confusion matrix and most confident errors");
  o.add("--mistakes", &examine.examples, "number of errors to show", {.min = 0, .max = 1000});
  o.add("--samples", &examine.samples, "validation samples to evaluate, evenly spread (0: all)", {.min = 0});
  o.add("-b,--batch-size", &examine.batch_size, "samples per step", {.min = 1, .max = 1 << 24});
  o.add("--device", &examine.backend, "auto, cpu or ref");
  if (o.parse(args) == Options::Outcome::done) return 0;
  for (const std::string& run : runs) {
    for (const char* name :
         {"run.json", "config.json", "model.json", "metrics.jsonl", "metrics.csv", "model.safetensors"}) {
      if (output != "-") check_output("-o", output, {cat(run, "/", name)});
    }
  }
  signals::install();
  if (!examine.data.empty()) data::Source(examine.data, {.data_dir = examine.data_dir}).need();  // throws if missing
  Progress progress(o.quiet() ? Progress::Mode::off : Progress::Mode::automatic);
  std::vector<report::ReportedRun> reported;
  for (const std::string& path : runs) reported.push_back({.run = report::read_run(path)});
  for (const report::ReportedRun& s : reported) {
    for (const std::string& note : s.run.notes) {
      if (!o.quiet()) progress.line(cat("warning: ", s.run.path, ": ", note));
    }
  }
  for (report::ReportedRun& s : reported) {
    if (!examples) continue;
    try {
      if (s.run.model.empty()) fail(ErrorKind::data, s.run.path, "the run has no saved model yet");
      s.examination = report::examine(s.run.model, examine, [&](int64_t done, int64_t total) {
        if (progress.due()) {
          progress.update(cat("examining ", s.run.path, "  ", with_commas(done), "/", with_commas(total)));
        }
        return !signals::stop_requested();
      });
    } catch (const Error& e) {
      if (signals::stop_requested()) throw;
      s.not_examined = e.what();
      if (!o.quiet()) progress.line(cat("warning: the model of ", s.run.path, " was not run: ", e.what()));
    }
    if (signals::stop_requested()) return signals::exit_code();
  }
  progress.clear();
  const std::string html = report::to_html(reported);
  if (output == "-") {
    std::fwrite(html.data(), 1, html.size(), stdout);
    return 0;
  }
  if (output.empty()) output = reported.size() == 1 ? reported.front().run.path + "/report.html" : "report.html";
  io::write_file_atomic(output, std::string_view(html));
  std::printf("%s: %s\n", output.c_str(), human_bytes(static_cast<double>(html.size())).c_str());
  return 0;
}

}  // namespace freight::app
