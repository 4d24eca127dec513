// See array_meaning.h.
#include "freight/data/array_meaning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/usage.h"

namespace freight::data {

namespace {
constexpr double kUnitSlack = 1e-3;  // rounding of whoever scaled pixels to 0..1

struct Extremes {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool whole = true;  // all of them are integers
  bool within(double from, double to) const { return low >= from && high <= to; }
};

template <class T>
Extremes extremes_of(const T* v, int64_t n) {
  Extremes e;
  for (int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<double>(v[i]);
    if (!std::isfinite(x)) continue;
    e.low = std::min(e.low, x);
    e.high = std::max(e.high, x);
    e.whole = e.whole && x == std::floor(x);
  }
  return e;
}

// The extremes are those of the finite values: leave_out_nonfinite judges the others.
Extremes extremes_of(const Array& a) {
  switch (a.dtype()) {
    case DType::u8: return extremes_of(a.data<uint8_t>(), a.numel());
    case DType::i32: return extremes_of(a.data<int32_t>(), a.numel());
    case DType::i64: return extremes_of(a.data<int64_t>(), a.numel());
    case DType::f32: return extremes_of(a.data<float>(), a.numel());
    case DType::f64: return extremes_of(a.data<double>(), a.numel());
    default: break;
  }
  const Array f = a.cast(DType::f32);
  return extremes_of(f.data<float>(), f.numel());
}

bool is_color(int64_t extent) { return extent == 1 || extent == 3; }

// (H, W, C) of each sample to (C, H, W).
Array channels_first(const Array& a) {
  const Shape& s = a.shape();  // (N, H, W, C)
  Array out(a.dtype(), {s[0], s[3], s[1], s[2]});
  const int64_t plane = s[1] * s[2], channels = s[3];
  const size_t size = size_of(a.dtype());
  const auto* src = static_cast<const char*>(a.raw());
  auto* dst = static_cast<char*>(out.raw());
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t i = 0; i < plane; ++i) {
      for (int64_t c = 0; c < channels; ++c, src += size) {
        std::copy_n(src, size, dst + static_cast<size_t>((n * channels + c) * plane + i) * size);
      }
    }
  }
  return out;
}

// The shape of a sample of `s` (N, ...) in a layout; none where it has not the rank for it.
std::optional<Shape> sample_in(const Shape& s, Layout layout) {
  switch (layout) {
    case Layout::nchw: return s.rank() == 4 ? std::optional(Shape{s[1], s[2], s[3]}) : std::nullopt;
    case Layout::nhwc: return s.rank() == 4 ? std::optional(Shape{s[3], s[1], s[2]}) : std::nullopt;
    case Layout::nhw: return s.rank() == 3 ? std::optional(Shape{1, s[1], s[2]}) : std::nullopt;
    case Layout::features:
    case Layout::automatic: break;
  }
  return Shape(s.begin() + 1, s.end());
}

// The shape alone allows these layouts; the usual one comes first. With `numbers` (floats), (N, A, B) are features.
std::vector<Layout> fitting(const Shape& s, bool numbers) {
  if (s.rank() == 3) return {numbers ? Layout::features : Layout::nhw};
  if (s.rank() != 4) return {Layout::features};
  // A strip is rather a signal of many channels than an image.
  const bool strip = std::max(s[1], s[2]) > 4 * std::min(s[1], s[2]);
  if (is_color(s[1]) && !is_color(s[3])) return {Layout::nchw};
  if (is_color(s[3]) && !is_color(s[1]) && !strip) return {Layout::nhwc};
  // Neither axis is of colors, or both are: channels in front are fewer than rows and columns.
  if (!is_color(s[1]) && s[1] <= s[2] && s[1] <= s[3]) return {Layout::nchw};
  return {Layout::nchw, Layout::nhwc};
}

Layout layout_of(DType dtype, const Shape& s, Layout recorded, const AskedMeaning& asked, const std::string& where) {
  if (s.rank() < 2) fail(ErrorKind::data, where, "samples need rank 2 or more, got ", dtype, s);
  if (asked.layout != Layout::automatic) {
    if (!sample_in(s, asked.layout)) {
      refuse_value("--layout", to_string(asked.layout), cat(where, " has shape ", to_string(s)));
    }
    return asked.layout;
  }
  std::vector<Layout> fits = fitting(s, is_floating(dtype));
  if (asked.input.rank() > 0) {
    // The model's input decides among all layouts, if it fits one.
    std::vector<Layout> named;
    for (const Layout l : {Layout::nchw, Layout::nhwc, Layout::nhw, Layout::features}) {
      const bool double_of = l == Layout::features && s.rank() == 4;  // the same as nchw
      if (!double_of && sample_in(s, l) == asked.input) named.push_back(l);
    }
    if (named.size() == 1) return named[0];
    if (!named.empty()) fits = named;
  }
  if (fits.size() == 1) return fits[0];
  if (std::find(fits.begin(), fits.end(), recorded) != fits.end()) return recorded;
  fail(ErrorKind::data, where, "shape ", s, " may be (N, C, H, W) or (N, H, W, C): specify --layout nchw or nhwc");
}

