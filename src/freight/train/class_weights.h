// Weights of classes in a training loss (--class-weight): none, such that all classes get the same total weight, or as
// a JSON file names them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace freight::train {

struct Config;

// Replaces the name of a file by its content, so that a run knows its weights wherever it resumes. Throws Error(usage)
// that names --class-weight where there is no such file, or it is no JSON object of numbers.
void settle_class_weight(Config& config);
// Throws Error(usage) for a value that is neither a word, a file, nor the content of one.
void check_class_weight(const std::string& setting);

// The classes of a part of the data, with the number of samples of each, or the sum of their weights.
struct ClassCounts {
  std::vector<std::string> names;
  std::vector<double> counts;
};
// Counts labels from 0 to names.size() - 1.
ClassCounts count_classes(const std::vector<std::string>& names, std::span<const int64_t> labels);
// A weight per class for a settled value, in the order of the classes; empty for none. Throws Error(usage) for a class
// without a weight and a weight without a class.
std::vector<double> class_weights(const std::string& setting, const ClassCounts& classes);
// The same, scaled so that the mean over the samples is 1: the loss keeps its scale, and the learning rate its meaning.
std::vector<double> scaled_class_weights(const std::string& setting, const ClassCounts& classes);

}  // namespace freight::train
