// `freight predict`: the classes of images or texts by a stored model, any number of them, in batches as they come.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "command.h"
#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/deploy/predictor.h"
#include "freight/store/precision.h"
#include "freight/train/progress.h"
#include "freight/train/signals.h"
#include "options.h"
#include "output_path.h"
#include "predict_inputs.h"
#include "predict_output.h"
#include "predict_rows.h"

namespace freight::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFirstLineAfter = 10;  // seconds, where the progress is no rewriting line

// How fast it went; said at the end and, in short, while it goes on.
struct Figures {
  const char* unit = "images";
  Clock::time_point start = Clock::now();
  int64_t samples = 0, left_out = 0;
  double planning_s = 0;
  bool warned = false;                 // of values in another range than that of training
  std::vector<double> batches_s = {};  // each from prepared samples to probabilities

  std::string progress() const {
    return cat(with_commas(samples), " ", unit, "  ", fixed(static_cast<double>(samples) / seconds_since(start), 1),
               " ", unit, "/s", left_out ? cat("  ", left_out, " left out") : "");
  }
  void show(Progress& progress) const {
    const bool early = progress.mode() == Progress::Mode::lines && seconds_since(start) < kFirstLineAfter;
    if (!early && progress.due()) progress.update(this->progress());
  }
  std::string summary() const {
    const std::string what = samples == 1 ? std::string(unit).substr(0, std::strlen(unit) - 1) : unit;
    std::string text = cat(with_commas(samples), " ", what, " in ", fixed(seconds_since(start), 2),
                           " s: ", fixed(static_cast<double>(samples) / seconds_since(start), 1), " ", unit, "/s");
    if (left_out > 0) text += cat(", ", with_commas(left_out), " left out");
    if (batches_s.empty()) return text;
    std::vector<double> sorted = batches_s;
    std::sort(sorted.begin(), sorted.end());
    const auto ms = [&](double share) {
      const auto last = static_cast<double>(sorted.size() - 1);
      return fixed(sorted[static_cast<size_t>(share * last + 0.5)] * 1e3, 2);
    };
    return text + cat("; ", sorted.size(), sorted.size() == 1 ? " batch" : " batches", ": p50 ", ms(0.5), " ms, p90 ",
                      ms(0.9), " ms, p99 ", ms(0.99), " ms; planning ", fixed(planning_s, 2), " s");
  }
};

void predict_samples(deploy::Predictor& predictor, InputStream& inputs, PredictionWriter& writer, bool stop_at_bad,
                     Progress& progress, Figures& figures) {
  const auto most = static_cast<size_t>(predictor.options().batch_size);
  for (;;) {
    std::vector<Input> batch = inputs.next(most);
    if (batch.empty() || signals::stop_requested()) return;
    std::vector<std::string> names;
    std::vector<Array> samples;
    std::optional<Error> fault;
    for (Input& input : batch) {
      if (input.fault && stop_at_bad) {
        fault = input.fault;
        break;
      }
      if (input.fault) {
        ++figures.left_out;
        progress.line(cat("warning: left out: ", input.fault->what()));
        continue;
      }
      const std::string odd = predictor.range_warning(input.sample);
      if (!odd.empty() && !(figures.warned && predictor.bundle().net())) {
        progress.line(cat("warning: ", input.name, ": ", odd));
        figures.warned = true;  // inputs of a net are told of once; columns are by themselves
      }
      names.push_back(std::move(input.name));
      samples.push_back(std::move(input.sample));
    }
    if (!samples.empty()) {
      auto start = Clock::now();
      predictor.warm(samples);
      figures.planning_s += seconds_since(start);
      start = Clock::now();
      const Array rows = predictor.run(samples);
      figures.batches_s.push_back(seconds_since(start));
      writer.write(names, rows);
      figures.samples += rows.shape()[0];
    }
    if (fault) throw Error(*fault);
    figures.show(progress);
  }
}

