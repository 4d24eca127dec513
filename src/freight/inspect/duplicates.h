// Samples that are the same or nearly so, within a list. Candidates come from hashes that similar samples share
// (locality-sensitive hashing); every candidate is then compared.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/inspect/samples.h"

namespace freight::inspect {

struct Duplicate {
  int64_t first = 0, second = 0;  // numbers in the list, first < second
  bool same = false;              // equal content, else nearly
  double similarity = 1;          // of images the correlation of thumbnails, of texts the share of common phrases
};

// Images, whose thumbnails correlate by this much or more at equal brightness and contrast: the same picture in another
// size, compression or brightness. Different pictures of one thing correlate less.
inline constexpr double kSameImage = 0.995;
// `parts`: lists that are taken as one, one after the other. Sorted by the first sample, then the second. Of a group of
// equal samples each is paired with the first, which alone is compared with others.
std::vector<Duplicate> duplicate_images(const std::vector<const ImageSamples*>& parts);

// Texts with this share of common three-word phrases or more (Jaccard), letters and digits alone compared in lower
// case.
inline constexpr double kSameText = 0.8;
std::vector<Duplicate> duplicate_texts(const std::vector<std::string>& texts);

}  // namespace freight::inspect
