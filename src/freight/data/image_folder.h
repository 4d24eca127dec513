// Data sets of images on disk: a folder per class below train and val (and test), a folder per class alone, or CSV
// files with a path and a label per line (image_list.h). Reads names only; images are decoded batch by batch. Layouts
// and rules: docs/data.md. Faults are Error(data) that names the folder, file or line.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/data/folder_listing.h"

namespace freight::data {

// Settings of making samples of images in files, and of dividing them.
struct ImageOptions {
  int64_t train_crop = 0;  // side of a training sample; 0: 224
  int64_t val_crop = 0;    // side of an evaluation sample; 0: that of training
  int64_t val_resize = 0;  // shorter side before the crop of evaluation; 0: val_crop * 256 / 224
  io::Orientation orientation = io::Orientation::exif;  // whether EXIF data turn them
  // Share of each class that is held out where the data has no part for that; below 0: kDefaultSplit. Asking for it
  // where there is a val part is an error.
  double val_split = -1;
  uint64_t split_seed = 0;                  // which samples are held out
  HeldOut held_out = HeldOut::validation;   // which part is TrainTest::test where the data has both val and test
  Undivided undivided = Undivided::divide;  // what becomes of data without a test part
};

// Told by names: a directory with class folders that hold images (below train or directly), or whose train.csv lists
// images, or such a CSV file.
bool is_image_source(const std::string& path, const FolderListing& listing = {});
// Mean and deviation are those of ImageNet, as nearly all networks for photographs expect.
TrainTest load_image_source(const std::string& path, const std::string& name, const ImageOptions& options = {},
                            const FolderListing& listing = {});

// Mean and deviation of the pixels / 255 of pictures in files, per channel of RGB; each picture counts as much as any
// other, whatever its size.
struct PixelStatistics {
  std::vector<float> mean, std;  // empty where none can be read
  int64_t pictures = 0;          // of which they are
};
// Decodes `most` of them at most, evenly spread, on all cores; those that cannot be read are left out.
PixelStatistics pixel_statistics(const std::vector<std::string>& paths, io::Orientation orientation, int64_t most);

// Decodes every file wholly, on all cores. `poll` is called now and then by one thread at a time; false stops.
std::vector<BadSample> check_images(const std::vector<std::string>& paths,
                                    const std::function<bool(int64_t done, int64_t total)>& poll = {});

}  // namespace freight::data