void predict_table(deploy::Predictor& predictor, RowStream& stream, PredictionWriter& writer, bool explain,
                   Progress& progress, Figures& figures) {
  predict_rows(predictor, stream, writer, explain, [&](const RowsAnswered& block) {
    for (const Error& fault : block.left_out) progress.line(cat("warning: left out: ", fault.what()));
    for (const std::string& odd : block.beyond) progress.line(cat("warning: ", odd));
    figures.left_out += static_cast<int64_t>(block.left_out.size());
    figures.samples += block.rows;
    if (block.rows > 0) figures.batches_s.push_back(block.seconds);
    figures.show(progress);
    return !signals::stop_requested();
  });
}

void check_explained(const store::Bundle& bundle, const OutputOptions& output) {
  if (!output.explain) return;
  if (bundle.net() || !bundle.rows->explains()) {
    fail(ErrorKind::usage, "--explain", "a model of ", bundle.net() ? bundle.model.name : bundle.learner,
         " does not say what each column adds: need one of ", join(store::row_learners(), ", "),
         " that does (trees and linear models)");
  }
  if (output.form == Form::none)
    fail(ErrorKind::usage, "--explain", "writes to -o or standard output: need -o beside --npy");
}

// Neither file may be an input: one that is named, or that the walk through a folder finds.
void check_outputs(const OutputOptions& output, std::vector<std::string> inputs, const std::string& model, bool text) {
  inputs.push_back(model);
  const auto check = [&](const std::string& flag, const std::string& file) {
    check_output(flag, file, inputs);
    for (const std::string& input : inputs) {
      if (!io::file_exists(file) || !std::filesystem::is_directory(input) || !lies_in(file, input)) continue;
      if (is_wanted(file, text)) {
        fail(ErrorKind::usage, flag, file, " lies in ", input, ", which is read, need another file");
      }
    }
  };
  if (output.file != "-") check("-o", output.file);
  check("--npy", output.npy);
  if (!output.npy.empty() && output.npy == output.file) {
    fail(ErrorKind::usage, "--npy", output.npy, " is the file of -o, too: need two");
  }
}

}  // namespace

