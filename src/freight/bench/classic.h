// The study of 2017 that compared deep-learning software on CPUs and GPUs (Shi, Wang, Xu, Chu, arXiv 1608.07249),
// repeated on this machine: its networks with their layer sizes and batches, and two complete trainings, next to
// published figures of the same networks. Layer sizes and figures with their sources are in catalog/study.json, which
// is compiled in.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "freight/models/models.h"

namespace freight::bench {

struct StudyNet {
  std::string name, title, what, assumed, source;  // `assumed`: what the source does not specify
  std::string spec, model;                         // a model spec, or the name of a built-in model
  int64_t batch = 0, parameters = 0;

  models::Model make() const;
};

struct Published {
  std::string net, device, software, source;  // `source`: a key of Study::sources
  double seconds = 0;                         // per step, at the network's batch size
};

struct StudyTraining {
  std::string name, title, data, recipe;
};

// A measurement. `skipped` is the reason if there is none.
struct StepResult {
  std::string net, device;
  int threads = 0;  // of the CPU; 0: another device
  int64_t batch = 0;
  double seconds = 0, flops = 0;
  std::string skipped = {};
};
struct TrainingResult {
  std::string name, device;
  int threads = 0;
  double seconds = 0;  // `whole`: reading data, planning, training, evaluation and saving
  double train_seconds = 0, samples_per_second = 0, top1 = 0;
  int64_t steps = 0;
  std::string skipped = {};
};

struct Study {
  std::string about, date;
  std::vector<std::pair<std::string, std::string>> sources;  // key and description
  std::vector<StudyNet> nets;
  std::vector<Published> published;
  std::vector<StudyTraining> trainings;
  // The figures that were measured on this machine.
  std::string machine;
  std::vector<std::pair<std::string, std::string>> devices;  // name and description
  std::vector<StepResult> steps;
  std::vector<TrainingResult> runs;

  // The names of networks and trainings that can be selected.
  std::vector<std::string> names() const;
};

// Loads the compiled-in file, without results.
Study load_study();
// Throws Error(usage) that names the entry if fields are missing, figures are not above 0, or a network or source is
// unknown.
Study parse_study(const std::string& text, const std::string& source);

struct ClassicOptions {
  double seconds = 2;  // per measured step, after warm-up
  // Of one step, estimated by its FLOPs and the rate of a large matmul: slower ones are skipped.
  double most_seconds = 60;
  int64_t batch = 0;          // replaces the study's batch sizes; 0: does not
  int64_t most_steps = 0;     // of a training; 0: as its recipe says
  std::string data_dir = {};  // directory that is searched first for built-in datasets
};

// Measures with this process's own threads. A network that does not fit, or would take too long, gets a reason instead
// of a time.
StepResult measure_step(const StudyNet& net, const std::string& device, const ClassicOptions& options);
// Trains in a temporary directory. If the data are missing, or the device cannot train it, there is a reason instead of
// a result.
TrainingResult measure_training(const StudyTraining& training, const std::string& device,
                                const ClassicOptions& options);

}  // namespace freight::bench
