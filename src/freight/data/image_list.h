// Lists of images in CSV files: which column holds the path and which the label, and the rows as paths with their class
// numbers. Layouts and rules: docs/data.md. Faults are Error(data) that names the file and line.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace freight::data {

// One part of the data: the path of an image and its class number per entry, and where that was said.
struct ImageListing {
  std::string where;  // folder or CSV file
  std::vector<std::string> paths;
  std::vector<int64_t> labels;
  std::vector<std::string> notes;
};

// Whether the first rows of the file list images: by the words of its header, or by cells that name images.
bool is_image_list(const std::string& path);
// `classes` are made here where they are empty (the train file), else labels must be among them.
ImageListing read_image_list(const std::string& file, std::vector<std::string>& classes);

}  // namespace freight::data