int predict_command(const Args& args) {
  std::string model, device = "auto", precision = "fp32", on_bad_sample = "error";
  Sources sources;
  OutputOptions output;
  int64_t top_k = 3, batch_size = 64, workers = thread_count();
  bool json = false, jsonl = false, csv = false, no_progress = false, deterministic = false;
  Options o(
      "predict", "Predicts the classes of pictures or texts with a stored model.",
      "MODEL.safetensors FILE|DIR|- ... [options]",
      "Pictures are PNG, JPEG, WebP, BMP, PPM or npy; they are made grey or RGB, resized and cut as in\n"
      "evaluation. Folders are walked. For a model of texts every line of a file is one; of a folder, every\n"
      "line of its .txt and .txt.gz files. - reads paths, or texts, from standard input, a line each. A model of\n"
      "tables reads .csv, .tsv, .jsonl and .npz files, whose columns it finds by their names.\n"
      "  freight predict runs/convnet-digits/model.safetensors a.png b.jpg --top-k 1\n"
      "  freight predict model.safetensors photos/ --csv -o classes.csv --npy probabilities.npy\n"
      "  freight predict runs/textcnn-sst2/model.safetensors --text \"a film to remember\"");
  o.positional("model", &model, "the stored model", true);
  o.positional("files", &sources.files, "pictures, files with a text per line, folders, or -", false);
  o.add("--text", &sources.texts, "a text; may be repeated", {.value = "TEXT"});
  o.add("--top-k", &top_k, "classes shown per sample", {.min = 1});
  o.add("-b,--batch-size", &batch_size, "samples per step, at most (rows of tables: by themselves)",
        {.min = 1, .max = 1 << 24});
  o.add("--device", &device, "auto, cpu, ref, cuda:N or opencl:N");
  o.add("--precision", &precision, "of the arithmetic: fp32, tf32, bf16 or fp16", {.one_of = store::precision_names()});
  o.add("--deterministic", &deterministic, "fixed kernel choices, no measurement");
  o.add("-j,--workers", &workers, "threads that decode pictures", {.min = 1, .aliases = {"--num-workers"}});
  o.add("--on-bad-sample", &on_bad_sample, "inputs that cannot be read: error stops, skip and report go on without",
        {.one_of = {"error", "skip", "report"}});
  o.add("--json", &json, "write one JSON document per sample, with all probabilities");
  o.add("--jsonl", &jsonl, "write one JSON document per sample, with the top-k classes in their order");
  o.add(
      "--csv", &csv,
      "write path (or text),class,probability lines under a header, top-k lines per sample; of tables with the columns "
      "that identify rows");
  o.add("--explain", &output.explain,
        "of tables: what each column adds to the answer, as columns shap:NAME and shap:base (CSV, or --json)");
  o.add("--npy", &output.npy, "write the probabilities (samples, classes) to an npy file", {.value = "FILE"});
  o.add("-o,--output", &output.file, "write to a file instead of standard output (-)", {.value = "FILE"});
  o.add("--no-progress", &no_progress, "no progress line");
  if (o.parse(args) == Options::Outcome::done) return 0;
  if (sources.files.empty() && sources.texts.empty()) {
    fail(ErrorKind::usage, "files", "are missing (of texts, --text too); see freight predict --help");
  }
  if (json + jsonl + csv > 1) fail(ErrorKind::usage, csv ? "--csv" : "--json", "does not go with another format");
  if (output.explain && !json && !jsonl) csv = true;
  if (csv && !o.given("--top-k")) top_k = 1;
  output.top = static_cast<size_t>(top_k);
  output.form = csv ? Form::csv : json ? Form::json : jsonl ? Form::jsonl : Form::lines;
  if (output.form == Form::lines && !output.npy.empty() && output.file.empty()) output.form = Form::none;
  signals::install();
  const store::ComputeType compute = store::compute_type(precision, device);
  if (!compute.note.empty()) std::fprintf(stderr, "note    %s\n", compute.note.c_str());
  deploy::Predictor predictor(
      store::load_bundle(model),
      {.backend = device, .precision = precision, .deterministic = deterministic, .batch_size = batch_size});
  const bool text = predictor.bundle().preprocessing.text();
  check_explained(predictor.bundle(), output);
  if (!sources.texts.empty() && !text) {
    fail(ErrorKind::usage, "--text", "model ", predictor.bundle().name(), " reads no texts");
  }
  check_outputs(output, sources.files, model, text);
  if (output.file == "-") output.file.clear();
  // Results on the same terminal would break the line.
  const bool quiet = no_progress || o.quiet() || (output.file.empty() && isatty(STDOUT_FILENO));
  Progress progress(quiet ? Progress::Mode::off : Progress::Mode::automatic);
  const bool rows = !predictor.bundle().net();
  Figures figures{.unit = rows                                          ? "rows"
                          : text                                        ? "texts"
                          : predictor.bundle().preprocessing.pictures() ? "images"
                                                                        : "samples"};
  if (rows && output.form == Form::csv) output.passed = passed_columns(predictor.bundle());
  PredictionWriter writer(predictor, output);
  const bool stop_at_bad = on_bad_sample == "error";
  if (rows) {
    const int64_t most = o.given("--batch-size") ? batch_size : rows_per_block(predictor.bundle());
    RowStream inputs(predictor.bundle(), sources.files, most, stop_at_bad, output.passed);
    predict_table(predictor, inputs, writer, output.explain, progress, figures);
  } else {
    InputStream inputs(predictor, std::move(sources), workers, static_cast<size_t>(2 * batch_size));
    predict_samples(predictor, inputs, writer, stop_at_bad, progress, figures);
  }
  progress.clear();
  if (signals::stop_requested()) return signals::exit_code();
  if (figures.samples == 0 && figures.left_out > 0) {
    fail(ErrorKind::data, "predict", "none of the ", with_commas(figures.left_out),
         " inputs can be read: nothing to answer");
  }
  writer.commit();
  if (!o.quiet()) std::fprintf(stderr, "%s\n", figures.summary().c_str());
  return 0;
}

}  // namespace freight::app
