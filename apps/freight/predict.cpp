// `freight predict`: predicts with a saved model for any number of images, texts, arrays or rows of tables, in batches
// as they arrive.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "command.h"
#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/printable.h"
#include "freight/base/threads.h"
#include "freight/base/usage.h"
#include "freight/deploy/predictor.h"
#include "freight/job/signals.h"
#include "freight/store/precision.h"
#include "freight/train/progress.h"
#include "freight/train/trained_on.h"
#include "options.h"
#include "output_path.h"
#include "predict_batches.h"
#include "predict_columns.h"
#include "predict_inputs.h"
#include "predict_output.h"
#include "predict_rows.h"
#include "ranks.h"

namespace freight::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFirstLineAfter = 10;  // seconds before the first line of progress, if it is not rewritten

// The speed, which is shown at the end and, in short, during prediction.
struct Figures {
  const char* unit = "images";
  Clock::time_point start = Clock::now();
  int64_t samples = 0, left_out = 0;
  double planning_s = 0;
  bool warned = false;                 // of values in another range than in training
  bool not_finite = false;             // a prediction was NaN or infinite, which was said
  std::vector<double> batches_s = {};  // each from prepared samples to probabilities

  std::string progress() const {
    return cat(with_commas(samples), " ", unit, "  ", fixed(static_cast<double>(samples) / seconds_since(start), 1),
               " ", unit, "/s", left_out ? cat("  ", left_out, " skipped") : "");
  }
  void show(Progress& progress) const {
    const bool early = progress.mode() == Progress::Mode::lines && seconds_since(start) < kFirstLineAfter;
    if (!early && progress.due()) progress.update(this->progress());
  }
  std::string summary() const {
    const std::string what = samples == 1 ? std::string(unit).substr(0, std::strlen(unit) - 1) : unit;
    std::string text = cat(with_commas(samples), " ", what, " in ", fixed(seconds_since(start), 2),
                           " s: ", fixed(static_cast<double>(samples) / seconds_since(start), 1), " ", unit, "/s");
    if (left_out > 0) text += cat(", ", with_commas(left_out), " skipped");
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

// Receives the predictions; of several ranks only the first has one.
struct Sink {
  PredictionWriter& writer;
  Progress& progress;
  Figures& figures;

  void take(const std::vector<Input>& batch, const BatchPrediction& a) {
    for (const BatchPrediction::Note& note : a.notes) {
      const bool range = note.of == BatchPrediction::Note::Of::range;
      if (range && figures.warned) continue;
      if (range) {
        figures.warned = true;
      } else {
        ++figures.left_out;
      }
      progress.line(cat(range ? "warning: " : "warning: skipped: ", note.text));
    }
    if (!a.predicted.empty()) {
      std::vector<std::string> names;
      for (const int64_t i : a.predicted) names.push_back(batch[static_cast<size_t>(i)].name);
      figures.planning_s += a.planning_s;
      figures.batches_s.push_back(a.seconds);
      writer.write(names, a.rows);
      warn_of_nan(names, a.rows);
      figures.samples += a.rows.shape()[0];
    }
    if (a.fault) throw Error(*a.fault);
    figures.show(progress);
  }

 private:
  // Once for all predictions.
  void warn_of_nan(const std::vector<std::string>& names, const Array& rows) {
    const int64_t columns = rows.numel() / std::max<int64_t>(rows.shape()[0], 1);
    for (int64_t i = 0; i < rows.numel() && !figures.not_finite; ++i) {
      const float result = rows.data<float>()[i];
      if (std::isfinite(result)) continue;
      figures.not_finite = true;
      logging::warn(cat("the model gives ", result, " for ", names[static_cast<size_t>(i / columns)],
                        ": a weight or this input is at fault (freight verify)"));
    }
  }
};

// Called after everything was read: the first rank reports an error that ended reading.
void end_of(const Round& round, const Sink* sink) {
  if (round.fault && sink) throw Error(*round.fault);
}

// `sink` is null on all ranks but the first; `comm` is null for a single process.
void predict_samples(deploy::Predictor& predictor, InputStream& inputs, const InputShard& shard, bool stop_at_bad,
                     comm::Comm* comm, Sink* sink) {
  for (;;) {
    const Round round = next_round(inputs, shard);
    int signal = signals::own_signal();
    if (!comm && signal != 0) return;
    const std::vector<Input>& own = round.batches[static_cast<size_t>(shard.rank)];
    BatchPrediction mine = signal == 0 ? predict(predictor, own, stop_at_bad) : BatchPrediction();
    std::optional<std::vector<BatchPrediction>> all;
    if (comm) {
      all = exchange(*comm, round, mine, signal);
    } else {
      all.emplace().push_back(std::move(mine));
    }
    if (!all) {
      signals::agree(signal);
      return;
    }
    for (size_t r = 0; r < all->size(); ++r) {
      if (sink) sink->take(round.batches[r], (*all)[r]);
      if ((*all)[r].fault || round.batches[r].empty()) return end_of(round, sink);
    }
    if (round.fault) return end_of(round, sink);
  }
}

void predict_table(deploy::Predictor& predictor, RowStream& stream, PredictionWriter& writer, bool explain,
                   Progress& progress, Figures& figures) {
  const std::vector<store::Column>& columns = predictor.bundle().columns;
  std::string file;
  store::ColumnGaps gaps;  // of the current file
  const auto end_file = [&] {
    for (const std::string& gap : gaps.warnings(columns)) progress.line(cat("warning: ", file, ": ", gap));
    gaps = {};
  };
  predict_rows(predictor, stream, writer, explain, [&](const RowsPredicted& block) {
    if (block.file != file) end_file();
    file = block.file;
    gaps.add(block.gaps);
    for (const Error& fault : block.left_out) progress.line(cat("warning: skipped: ", fault.what()));
    for (const std::string& odd : block.beyond) progress.line(cat("warning: ", odd));
    figures.left_out += static_cast<int64_t>(block.left_out.size());
    figures.samples += block.rows;
    if (block.rows > 0) figures.batches_s.push_back(block.seconds);
    figures.show(progress);
    return !signals::stop_requested();
  });
  end_file();
  if (const int64_t n = stream.blank_rows(); n > 0) {
    progress.line(cat("warning: ", with_commas(n), n == 1 ? " row" : " rows", " without any value skipped"));
  }
}

void check_explained(const store::Bundle& bundle, const OutputOptions& output) {
  if (!output.explain) return;
  if (bundle.net() || !bundle.rows->explains()) {
    fail(ErrorKind::usage, "--explain", "a model of ", bundle.net() ? bundle.model.name : bundle.learner,
         " does not attribute predictions to columns: expected one of ", join(store::row_learners(), ", "),
         " that does (trees and linear models)");
  }
  requires_flag({"--explain", true}, {"-o", output.form != Form::none}, "a file of --npy has predictions alone");
}

// Neither output may be an input, whether named or found in a folder.
void check_outputs(const OutputOptions& output, std::vector<std::string> inputs, const std::string& model, bool text) {
  inputs.push_back(model);
  const auto check = [&](const std::string& flag, const std::string& file) {
    check_output(flag, file, inputs);
    for (const std::string& input : inputs) {
      if (!io::file_exists(file) || !std::filesystem::is_directory(input) || !lies_in(file, input)) continue;
      if (is_wanted(file, text)) {
        fail(ErrorKind::usage, flag, file, " is in the input folder ", input, ": use another folder");
      }
    }
  };
  if (output.file != "-") check("-o", output.file);
  check("--npy", output.npy);
  if (!output.npy.empty() && output.npy == output.file) {
    fail(ErrorKind::usage, "--npy", output.npy, " is also the file of -o: expected two different files");
  }
}

struct PredictFlags {
  std::string model, device = "auto", precision = "fp32", on_bad_sample = "error";
  Sources sources;
  OutputOptions output;
  int64_t top_k = 3, batch_size = 64, workers = thread_count();
  std::string columns;
  bool lines_of_classes = false;  // --top-k is given
  bool json = false, jsonl = false, csv = false, progress = true, deterministic = false;
  RankFlags ranks;

  bool stop_at_bad() const { return on_bad_sample == "error"; }
};

void declare(Options& o, PredictFlags& f) {
  o.positional("model", &f.model, "the saved model", true);
  o.positional("files", &f.sources.files, "images, files with a text per line, folders, or -", false);
  o.add("--text", &f.sources.texts, "a text; may be repeated", {.value = "TEXT"});
  o.add("--top-k", &f.top_k, "classes shown per sample", {.min = 1});
  o.add("-b,--batch-size", &f.batch_size, "maximum samples per step (rows of tables: automatic)",
        {.min = 1, .max = 1 << 24});
  o.add("--device", &f.device, "auto, cpu, ref, cuda:N or opencl:N");
  o.add("--precision", &f.precision, "fp32, tf32, bf16 or fp16", {.one_of = store::precision_names()});
  o.add("--deterministic", &f.deterministic, "fixed kernel choices, no measurement; always so with --devices");
  o.add("-j,--workers", &f.workers, "threads that decode images", {.min = 1, .aliases = {"--num-workers"}});
  o.add("--on-bad-sample", &f.on_bad_sample, "unreadable inputs: error stops, skip and report ignore them",
        {.one_of = {"error", "skip", "report"}});
  o.add("--json", &f.json, "write one JSON document per sample, with all probabilities");
  o.add("--jsonl", &f.jsonl, "write one JSON document per sample, with the top-k classes in their order");
  o.add("--csv", &f.csv,
        "write CSV; path (or text), class and probability, top-k lines per sample; for tables what identifies "
        "a row, the target and the probability of each class");
  o.add("--columns", &f.columns,
        "columns of the CSV for tables: the target, classes, probability, path and columns of the table",
        {.value = "NAMES"});
  o.add("--explain", &f.output.explain,
        "SHAP values of each column of a table, as columns shap:NAME and shap:base (CSV, or --json)");
  o.add("--npy", &f.output.npy, "write the probabilities (samples, classes) to an npy file", {.value = "FILE"});
  o.add("-o,--output", &f.output.file, "write to a file instead of standard output (-)", {.value = "FILE"});
  o.add("--progress", &f.progress, "show the progress line on stderr");
  declare(o, f.ranks);
}

// Derives settings from the flags, and refuses flags that cannot be combined.
void settle(PredictFlags& f, const Options& o) {
  if (f.sources.files.empty() && f.sources.texts.empty()) {
    fail(ErrorKind::usage, "files", "are missing (for texts also --text); see freight predict --help");
  }
  excludes({"--json", f.json}, {"--jsonl", f.jsonl});
  excludes({"--csv", f.csv}, {f.json ? "--json" : "--jsonl", f.json || f.jsonl});
  OutputOptions& output = f.output;
  if (output.explain && !f.json && !f.jsonl) f.csv = true;
  if (!f.columns.empty()) {
    excludes({"--columns", true}, {f.json ? "--json" : "--jsonl", f.json || f.jsonl}, "the columns are those of --csv");
    f.csv = true;
  }
  f.lines_of_classes = o.given("--top-k");
  if (f.csv && !f.lines_of_classes) f.top_k = 1;
  output.top = static_cast<size_t>(f.top_k);
  output.form = f.csv ? Form::csv : f.json ? Form::json : f.jsonl ? Form::jsonl : Form::lines;
  if (output.form == Form::lines && !output.npy.empty() && output.file.empty()) output.form = Form::none;
}

// All ranks list the same inputs, but only one process can read a pipe.
void need_files(const Sources& sources) {
  for (const std::string& file : sources.files) {
    std::error_code ignored;
    const bool kept = std::filesystem::is_regular_file(file, ignored) || std::filesystem::is_directory(file, ignored);
    // Missing files are reported later.
    if (kept || (file != "-" && !std::filesystem::exists(file, ignored))) continue;
    fail(ErrorKind::usage, "--devices", file == "-" ? "standard input" : file,
         " is read once, by one process: expected files or folders, which all devices go through");
  }
}

deploy::Predictor make_predictor(const PredictFlags& f, const comm::Launch& launch) {
  // The predictions are the same on any number of devices.
  const bool together = launch.world > 1 || !f.ranks.devices.empty();
  const std::string device = device_of(f.ranks, f.device, launch.rank);
  const store::ComputeType compute = store::compute_type(f.precision, device);
  if (!compute.note.empty() && launch.rank == 0) std::fprintf(stderr, "note    %s\n", compute.note.c_str());
  return deploy::Predictor(store::load_bundle(f.model), {.backend = device,
                                                         .precision = f.precision,
                                                         .deterministic = f.deterministic || together,
                                                         .batch_size = f.batch_size});
}

void check_model(const deploy::Predictor& predictor, PredictFlags& f, const comm::Launch& launch) {
  const store::Bundle& bundle = predictor.bundle();
  check_explained(bundle, f.output);
  if (!f.sources.texts.empty() && !bundle.preprocessing.text()) {
    fail(ErrorKind::usage, "--text", "model ", bundle.name(), " reads no texts");
  }
  if (!f.columns.empty() && bundle.net())
    refuse_flag_of("--columns", "table models", cat(bundle.name(), " is a network"));
  if (launch.world > 1 && !bundle.net()) {
    refuse_flag_of("--devices", "networks",
                   cat(f.model, " is a table model: one process predicts its rows on all cores"));
  }
  check_outputs(f.output, f.sources.files, f.model, bundle.preprocessing.text());
  f.sources.text_column = train::trained_on(bundle, f.model).load.text.text_column;
}

// Predicts as another rank than the first, which gets the predictions.
void predict_beside(deploy::Predictor& predictor, const PredictFlags& f, const InputShard& shard, comm::Comm& comm) {
  InputStream inputs(predictor, f.sources, f.workers, 2 * shard.batch * static_cast<size_t>(shard.world), shard);
  predict_samples(predictor, inputs, shard, f.stop_at_bad(), &comm, nullptr);
}

void say_note(const std::string& text, bool quiet) {
  if (!quiet) std::fprintf(stderr, "note    %s\n", printable(text).c_str());
}

int predict_here(deploy::Predictor& predictor, PredictFlags& f, const Options& o, const InputShard& shard,
                 comm::Comm* comm) {
  OutputOptions& output = f.output;
  const store::Bundle& bundle = predictor.bundle();
  if (output.file == "-") output.file.clear();
  // Results on the same terminal would break the progress line.
  const bool quiet = !f.progress || o.quiet() || (output.file.empty() && isatty(STDOUT_FILENO));
  Progress progress(quiet ? Progress::Mode::off : Progress::Mode::automatic);
  const bool rows = !bundle.net();
  Figures figures{.unit = rows                              ? "rows"
                          : bundle.preprocessing.text()     ? "texts"
                          : bundle.preprocessing.pictures() ? "images"
                                                            : "samples"};
  if (output.form == Form::csv) {
    CsvOptions asked{.lines_of_classes = f.lines_of_classes};
    for (const std::string& name : split(f.columns, ',')) {
      if (!name.empty()) asked.names.push_back(name);
    }
    output.columns = csv_columns(bundle, asked);
  }
  if (const std::string above = store::thresholds_text(bundle); !above.empty()) {
    say_note(cat("predicted: ", above, " (the saved threshold)"), o.quiet());
  }
  std::optional<logging::Held> held(std::in_place);  // warnings are shown after the predictions
  PredictionWriter writer(predictor, output);
  if (rows) {
    const int64_t most = o.given("--batch-size") ? f.batch_size : rows_per_block(bundle);
    RowStream inputs(bundle, f.sources.files, most, f.stop_at_bad(),
                     {.names = input_columns(output.columns), .needed = !f.columns.empty()});
    predict_table(predictor, inputs, writer, output.explain, progress, figures);
  } else {
    InputStream inputs(predictor, f.sources, f.workers, 2 * shard.batch * static_cast<size_t>(shard.world), shard);
    Sink sink{writer, progress, figures};
    predict_samples(predictor, inputs, shard, f.stop_at_bad(), comm, &sink);
    progress.clear();
    // After a stop, a worker may still hold the lock that notes() takes while it waits for room in the queue.
    if (!signals::stop_requested()) {
      for (const std::string& note : inputs.notes()) say_note(note, o.quiet());
    }
  }
  progress.clear();
  if (signals::stop_requested()) return signals::exit_code();
  if (figures.samples == 0 && figures.left_out > 0) {
    fail(ErrorKind::data, "predict", "none of the ", with_commas(figures.left_out),
         " inputs can be read: nothing to predict");
  }
  writer.commit();
  held.reset();
  if (!o.quiet()) std::fprintf(stderr, "%s\n", figures.summary().c_str());
  return 0;
}

int predict_together(PredictFlags& f, const Options& o, const Args& args, const comm::Launch& launch) {
  refuse_nccl(f.ranks);
  const std::unique_ptr<job::Ranks> ranks = join_ranks(f.ranks, launch);
  if (!ranks) return signals::exit_code();
  return with_others(ranks.get(), [&] {
    need_same_question(*ranks, args, f.model);
    deploy::Predictor predictor = make_predictor(f, launch);
    check_model(predictor, f, launch);
    const InputShard shard{.rank = launch.rank, .world = launch.world, .batch = static_cast<size_t>(f.batch_size)};
    if (ranks->first()) return predict_here(predictor, f, o, shard, &ranks->comm());
    predict_beside(predictor, f, shard, ranks->comm());
    return signals::stop_requested() ? signals::exit_code() : 0;
  });
}

}  // namespace

int predict_command(const Args& args) {
  PredictFlags f;
  Options o(
      "predict", "Predicts images, texts or tables with a saved model.", "MODEL.safetensors FILE|DIR|- ... [options]",
      "Images are PNG, JPEG, WebP, GIF, TIFF, BMP, PPM or npy; they are converted to grayscale or RGB, resized and\n"
      "cropped as in evaluation. Folders are searched recursively. For a text model each line of a text file is a "
      "sample,\n"
      "blank lines too; in a folder, each line of its .txt and .txt.gz files. Of .csv, .tsv and .jsonl files the text\n"
      "column is read. - reads paths or texts from standard input, one per line. A model for tables reads .csv, .tsv,\n"
      ".jsonl and .npz files (or - for one on standard input) and finds columns by name. With --devices batches are\n"
      "distributed over the devices; the output is the same as on one device.\n"
      "  freight predict runs/convnet-digits/model.safetensors a.png b.jpg --top-k 1\n"
      "  freight predict model.safetensors photos/ --csv -o classes.csv --npy probabilities.npy\n"
      "  freight predict model.safetensors photos/ --csv -o classes.csv --devices 2\n"
      "  freight predict runs/textcnn-sst2/model.safetensors --text \"a film to remember\"");
  declare(o, f);
  o.essentials({"model", "files", "--text", "--top-k", "--batch-size", "--device", "--devices", "--on-bad-sample",
                "--csv", "--json", "--jsonl", "--columns", "--explain", "--npy", "--output", "--help"});
  if (o.parse(args) == Options::Outcome::done) return 0;
  settle(f, o);
  signals::install();
  const comm::Launch launch = comm::read_launch_environment();
  const int64_t devices = device_count(f.ranks, launch);
  if (devices > 1) need_files(f.sources);
  if (devices > 1 && launch.world == 1) {
    need_alike(f.ranks, "whose predictions are those of one");
    device_of(f.ranks, f.device, 0);
    return run_ranks("predict", args, f.ranks, devices);
  }
  if (launch.world > 1) return predict_together(f, o, args, launch);
  deploy::Predictor predictor = make_predictor(f, launch);
  check_model(predictor, f, launch);
  return predict_here(predictor, f, o, {.batch = static_cast<size_t>(f.batch_size)}, nullptr);
}

}  // namespace freight::app
