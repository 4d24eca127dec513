// A small directory in the layout of MNIST, cut from the built-in digits: data that trains in no time.
#pragma once
#include <fstream>
#include <string>

#include "freight/data/digits.h"

namespace freight::test {

inline std::string idx_header(std::initializer_list<int64_t> extents) {
  std::string text{'\0', '\0', '\x08', static_cast<char>(extents.size())};
  for (const int64_t n : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(n >> shift);
  }
  return text;
}

inline void write_idx_split(const std::string& dir, const std::string& split, const data::Dataset& set) {
  const auto* pixels = set.images.data<uint8_t>();
  std::ofstream(dir + "/" + split + "-images-idx3-ubyte", std::ios::binary)
      << idx_header({set.count(), 28, 28}) << std::string(pixels, pixels + set.images.numel());
  std::string labels;
  for (const int64_t label : set.labels.to_vector<int64_t>()) labels += static_cast<char>(label);
  std::ofstream(dir + "/" + split + "-labels-idx1-ubyte", std::ios::binary) << idx_header({set.count()}) << labels;
}

// Writes 640 train and 150 test samples into an existing directory.
inline void write_small_digits(const std::string& dir) {
  write_idx_split(dir, "train", data::draw_digits(0, 640));
  write_idx_split(dir, "t10k", data::draw_digits(20000, 150));
}

}  // namespace freight::test
