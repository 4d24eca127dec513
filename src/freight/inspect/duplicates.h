// Samples of a list that are the same or nearly the same. Candidates come from hashes that similar samples share
// (locality-sensitive hashing); every candidate is then compared.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/inspect/samples.h"

namespace freight::inspect {

struct Duplicate {
  int64_t first = 0, second = 0;  // indices in the list, first < second
  bool same = false;              // equal content; false: nearly the same
  double similarity = 1;          // correlation of thumbnails (images), share of common phrases (texts)
};

// Images are nearly the same if the correlation of their thumbnails, at equal brightness and contrast, is at least
// this: the same picture in another size, compression or brightness. Different pictures of one thing correlate less.
inline constexpr double kSameImage = 0.995;
// `parts`: lists that are concatenated; the indices run through all of them. The result is sorted by the first sample,
// then the second. In a group of equal samples, each is paired with the first one, which alone is compared with others.
std::vector<Duplicate> duplicate_images(const std::vector<const ImageSamples*>& parts);

// Texts are nearly the same if they share at least this fraction of their three-word phrases (Jaccard index). Only
// letters and digits count, in lower case.
inline constexpr double kSameText = 0.8;
std::vector<Duplicate> duplicate_texts(const std::vector<std::string>& texts);

}  // namespace freight::inspect
