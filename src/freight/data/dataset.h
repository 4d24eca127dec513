// Dataset: samples and their targets as every reader of this room makes them and the Loader reads them: whole in
// memory, or as images in files that are decoded batch by batch. Shapes: N samples, C channels, H rows, W columns; K
// values per target.
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

// The sample (channels, rows, columns) that images of any size become. For evaluation the shorter side is made
// `resize` long and the middle cut out (0: the whole image is stretched); training may cut at random instead.
struct ImageGeometry {
  int64_t channels = 3, rows = 224, columns = 224;      // of a sample
  int64_t resize = 256;                                 // shorter side before the cut; 0: none
  io::Orientation orientation = io::Orientation::exif;  // of images in files
  friend bool operator==(const ImageGeometry&, const ImageGeometry&) = default;
};

class ImageCache;

// Samples that stay in their files until a batch needs them.
struct ImageFiles {
  // Files in the order of the samples; they are not read yet.
  ImageFiles(std::vector<std::string> paths, const ImageGeometry& geometry);
  std::vector<std::string> paths;    // one per sample
  ImageGeometry geometry;            // of the samples
  std::shared_ptr<ImageCache> kept;  // files of a small set all of them, once each was decoded
  // Bytes that `kept` will take when each image was decoded.
  size_t kept_bytes() const;
};

// One part of a data set.
struct Dataset {
  std::string name;                         // "mnist"
  std::string split;                        // "train" or "test"
  Array images;                             // u8 or f32, (N, C, H, W) or any rank >= 2 with the channels on axis 1
  std::shared_ptr<const ImageFiles> files;  // instead of images, which is then undefined
  Array labels;                             // i64 (N): class numbers; or f32 (N) or (N, K): values to regress
  std::vector<std::string> classes;         // names by class number; empty for regression
  // Per channel, of pixel / 255 for u8 and of the values for f32. Empty: no normalisation (u8 still scales to 0..1).
  std::vector<float> mean, std;
  std::string note;           // what a user should know of how this part came about; often empty
  bool undivided = false;     // the data has no part for the test: see Undivided
  bool test_apart = false;    // the data has a test part, and this held-out part is another
  ArrayMeaning meaning = {};  // of arrays

  int64_t count() const;                                                        // samples
  bool classification() const { return labels.dtype() == DType::i64; }          // the labels are classes
  int64_t class_count() const { return static_cast<int64_t>(classes.size()); }  // 0 for regression
  // Shape of one sample: images.shape() without N, or the geometry of files.
  Shape sample_shape() const;

  // A hash of all pixels and targets: equal data gives equal numbers on every machine. Runs at memory speed. Of
  // images in files it takes names and sizes instead of pixels.
  uint64_t fingerprint() const;
  // Samples [first, first + n); those in memory as a view of the same memory.
  Dataset slice(int64_t first, int64_t n) const;
  // Sets mean and std from these samples, which lie in memory. Exact sums for u8, f64 sums for f32.
  void compute_statistics();
  // Throws Error(data) that names the file at fault: counts that differ, a label outside [0, classes).
  void validate(const std::string& images_file, const std::string& labels_file) const;
};

// Both parts of a data set.
struct TrainTest {
  Dataset train, test;  // of equal sample shape and classes
};

// Treatment of data that has no part for the test: a share of it is held out of training, or all of it is both parts
// (to measure a model on data that it was not trained on).
enum class Undivided { divide, whole };

// Settings of reading a set of arrays.
struct ArrayOptions {
  AskedMeaning asked = {};                  // by flags of the user
  ArrayMeaning recorded = {};               // by a stored model; where it is unstated, the samples decide
  bool early = false;                       // the stored model is of a version that recorded nothing
  Undivided undivided = Undivided::divide;  // what becomes of a set without a test part
};

// Which part is the test part of a set that has one for validation and one for the very end.
enum class HeldOut { validation, test };

// A sample that cannot be read: its file, with the line where it has one, and why.
struct BadSample {
  std::string path, reason;  // "data.csv:7", "column width: got 'wide'"
};
// Decides if such a sample stops the reader (an Error is thrown) or is left out.
enum class OnBad { error, skip };
// Ends the message about a sample that cannot be read: how the rest is used all the same. `what`: "pictures".
std::string advice_on_bad(const char* what);
// The treatment of samples that cannot be read.
struct BadSamples {
  OnBad on_bad = OnBad::error;                        // stop or leave out
  std::function<void(const BadSample&)> report = {};  // told of each one left out, once, in the caller's thread
};

// Marks the samples to hold out: a share of every class, chosen by the seed and the position in the list alone. A class
// of two samples or more has at least one on either side.
std::vector<bool> hold_out(const std::vector<int64_t>& labels, size_t classes, double share, uint64_t seed);
// Throws Error(usage) for a share (--val-split) of 1 or more, or one of data that have a validation set of their own,
// at `val`; below 0 is the default.
void need_val_split(double share, const std::string& path, const std::string& val);
// Throws Error(usage) for a share of 0 of data that have no validation set of their own.
void need_validation(double share, const std::string& path);
inline constexpr double kDefaultSplit = 0.2;  // share of the held-out samples
// Throws Error(usage) unless samples are images (C, H, W), which `use` needs: "cutmix".
void need_images(const std::string& what, const std::string& use, const Dataset& set);

// A hash of bytes, equal on every machine of this byte order; `seed` chains several.
uint64_t hash_of(const void* bytes, size_t n, uint64_t seed);
// "0", "1", ... for sets whose files name no classes.
std::vector<std::string> numbered_classes(int64_t n);
// One line such as "train 60,000 x [1,28,28] u8, 10 classes".
std::string describe(const Dataset& set);

}  // namespace freight::data
