// Dataset: samples with their targets, as readers return them and the Loader takes them: arrays in memory, or image
// files that are decoded batch by batch. Shapes: N samples, C channels, H rows, W columns; K values per target.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/data/array_meaning.h"
#include "freight/io/orientation.h"

namespace freight::data {

// The size of the samples (channels, rows, columns) that image files become. For evaluation the shorter side is resized
// to `resize`, then the center is cropped (0: the whole image is resized). Training may crop at random instead.
struct ImageGeometry {
  int64_t channels = 3, rows = 224, columns = 224;      // of a sample
  int64_t resize = 256;                                 // the shorter side before the crop; 0: no crop
  io::Orientation orientation = io::Orientation::exif;  // whether EXIF orientation is applied
  friend bool operator==(const ImageGeometry&, const ImageGeometry&) = default;
};

class ImageCache;

// Samples that stay in their files until a batch needs them.
struct ImageFiles {
  // The files are in the order of the samples, and are not read here.
  ImageFiles(std::vector<std::string> paths, const ImageGeometry& geometry);
  std::vector<std::string> paths;    // one per sample
  ImageGeometry geometry;            // of the samples
  std::shared_ptr<ImageCache> kept;  // caches decoded files of a small dataset
  // The bytes of `kept` after every image was decoded.
  size_t kept_bytes() const;
};

// One split of a dataset.
struct Dataset {
  std::string name;                         // "mnist"
  std::string split;                        // "train" or "test"
  Array images;                             // u8 or f32, (N, C, H, W) or any rank >= 2 with the channels on axis 1
  std::shared_ptr<const ImageFiles> files;  // if set, `images` is undefined
  // i64 (N): class numbers; f32 (N) or (N, K): regression targets; or u8 (N, K): 1 for each label that a sample has
  Array labels;
  std::vector<std::string> classes;  // names by number of the class or label; empty for regression
  std::vector<std::string> targets;  // names of the K regression targets; often empty
  Array groups = {};                 // i64 (N): equal numbers of samples that belong together (groups.h); or undefined
  // Per channel, of pixel / 255 for u8 and of the values for f32. Empty: no normalization (u8 is still scaled to 0..1).
  std::vector<float> mean, std;
  std::string note;           // a note for the user on how this split was made; often empty
  bool undivided = false;     // the data has no held-out set: see Undivided
  bool test_apart = false;    // the data has a test set, and this held-out set is another one
  bool validation = false;    // this is a validation set: held out of training data, or named so
  ArrayMeaning meaning = {};  // for arrays

  int64_t count() const;                                                        // samples
  bool classification() const { return labels.dtype() == DType::i64; }          // the labels are classes
  bool multilabel() const { return labels.dtype() == DType::u8; }               // several labels per sample
  int64_t class_count() const { return static_cast<int64_t>(classes.size()); }  // 0 for regression
  // The shape of one sample: images.shape() without N, or the geometry of image files.
  Shape sample_shape() const;

  // A hash of all samples and targets, the same on every machine. For image files it covers names and sizes instead of
  // pixels.
  uint64_t fingerprint() const;
  // Copies of the samples with these numbers, in this order.
  Dataset selected(const std::vector<int64_t>& samples) const;
  // Samples [first, first + n), which share memory with this dataset.
  Dataset slice(int64_t first, int64_t n) const;
  // Sets mean and std from samples in memory. Sums are exact for u8, and f64 for f32.
  void compute_statistics();
  // Throws Error(data) that names the wrong file if counts differ, or a label is outside [0, classes).
  void validate(const std::string& images_file, const std::string& labels_file) const;
};

// The two splits of a dataset.
struct TrainTest {
  Dataset train, test;  // of equal sample shape and classes
};

// The treatment of data without a held-out set. divide: a fraction is held out of training. whole: both splits are all
// of the data, to evaluate a model on data that it was not trained on.
enum class Undivided { divide, whole };

// Settings of reading a set of arrays.
struct ArrayOptions {
  AskedMeaning asked = {};                  // the user's flags
  ArrayMeaning recorded = {};               // from a saved model; if unstated, the samples decide
  bool early = false;                       // the saved model is from a version that recorded nothing
  Undivided undivided = Undivided::divide;  // the treatment of data without a held-out set
};

// The held-out set that is used if the data has a validation set and a test set.
enum class HeldOut { validation, test };

// A sample that cannot be read: its file, with the line if it has one, and the reason.
struct BadSample {
  std::string path, reason;  // "data.csv:7", "column width: got 'wide'"
};
// Decides if such a sample is an error or is skipped.
enum class OnBad { error, skip };
// The end of a message about a sample that cannot be read, which says how to skip it. `what`: "images".
std::string advice_on_bad(const char* what);
// The treatment of samples that cannot be read.
struct BadSamples {
  OnBad on_bad = OnBad::error;                        // error or skip
  std::function<void(const BadSample&)> report = {};  // called once for each skipped sample, in the caller's thread
};

// Marks the samples to hold out: a fraction of every class, chosen by the seed and the position in the list. A class of
// two samples or more has at least one in each split.
std::vector<bool> hold_out(const std::vector<int64_t>& labels, size_t classes, double share, uint64_t seed);
// Throws Error(usage) for a fraction (--val-split) of 1 or more, or for data that have a validation set, at `val`.
// Below 0 stands for the default.
void need_val_split(double share, const std::string& path, const std::string& val);
// Throws Error(usage) for a share of 0 of data that have no validation set of their own.
void need_validation(double share, const std::string& path);
inline constexpr double kDefaultSplit = 0.2;  // the default fraction
// Throws Error(usage) unless samples are images (C, H, W), which `use` needs: "cutmix".
void need_images(const std::string& what, const std::string& use, const Dataset& set);

// The rows of an array with these numbers, in this order.
Array selected_rows(const Array& all, const std::vector<int64_t>& rows);
// A hash of bytes, equal on every machine of this byte order; `seed` chains several.
uint64_t hash_of(const void* bytes, size_t n, uint64_t seed);
// "0", "1", ... for datasets whose files have no class names.
std::vector<std::string> numbered_classes(int64_t n);
// One line such as "train 60,000 x [1,28,28] u8, 10 classes".
std::string describe(const Dataset& set);

}  // namespace freight::data
