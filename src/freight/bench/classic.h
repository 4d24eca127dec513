// The study of 2017 that compared deep-learning software on CPUs and GPUs (Shi, Wang, Xu, Chu, arXiv 1608.07249), on
// this machine: its networks with their layer sizes and batches, and two trainings from beginning to end, beside what
// others published for the same networks. Layer sizes and figures with their sources: catalog/study.json, compiled in.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "freight/models/models.h"

namespace freight::bench {

struct StudyNet {
  std::string name, title, what, assumed, source;  // assumed: what the source leaves open
  std::string spec, model;                         // a model spec, or the name of a model
  int64_t batch = 0, parameters = 0;

  models::Model make() const;
};

struct Published {
  std::string net, device, software, source;  // source: of Study::sources
  double seconds = 0;                         // per step at the net's batch
};

struct StudyTraining {
  std::string name, title, data, recipe;
};

// One measurement. `skipped` says why there is none.
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
  double seconds = 0;  // whole: reading data, planning, training, evaluation, storing
  double train_seconds = 0, samples_per_second = 0, top1 = 0;
  int64_t steps = 0;
  std::string skipped = {};
};

struct Study {
  std::string about, date;
  std::vector<std::pair<std::string, std::string>> sources;  // key, what it is
  std::vector<StudyNet> nets;
  std::vector<Published> published;
  std::vector<StudyTraining> trainings;
  // The figures that were measured here.
  std::string machine;
  std::vector<std::pair<std::string, std::string>> devices;  // name, description
  std::vector<StepResult> steps;
  std::vector<TrainingResult> runs;

  // The names of nets and trainings that a selection can hold.
  std::vector<std::string> names() const;
};

// The shipped file, without results.
Study load_study();
// Throws Error(usage) naming the entry: missing fields, figures that are not above 0, a net or source that is not
// there.
Study parse_study(const std::string& text, const std::string& source);

struct ClassicOptions {
  double seconds = 2;         // per step measurement, after warming up
  double most_seconds = 60;   // of one step, by its FLOPs and the rate of a large product: slower ones are left out
  int64_t batch = 0;          // instead of the study's; 0: that
  int64_t most_steps = 0;     // of a training; 0: those of its recipe
  std::string data_dir = {};  // where named data sets are looked for first
};

// With this process's own threads. A net that does not fit, or would take too long, has a reason instead of a time.
StepResult measure_step(const StudyNet& net, const std::string& device, const ClassicOptions& options);
// Trains in a temporary directory. Data that are not here, or a device that cannot, give a reason instead of a result.
TrainingResult measure_training(const StudyTraining& training, const std::string& device,
                                const ClassicOptions& options);

}  // namespace freight::bench
