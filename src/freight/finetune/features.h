// The features of all samples of a set (frozen_part.h), kept in memory or in a file, and batches of them for training
// and evaluation. It knows neither runs nor configurations.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "freight/data/feed.h"
#include "freight/finetune/frozen_part.h"
#include "freight/trace/compile.h"

namespace freight::finetune {

struct FeatureOptions {
  int64_t samples = 0;
  int64_t batch = 1;  // samples that are computed at a time
  int64_t views = 1;  // of each sample, as augmentation shows it in so many epochs
  Type target = {};   // of a sample, without the batch axis
  std::vector<std::string> classes = {};
  std::string name = {};    // of the set, for messages
  std::string folder = {};  // of the file that has them; empty: memory
};

class FeatureSet {
 public:
  // `part` must outlive it. Memory is reserved, or the file, and filled later.
  FeatureSet(const FrozenPart& part, const FeatureOptions& options);

  // Samples `first` to `end` of a view, where the first of a batch begins.
  struct Section {
    int64_t view = 0, first = 0, end = 0;
  };
  // Computes the features of a section from a feed of all samples in their order, of which epoch `view` is read. Calls
  // `poll` with the samples done between batches; false from that stops it, and is returned.
  using Poll = std::function<bool(int64_t samples)>;
  bool fill(const Section& section, data::Feed& feed, Compiled<std::function<Tensor(const Tensor&)>>& extract,
            const Poll& poll);
  // The same of all samples, whose numbers i64 (N) are the targets of `numbers`, batch by batch. Computes view 0.
  bool fill(data::Feed& feed, data::Feed& numbers, Compiled<std::function<Tensor(const Tensor&)>>& extract,
            const Poll& poll);
  // The features and targets of a section, to be copied between processes.
  std::vector<std::span<std::byte>> bytes_of(const Section& section);
  // Batches in the order in which a Loader with these options gives the samples; in epoch e of view e modulo the views.
  std::unique_ptr<data::Feed> feed(const data::LoaderOptions& options) const;
  // Batches of the samples whose numbers are the targets of `numbers`.
  std::unique_ptr<data::Feed> feed(std::unique_ptr<data::Feed> numbers) const;

 private:
  FeatureOptions options_;
  std::vector<data::Dataset> views_;
};

// Bytes of the features of so many samples.
double feature_bytes(const FrozenPart& part, int64_t samples, int64_t views);

// The function that computes features, to be compiled.
Compiled<std::function<Tensor(const Tensor&)>> feature_function(const FrozenPart& part, CompileOptions options);

}  // namespace freight::finetune
