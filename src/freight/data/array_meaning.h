// The meaning of an array of samples: which axes are channels, rows and columns, and which values are black and white.
// It is decided only here, when a model is trained. The saved model records it, and train, eval, predict, serve, verify
// and report read arrays by that record. Letters: N samples, C channels, H rows, W columns.
#pragma once
#include <optional>
#include <string>

#include "freight/base/array.h"

namespace freight::data {

// The order of an array's axes. features: every sample is used unchanged, whatever its rank.
enum class Layout { automatic, nchw, nhwc, nhw, features };
const char* to_string(Layout layout);                     // the word of a flag: "nchw"
bool parse_layout(const std::string& name, Layout& out);  // false for another word

// Values from `low`, black, to `high`, white.
struct ValueRange {
  double low = 0, high = 1;  // black and white
  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};
// "LOW:HIGH"; throws Error(usage) that begins with `flag` for anything else.
ValueRange parse_range(const std::string& text, const std::string& flag);
std::string to_string(const ValueRange& range);  // "LOW:HIGH"

// The kind of values. unstated: an early saved model, which records none. bytes: 0 to 255, in any element type. scaled:
// the range defines black and white. plain: numbers of any kind, with the range that training saw.
enum class Values { unstated, bytes, scaled, plain };
const char* to_string(Values values);                     // the word in files: "bytes"
bool parse_values(const std::string& name, Values& out);  // false for another word

inline constexpr ValueRange kBytes{0, 255};  // the range of the pixels of image files

// The meaning of an array of samples, which decide_meaning determines and saved models record.
struct ArrayMeaning {
  Layout layout = Layout::automatic;  // set if the shape fits two layouts; any other shape determines it
  Values values = Values::unstated;   // the kind of values
  ValueRange range = {};              // the range of scaled and plain values; kBytes for bytes

  // True if an image file, with pixels from 0 to 255, can be a sample.
  bool takes_pictures() const { return values != Values::plain; }
  friend bool operator==(const ArrayMeaning&, const ArrayMeaning&) = default;
};

// A user's flags for an array, and the input shape of the model (empty: any).
struct AskedMeaning {
  Layout layout = Layout::automatic;     // --layout
  std::optional<ValueRange> range = {};  // --value-range
  Shape input = {};                      // of the model, without the batch axis
};

// Determines the meaning of the training samples. Throws Error(data) that names a flag if they are ambiguous.
ArrayMeaning decide_meaning(const Array& samples, const AskedMeaning& asked, const std::string& where);

// The shape of a sample as a model takes it, from the shape of samples that are not read yet. Throws the same errors.
Shape sample_shape(DType dtype, const Shape& samples, const AskedMeaning& asked, const std::string& where);

// Converts samples to what a model takes: u8 or f32 (N, C, H, W), or any rank >= 2. f32 values are unchanged, or, for a
// model of bytes, scaled to 0 to 1. Throws Error(data) that names both ranges if the values do not fit `meaning`.
Array read_samples(const Array& samples, const ArrayMeaning& meaning, const AskedMeaning& asked,
                   const std::string& where);
// Converts one sample that has the shape `asked.input`, or has its axes in a layout that fits it. Returns an undefined
// array if it does not fit: it may then be an image of another size.
Array read_sample(const Array& sample, const ArrayMeaning& meaning, const AskedMeaning& asked,
                  const std::string& where);

// Converts an image's pixels, u8, to a sample with this meaning: unchanged, or f32 values in its range. Throws
// Error(data) that names both ranges if the model was trained on plain numbers.
Array picture_sample(const Array& pixels, const ArrayMeaning& meaning, const std::string& where);

// A warning that plain numbers are far outside the training range, with both ranges; "" if they are not.
std::string range_warning(const Array& values, const ArrayMeaning& meaning);

}  // namespace freight::data
