// Fine-tuning that computes frozen layers (finetune/frozen_part.h) once per sample: a task with their results, features
// (finetune/features.h), in place of samples, for the rest of the network. Decides if that pays, and if not, says why.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "freight/finetune/features.h"
#include "freight/job/ranks.h"
#include "freight/train/net_training.h"
#include "freight/train/task.h"

namespace freight::train {

class FeatureTask : public Task {
 public:
  // The run that asks for features.
  struct Request {
    const Config& config;
    const models::Model& model;   // in training, with frozen layers; it must outlive the task
    job::Ranks* ranks = nullptr;  // share the computation, and outlive the task
    bool runs = true;             // false for a plan, for which nothing is reserved
  };
  // The task in place of `samples`, or `samples` itself if features are not kept. `note` reports which and why; "" if
  // nothing is frozen. Throws Error(usage) if the configuration requires a cache that is impossible.
  static std::unique_ptr<Task> around(std::unique_ptr<Task> samples, const Request& request, std::string& note);

  FeatureSamples samples() const;
  // Plans the computation of the features. Call before kept_bytes().
  void plan(const CompileOptions& options);
  // Computes all features, ranks their part each; false if `poll` stopped it, which of ranks must return the same.
  // Further calls do nothing: the weights before them are frozen.
  using Poll = std::function<bool(int64_t done, int64_t all)>;
  bool fill(const Poll& poll);

  models::Model make_model() const override { return samples_->make_model(); }
  store::Preprocessing preprocessing() const override { return samples_->preprocessing(); }
  std::vector<std::string> classes() const override { return samples_->classes(); }
  std::vector<std::string> targets() const override { return samples_->targets(); }
  std::unique_ptr<data::Feed> train_feed(const data::Share& share) const override;
  std::unique_ptr<data::Feed> test_feed(int64_t batch_size, const data::Share& share) const override;
  std::unique_ptr<data::Feed> plain_feed() const override { return samples_->plain_feed(); }
  std::pair<Type, Type> batch_types() const override;
  std::pair<Type, Type> test_types(int64_t batch_size) const override;
  Array fold_labels() const override { return samples_->fold_labels(); }
  Array fold_groups() const override { return samples_->fold_groups(); }
  data::Source divided(const std::vector<int64_t>& train, const std::vector<int64_t>& held_out) const override {
    return samples_->divided(train, held_out);
  }
  std::vector<int64_t> test_order() const override { return samples_->test_order(); }
  std::pair<std::string, std::vector<std::string>> sample_names() const override { return samples_->sample_names(); }
  bool reads_image_files() const override { return samples_->reads_image_files(); }
  ClassCounts train_classes() const override { return samples_->train_classes(); }
  ClassCounts test_classes() const override { return samples_->test_classes(); }
  int64_t train_count() const override { return samples_->train_count(); }
  int64_t test_count() const override { return samples_->test_count(); }
  uint64_t fingerprint() const override { return samples_->fingerprint(); }
  size_t kept_bytes() const override;
  std::vector<std::string> notes() const override { return samples_->notes(); }
  bool test_apart() const override { return samples_->test_apart(); }
  bool validates() const override { return samples_->validates(); }
  const char* unit() const override { return samples_->unit(); }
  std::string example() const override { return samples_->example(); }
  std::string sample_set() const override { return samples_->sample_set(); }

 private:
  // Features of one part of the data, and the part of the network that makes them.
  struct Part {
    Type batch;  // of samples
    finetune::FrozenPart frozen;
    std::optional<finetune::FeatureSet> set = {};
    std::optional<Compiled<std::function<Tensor(const Tensor&)>>> extract = {};
    size_t planned_bytes = 0;  // of computing them
  };
  FeatureTask(std::unique_ptr<Task> samples, const Request& request);
  std::string refusal(const Request& request) const;
  bool keeps_test() const { return test_ != nullptr; }
  double bytes() const;
  void reserve(const std::string& folder);
  bool fill(Part& part, data::Feed& feed, int64_t view, int64_t samples, const finetune::FeatureSet::Poll& poll) const;
  // The same for samples that no Loader orders, all by each rank.
  bool fill_numbered(Part& part, Batches which, const finetune::FeatureSet::Poll& poll) const;
  // The reason why documents of different lengths cannot share a part of the network; "" where they can.
  std::string differs_by_length() const;

  const Config& c_;
  const models::Model& model_;
  std::unique_ptr<Task> samples_;
  std::unique_ptr<Part> train_;
  std::unique_ptr<Part> test_;  // null if evaluation uses several views of a sample (--tta)
  job::Ranks* ranks_;
  int64_t views_ = 1;
  bool numbered_;  // samples are found by Task::numbers, not by a Loader
  bool in_memory_ = true, filled_ = false;
};

}  // namespace freight::train