Layout layout_of(const Array& a, Layout recorded, const AskedMeaning& asked, const std::string& where) {
  return layout_of(a.dtype(), a.shape(), recorded, asked, where);
}

Array arranged(const Array& a, Layout layout) {
  const Shape& s = a.shape();
  if (layout == Layout::nhwc) return channels_first(a);
  if (layout == Layout::nhw) return a.reshaped({s[0], 1, s[1], s[2]});
  return a;
}

[[noreturn]] void other_range(const std::string& where, const Extremes& got, const ArrayMeaning& meaning) {
  const std::string need = meaning.values == Values::bytes ? "bytes from 0 to 255, or floats from 0 to 1"
                                                           : cat("values from ", to_string(meaning.range));
  fail(ErrorKind::data, where, "got values from ", got.low, " to ", got.high, ", the model was trained on ", need,
       "; scale them to that");
}
}  // namespace

const char* to_string(Layout layout) {
  switch (layout) {
    case Layout::automatic: break;
    case Layout::nchw: return "nchw";
    case Layout::nhwc: return "nhwc";
    case Layout::nhw: return "nhw";
    case Layout::features: return "features";
  }
  return "auto";
}

bool parse_layout(const std::string& name, Layout& out) {
  for (const Layout l : {Layout::automatic, Layout::nchw, Layout::nhwc, Layout::nhw, Layout::features}) {
    if (name == to_string(l)) return out = l, true;
  }
  return false;
}

ValueRange parse_range(const std::string& text, const std::string& flag) {
  const size_t colon = text.find(':', 1);
  ValueRange range;
  const auto number = [](std::string_view part, double& v) {
    v = parse_number<double>(part).value_or(NAN);
    return std::isfinite(v);
  };
  const bool sound = colon != std::string::npos && number(std::string_view(text).substr(0, colon), range.low) &&
                     number(std::string_view(text).substr(colon + 1), range.high) && range.low < range.high;
  if (!sound) refuse_text(flag, "LOW:HIGH, the values of black and white, as 0:4095", text);
  return range;
}

std::string to_string(const ValueRange& range) { return cat(range.low, " to ", range.high); }

const char* to_string(Values values) {
  switch (values) {
    case Values::unstated: break;
    case Values::bytes: return "bytes";
    case Values::scaled: return "scaled";
    case Values::plain: return "plain";
  }
  return "unstated";
}

bool parse_values(const std::string& name, Values& out) {
  for (const Values v : {Values::unstated, Values::bytes, Values::scaled, Values::plain}) {
    if (name == to_string(v)) return out = v, true;
  }
  return false;
}

Shape sample_shape(DType dtype, const Shape& samples, const AskedMeaning& asked, const std::string& where) {
  return *sample_in(samples, layout_of(dtype, samples, Layout::automatic, asked, where));
}

ArrayMeaning decide_meaning(const Array& samples, const AskedMeaning& asked, const std::string& where) {
  ArrayMeaning m{.layout = layout_of(samples, Layout::automatic, asked, where), .values = Values::plain, .range = {}};
  if (samples.numel() == 0) fail(ErrorKind::data, where, "empty samples: shape ", samples.shape());
  const Extremes e = extremes_of(samples);
  if (e.low <= e.high) m.range = {e.low, e.high};  // not of values none of which is finite
  const bool images = m.layout != Layout::features, numbers = is_floating(samples.dtype());
  if (asked.range) {
    m.range = *asked.range;
    m.values = m.range == kBytes && e.whole && e.within(0, 255) ? Values::bytes : Values::scaled;
    const double span = m.range.high - m.range.low;
    if (!e.within(m.range.low - kUnitSlack * span, m.range.high + kUnitSlack * span)) {
      refuse_value("--value-range", to_string(m.range), cat(where, " has values from ", e.low, " to ", e.high));
    }
    return m;
  }
  if (samples.dtype() == DType::u8) {
    m.values = Values::bytes;
  } else if (images && !numbers) {
    if (!e.within(0, 255)) {
      fail(ErrorKind::data, where, "images of integers from ", e.low, " to ", e.high,
           ": specify the value range with --value-range LOW:HIGH (0:65535, 0:4095 ...)");
    }
    m.values = Values::bytes;
  } else if (images && e.within(-kUnitSlack, 1 + kUnitSlack)) {
    m.values = Values::scaled;
    m.range = {0, 1};
  } else if (images && e.within(0, 255) && e.high > 1) {
    constexpr double kSurelyBytes = 16;
    if (!e.whole || e.high < kSurelyBytes) {
      fail(ErrorKind::data, where, "images of floats from ", e.low, " to ", e.high,
           ": specify the value range with --value-range LOW:HIGH (0:255, 0:1 ...)");
    }
    m.values = Values::bytes;
  }
  if (m.values == Values::bytes) m.range = kBytes;
  return m;
}

