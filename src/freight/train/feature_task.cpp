// See feature_task.h.
#include "freight/train/feature_task.h"

#include <algorithm>

#include "freight/base/cpu_info.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/memory_size.h"
#include "freight/base/strings.h"
#include "freight/nn/evaluating.h"
#include "freight/run/plan.h"

namespace freight::train {

namespace {

constexpr int64_t kBatch = 32;         // samples at a time, in batches that do not depend on the ranks
constexpr int64_t kShared = 8;         // batches of a rank between two exchanges
constexpr double kLeastShare = 0.1;    // of the FLOPs of a forward pass, for which features are kept unasked
constexpr double kMemoryShare = 0.25;  // of the free memory, above which they are in a file
constexpr double kReadRate = 1e9;      // bytes per second that are read at least,
constexpr double kComputeRate = 1e11;  // and FLOPs per second that are computed

bool any_frozen(const nn::Module& net) {
  const std::vector<nn::NamedVariable> all = net.state_dict();
  return std::any_of(all.begin(), all.end(), [](const nn::NamedVariable& v) {
    return v.variable.role() == Variable::Role::parameter && !v.variable.trainable();
  });
}

std::string given_of(const GivenFlags& flags) {
  std::vector<std::string> names;
  for (const auto& [flag, given] : flags) {
    if (given) names.emplace_back(flag);
  }
  return join(names, ", ");
}

// The flags that turn the augmentation off which shows a sample in another way in every epoch; "" where there is none.
std::string without_changes(const Config& c, bool files) {
  std::string flags;
  for (const auto& [flag, given] : GivenFlags{{"--no-random-crop", files && c.random_crop},
                                              {"--shift 0", c.shift > 0},
                                              {"--crop-padding 0", c.crop_padding > 0},
                                              {"--no-flip", c.flip},
                                              {"--color-jitter 0", c.color_jitter > 0},
                                              {"--hue-jitter 0", c.hue_jitter > 0},
                                              {"--rand-augment 0", c.rand_augment > 0},
                                              {"--random-erase 0", c.random_erase > 0}}) {
    if (given) flags += cat(flags.empty() ? "" : " ", flag);
  }
  return flags;
}

Type without_batch(Type t) {
  t.shape.erase(0);
  return t;
}
Type batch_of(Type t, int64_t samples) {
  t.shape.insert(0, samples);
  return t;
}

}  // namespace

FeatureTask::FeatureTask(std::unique_ptr<Task> samples, const Request& r)
    : c_(r.config),
      model_(r.model),
      samples_(std::move(samples)),
      ranks_(r.ranks),
      views_(std::max<int64_t>(r.config.augment_views, 1)),
      numbered_(!samples_->loader_options({})) {
  const Type batch = samples_->batch_types().first;
  train_ = std::make_unique<Part>(Part{batch, finetune::FrozenPart(model_, without_batch(batch))});
  if (c_.tta != "none" || samples_->test_count() == 0) return;
  const Type tested = samples_->test_types(kBatch).first;
  const nn::Evaluating evaluating(*model_.net);
  test_ = std::make_unique<Part>(Part{tested, finetune::FrozenPart(model_, without_batch(tested))});
}

FeatureSamples FeatureTask::samples() const {
  FeatureSamples s{.trained = without_batch(train_->batch)};
  if (keeps_test()) s.tested = without_batch(test_->batch);
  return s;
}

double FeatureTask::bytes() const {
  return finetune::feature_bytes(train_->frozen, train_count(), views_) +
         (keeps_test() ? finetune::feature_bytes(test_->frozen, test_count(), 1) : 0);
}

// The reason why features are not kept; "" if they can be.
std::string FeatureTask::refusal(const Request& r) const {
  const Config& c = r.config;
  const std::string mixing = given_of({{"--mixup-alpha", c.mixup_alpha > 0}, {"--cutmix-alpha", c.cutmix_alpha > 0}});
  if (!mixing.empty()) return cat(mixing, " mixes samples in every epoch");
  const bool files = samples_->reads_image_files();
  if (const std::string off = without_changes(c, files); !off.empty() && c.augment_views == 0) {
    return cat("augmentation changes the samples in each; ", off, " turns it off, --augment-views 4 keeps 4 views");
  }
  if (c.device_data == "yes") return "--device-data yes keeps the samples on the device";
  if (c.on_bad_sample != "error" && !numbered_) return cat("--on-bad-sample ", c.on_bad_sample, " leaves samples out");
  const finetune::FrozenPart& part = train_->frozen;
  if (!part.exists()) return cat("the frozen layers are not the first ones: ", join(part.ends(), ", "));
  if (keeps_test() && !test_->frozen.exists()) return "in evaluation the network has no such part";
  if (const std::string why = differs_by_length(); !why.empty()) return why;
  const double limit = memory_size("--feature-cache-size", c.feature_cache_size);
  if (bytes() > limit) {
    return cat("they need ", human_bytes(bytes()), ", --feature-cache-size allows ", human_bytes(limit));
  }
  if (c.feature_cache != "auto") return {};
  if (part.share() < kLeastShare) return cat("they are ", fixed(100 * part.share(), 0), " % of the forward pass alone");
  if (4.0 * static_cast<double>(part.width()) / kReadRate > part.flops() / kComputeRate) {
    return cat("reading ", human_bytes(4.0 * static_cast<double>(part.width())),
               " per sample takes longer than computing them");
  }
  return {};
}

std::string FeatureTask::differs_by_length() const {
  for (const data::LengthCount& l : samples_->lengths().train) {
    Type shorter = without_batch(train_->batch);
    if (l.length == shorter.shape[0]) continue;
    shorter.shape[0] = l.length;
    const finetune::FrozenPart other(model_, shorter);
    if (other.width() != train_->frozen.width()) {
      return cat("their results have another size for each length of texts (one of ", l.length, " tokens gives ",
                 with_commas(other.width()), " numbers, one of ", train_->batch.shape[1], " ",
                 with_commas(train_->frozen.width()), ")");
    }
    if (other.rest_text() != train_->frozen.rest_text()) return "the layers after them depend on the length of texts";
  }
  return {};
}

std::unique_ptr<Task> FeatureTask::around(std::unique_ptr<Task> samples, const Request& r, std::string& note) {
  const bool asked = r.config.feature_cache != "auto" && r.config.feature_cache != "off";
  const auto without = [&](const std::string& why) {
    if (asked)
      fail(ErrorKind::usage, "--feature-cache", r.config.feature_cache,
           ": the frozen layers cannot be computed once: ", why);
    note = cat("the frozen layers are computed in every epoch: ", why);
  };
  if (!any_frozen(*r.model.net)) {
    if (asked) without("none are frozen (--freeze)");
    return samples;
  }
  if (r.config.feature_cache == "off") {
    without("--feature-cache off");
    return samples;
  }
  if (!samples->ordered_feed(1)) {
    const bool corpus = samples->unit() == std::string("tok");
    without(corpus ? "the windows of a corpus begin elsewhere in each"
                   : "they are kept for images, arrays and documents");
    return samples;
  }
  std::unique_ptr<FeatureTask> task(new FeatureTask(std::move(samples), r));
  if (const std::string why = task->refusal(r); !why.empty()) {
    without(why);
    return std::move(task->samples_);
  }
  const double free = static_cast<double>(cpu_info().memory_available_bytes);
  task->in_memory_ =
      r.config.feature_cache == "memory" || (r.config.feature_cache == "auto" && task->bytes() <= kMemoryShare * free);
  const std::string folder = task->in_memory_ ? std::string() : env::get("TMPDIR", "/tmp");
  if (r.runs) task->reserve(folder);
  const finetune::FrozenPart& part = task->train_->frozen;
  note = cat("the frozen layers are computed once, ", fixed(100 * part.share(), 0),
             " % of the forward pass: ", human_bytes(task->bytes()),
             task->in_memory_ ? " in memory" : cat(" in a file in ", folder), " for ",
             task->views_ > 1 ? cat(task->views_, " views of ") : "", with_commas(task->train_count()), " + ",
             with_commas(task->keeps_test() ? task->test_count() : 0), " samples; they end where ",
             join(part.ends(), ", "));
  return task;
}

void FeatureTask::reserve(const std::string& folder) {
  const auto make = [&](Part& part, int64_t samples, int64_t views, const Type& target) {
    part.set.emplace(part.frozen, finetune::FeatureOptions{.samples = samples,
                                                           .batch = std::min(kBatch, samples),
                                                           .views = views,
                                                           .target = without_batch(target),
                                                           .classes = classes(),
                                                           .name = c_.data,
                                                           .folder = folder});
  };
  make(*train_, train_count(), views_, samples_->batch_types().second);
  if (keeps_test()) make(*test_, test_count(), 1, samples_->test_types(kBatch).second);
}

void FeatureTask::plan(const CompileOptions& options) {
  const auto plan = [&](Part& part, int64_t samples) {
    part.batch.shape[0] = std::min(kBatch, samples);
    part.extract.emplace(finetune::feature_function(part.frozen, options));
    part.planned_bytes = part.extract->plan(part.batch)->arena_bytes();
  };
  plan(*train_, train_count());
  if (!keeps_test()) return;
  const nn::Evaluating evaluating(*model_.net);
  plan(*test_, test_count());
}

// Ranks compute some batches each, and then exchange them.
bool FeatureTask::fill(Part& part, data::Feed& feed, int64_t view, int64_t samples,
                       const finetune::FeatureSet::Poll& poll) const {
  if (!ranks_) return part.set->fill({view, 0, samples}, feed, *part.extract, poll);
  const int64_t share = kShared * part.batch.shape[0], world = ranks_->world();
  for (int64_t first = 0; first < samples; first += share * world) {
    const auto section_of = [&](int64_t rank) {
      const int64_t begin = std::min(first + rank * share, samples);
      return finetune::FeatureSet::Section{view, begin, std::min(begin + share, samples)};
    };
    const auto mine = section_of(ranks_->rank());
    if (mine.first < mine.end) part.set->fill(mine, feed, *part.extract, [](int64_t) { return true; });
    for (int rank = 0; rank < world; ++rank) {
      for (const std::span<std::byte> bytes : part.set->bytes_of(section_of(rank))) {
        ranks_->broadcast(bytes.data(), bytes.size(), rank);
      }
    }
    ranks_->agree(ranks_->gather(ranks_->take_request()));
    if (!poll(std::min(first + share * world, samples))) return false;
  }
  return true;
}

bool FeatureTask::fill_numbered(Part& part, Batches which, const finetune::FeatureSet::Poll& poll) const {
  const int64_t batch = part.batch.shape[0];
  const auto feed = which == Batches::test ? samples_->test_feed(batch, {}) : samples_->ordered_feed(batch);
  return part.set->fill(*feed, *samples_->numbers(which, batch, {}), *part.extract, [&](int64_t samples) {
    if (ranks_) ranks_->agree(ranks_->gather(ranks_->take_request()));
    return poll(samples);
  });
}

bool FeatureTask::fill(const Poll& poll) {
  if (filled_) return true;
  const int64_t all = views_ * train_count() + (keeps_test() ? test_count() : 0);
  const auto polled_after = [&](int64_t before) {
    return [&poll, before, all](int64_t samples) { return poll(before + samples, all); };
  };
  if (numbered_ && !fill_numbered(*train_, Batches::ordered, polled_after(0))) return false;
  const auto feed = samples_->ordered_feed(train_->batch.shape[0]);
  for (int64_t view = 0; view < views_ && !numbered_; ++view) {
    if (!fill(*train_, *feed, view, train_count(), polled_after(view * train_count()))) return false;
  }
  train_->extract.reset();  // and its memory
  if (keeps_test()) {
    const nn::Evaluating evaluating(*model_.net);
    Part& part = *test_;
    const auto polled = polled_after(views_ * train_count());
    if (numbered_) {
      if (!fill_numbered(part, Batches::test, polled)) return false;
    } else if (!fill(part, *samples_->test_feed(part.batch.shape[0], {}), 0, test_count(), polled)) {
      return false;
    }
    part.extract.reset();
  }
  return filled_ = true;
}

std::unique_ptr<data::Feed> FeatureTask::train_feed(const data::Share& share) const {
  if (numbered_) return train_->set->feed(samples_->numbers(Batches::train, c_.batch_size, share));
  return train_->set->feed(*samples_->loader_options(share));
}

std::unique_ptr<data::Feed> FeatureTask::test_feed(int64_t batch_size, const data::Share& share) const {
  if (!keeps_test()) return samples_->test_feed(batch_size, share);
  if (numbered_) return test_->set->feed(samples_->numbers(Batches::test, batch_size, share));
  return test_->set->feed({.batch_size = batch_size, .share = share});
}

std::pair<Type, Type> FeatureTask::batch_types() const {
  std::pair<Type, Type> types = samples_->batch_types();
  types.first = batch_of(train_->frozen.type(), types.first.shape[0]);
  return types;
}

std::pair<Type, Type> FeatureTask::test_types(int64_t batch_size) const {
  std::pair<Type, Type> types = samples_->test_types(batch_size);
  if (keeps_test()) types.first = batch_of(test_->frozen.type(), batch_size);
  return types;
}

size_t FeatureTask::kept_bytes() const {
  const size_t computing = std::max(train_->planned_bytes, keeps_test() ? test_->planned_bytes : 0);
  return samples_->kept_bytes() + computing + (in_memory_ ? static_cast<size_t>(bytes()) : 0);
}

}  // namespace freight::train
