// Datasets of image files: a folder per class below train and val (and test), class folders only, or CSV files with a
// path and a label per line (image_list.h). Only names are read here; images are decoded batch by batch. Layouts and
// rules: docs/images.md. Errors are Error(data) that names the folder, file or line.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "freight/data/dataset.h"
#include "freight/data/folder_listing.h"
#include "freight/data/targets.h"

namespace freight::data {

// Settings of the samples that are made of image files, and of the validation split.
struct ImageOptions {
  int64_t train_crop = 0;  // side of a training sample; 0: 224
  int64_t val_crop = 0;    // side of an evaluation sample; 0: that of training
  int64_t val_resize = 0;  // shorter side before the crop of evaluation; 0: val_crop * 256 / 224
  io::Orientation orientation = io::Orientation::exif;  // whether EXIF orientation is applied
  // The fraction of each class that is held out if the data has no held-out set; below 0: kDefaultSplit. Setting it for
  // data with a validation set is an error.
  double val_split = -1;
  uint64_t split_seed = 0;                  // which samples are held out
  HeldOut held_out = HeldOut::validation;   // the set that is TrainTest::test if the data has both val and test
  Undivided undivided = Undivided::divide;  // the treatment of data without a held-out set
  TargetOptions targets = {};               // of lists
};

// Recognized by names: a directory with class folders that contain images (below train or directly), or with a
// train.csv that lists images, or such a CSV file.
bool is_image_source(const std::string& path, const FolderListing& listing = {});
// Reads the dataset. Mean and standard deviation are ImageNet's, as nearly all networks for photographs expect.
TrainTest load_image_source(const std::string& path, const std::string& name, const ImageOptions& options = {},
                            const FolderListing& listing = {});

// Mean and standard deviation of the pixels / 255 of image files, per RGB channel. Every image has the same weight,
// regardless of its size.
struct PixelStatistics {
  std::vector<float> mean, std;  // empty if no image can be read
  int64_t pictures = 0;          // the number of images that were read
};
// Decodes at most `most` images, evenly spread, on all cores; unreadable ones are skipped.
PixelStatistics pixel_statistics(const std::vector<std::string>& paths, io::Orientation orientation, int64_t most);

// Decodes every file completely, on all cores. `poll` is called from time to time by one thread at a time; false stops.
std::vector<BadSample> check_images(const std::vector<std::string>& paths,
                                    const std::function<bool(int64_t done, int64_t total)>& poll = {});

}  // namespace freight::data
