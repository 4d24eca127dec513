// Draws the samples of an epoch so that all classes are equally frequent, however many samples each has.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace freight::data {

// Draws as many sample numbers as there are labels (i64, class numbers): each class that has samples occurs equally
// often, up to one, and so does every sample of a class. They depend on seed and epoch alone; their order is by class.
std::vector<int64_t> draw_by_class(std::span<const int64_t> labels, uint64_t seed, int64_t epoch);

}  // namespace freight::data
