// An array of samples has a meaning: which axis holds what, and which values are black and white. It is
// decided here alone, when a model is trained; a stored model records it, and train, eval, predict, serve, verify and
// report read arrays by the record. Letters: N samples, C channels, H rows, W columns.
#pragma once
#include <optional>
#include <string>

#include "freight/base/array.h"

namespace freight::data {

// How an array of samples lies. features: every sample is as it stands, whatever its rank.
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

// unstated: of early stored models, which record nothing. bytes: 0 to 255, whatever the type they came in. scaled: the
// range says what is black and white. plain: numbers of any kind, in the range that training saw.
enum class Values { unstated, bytes, scaled, plain };
const char* to_string(Values values);                     // the word in files: "bytes"
bool parse_values(const std::string& name, Values& out);  // false for another word

inline constexpr ValueRange kBytes{0, 255};  // the range of pictures' pixels

// The meaning of an array of samples: decide_meaning gives it and stored models record it.
struct ArrayMeaning {
  Layout layout = Layout::automatic;  // of arrays whose shape fits two: any other shape says it itself
  Values values = Values::unstated;   // their kind
  ValueRange range = {};              // of scaled and plain values; of bytes kBytes

  // True where a picture, of pixels 0 to 255, can be a sample.
  bool takes_pictures() const { return values != Values::plain; }
  friend bool operator==(const ArrayMeaning&, const ArrayMeaning&) = default;
};

// A user's flags about an array, and the input of the model that it is for (an empty one fits any).
struct AskedMeaning {
  Layout layout = Layout::automatic;     // --layout
  std::optional<ValueRange> range = {};  // --value-range
  Shape input = {};                      // of the model, without the batch axis
};

// The meaning of the training samples. Throws Error(data) that names the flag where they can mean two things.
ArrayMeaning decide_meaning(const Array& samples, const AskedMeaning& asked, const std::string& where);

// The shape of one of these samples as a model takes it; for samples that are not read yet. Throws the same.
Shape sample_shape(DType dtype, const Shape& samples, const AskedMeaning& asked, const std::string& where);

// The samples as a model takes them: u8 or f32 (N, C, H, W), or of any rank >= 2. f32 are the values as they stand, or,
// of a model of bytes, 0 to 1. Throws Error(data) that names both ranges where the values cannot be those of `meaning`.
Array read_samples(const Array& samples, const ArrayMeaning& meaning, const AskedMeaning& asked,
                   const std::string& where);
// One sample of exactly the shape `asked.input`, or with the axes of a layout that fits it. Undefined where it fits
// none: then it may be a picture of another size.
Array read_sample(const Array& sample, const ArrayMeaning& meaning, const AskedMeaning& asked,
                  const std::string& where);

// A picture's pixels, u8, as samples of the meaning: themselves, or f32 values in its range. Throws Error(data) that
// names both ranges where the model was trained on plain numbers.
Array picture_sample(const Array& pixels, const ArrayMeaning& meaning, const std::string& where);

// Says that values lie far outside of what plain numbers were in training, with both ranges; "" where they do not.
std::string range_warning(const Array& values, const ArrayMeaning& meaning);

}  // namespace freight::data