Array read_samples(const Array& samples, const ArrayMeaning& meaning, const AskedMeaning& asked,
                   const std::string& where) {
  const Array a = arranged(samples, layout_of(samples, meaning.layout, asked, where));
  const bool bytes = a.dtype() == DType::u8;
  switch (meaning.values) {
    case Values::unstated: return bytes ? a : a.cast(DType::f32);
    case Values::plain: return a.cast(DType::f32);
    case Values::bytes: {
      if (bytes) return a;
      const Extremes e = extremes_of(a);
      // Floats up to 1 are pixels that were scaled, of which only a black image is none.
      if (is_floating(a.dtype()) && e.within(-kUnitSlack, 1 + kUnitSlack)) return a.cast(DType::f32);
      if (!e.within(0, 255) || !e.whole) other_range(where, e, meaning);
      return a.cast(DType::u8);
    }
    case Values::scaled: break;
  }
  if (bytes && meaning.range != kBytes) {
    const Extremes e = extremes_of(a);
    if (meaning.range.high <= 255 && meaning.range.low >= 0 && meaning.range.high > 1 &&
        e.within(meaning.range.low, meaning.range.high)) {
      return a.cast(DType::f32);  // stored in the smallest type that holds them
    }
    return picture_sample(a, meaning, where);
  }
  const Extremes e = extremes_of(a);
  const double span = meaning.range.high - meaning.range.low;
  // Held-out samples may exceed the range a little where it is not one of pixels; another scale is far off.
  if (!e.within(meaning.range.low - span, meaning.range.high + span)) other_range(where, e, meaning);
  return a.cast(DType::f32);
}

Array read_sample(const Array& sample, const ArrayMeaning& meaning, const AskedMeaning& asked,
                  const std::string& where) {
  Shape one = sample.shape();
  one.insert(0, 1);
  bool fits = false;
  for (const Layout l : {Layout::nchw, Layout::nhwc, Layout::nhw, Layout::features}) {
    fits = fits || sample_in(one, l) == asked.input;
  }
  if (!fits) return {};
  AskedMeaning exact = asked;
  // A sample as the model takes it goes before one whose axes would have to be moved.
  if (sample.shape() == asked.input) exact.layout = Layout::features;
  return read_samples(sample.reshaped(one), meaning, exact, where).reshaped(asked.input);
}

Array picture_sample(const Array& pixels, const ArrayMeaning& meaning, const std::string& where) {
  if (!meaning.takes_pictures()) {
    fail(ErrorKind::data, where, "an image's pixels are bytes from 0 to 255, the model was trained on numbers from ",
         to_string(meaning.range),
         ", whose value range is unknown: train it with --value-range "
         "LOW:HIGH, or pass arrays");
  }
  if (meaning.values != Values::scaled || meaning.range == ValueRange{0, 1}) return pixels;
  Array out(DType::f32, pixels.shape());
  const double step = (meaning.range.high - meaning.range.low) / 255;
  const uint8_t* src = pixels.data<uint8_t>();
  std::transform(src, src + pixels.numel(), out.data<float>(),
                 [&](uint8_t v) { return static_cast<float>(meaning.range.low + step * v); });
  return out;
}

std::string range_warning(const Array& values, const ArrayMeaning& meaning) {
  if (meaning.values != Values::plain || values.numel() == 0) return "";
  const Extremes e = extremes_of(values);
  const double span = std::max(meaning.range.high - meaning.range.low, std::numeric_limits<float>::min() * 1.0);
  if (e.within(meaning.range.low - span, meaning.range.high + span)) return "";
  return cat("values from ", e.low, " to ", e.high, ", the model was trained on ", to_string(meaning.range),
             ": its predictions for them may be meaningless");
}

}  // namespace freight::data
