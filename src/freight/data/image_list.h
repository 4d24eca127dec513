// Lists of images in CSV files: finds the columns with path and label, and reads the rows as paths with class numbers,
// or with values or several labels each (targets.h).
// Layouts and rules: docs/images.md. Errors are Error(data) that names the file and line.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/data/targets.h"

namespace freight::data {

// One split: the path and the class number, or the targets, of each image, and the source of the list.
struct ImageListing {
  std::string where;  // folder or CSV file
  std::vector<std::string> paths;
  std::vector<int64_t> labels;  // empty if there are targets
  Array targets = {};           // undefined for classes
  std::vector<std::string> target_names = {};
  std::vector<std::string> groups = {};  // of each image, where a column says it
  std::vector<std::string> notes;
};

// True if the first rows of the file list images: by the names in its header, or by cells that name image files.
bool is_image_list(const std::string& path);
// Reads a list. Empty `classes` are filled with the labels of the file (the training set); otherwise the labels must be
// among them.
ImageListing read_image_list(const std::string& file, std::vector<std::string>& classes,
                             const TargetOptions& targets = {});

}  // namespace freight::data
