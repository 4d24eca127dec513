// See array_text.h. The rules are those of NumPy's documentation of set_printoptions and what it prints.
#include "freight/base/array_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <complex>
#include <vector>

#include "freight/base/parse_number.h"
#include "freight/base/strings.h"

namespace freight {

namespace {

constexpr int64_t kThreshold = 1000, kEdge = 3;
constexpr int kPrecision = 8;
constexpr size_t kLine = 75;

// The shortest digits that give the number back in its own type, at most eight behind the point.
template <class T>
std::string digits_of(T v, std::chars_format format) {
  char buffer[512];
  const auto whole = std::to_chars(buffer, buffer + sizeof buffer, v, format);
  std::string text(buffer, whole.ptr);
  const size_t e = std::min(text.find('e'), text.size()), point = text.find('.');
  if (point == std::string::npos) return text.insert(e, ".");
  if (e - point - 1 <= kPrecision) return text;
  const auto cut = std::to_chars(buffer, buffer + sizeof buffer, v, format, kPrecision);
  text.assign(buffer, cut.ptr);
  const size_t end = std::min(text.find('e'), text.size());
  const size_t last = text.find_last_not_of('0', end - 1);
  return text.erase(last + 1, end - last - 1);
}

// The number's parts before and behind the point, and the exponent with its e.
struct Parts {
  std::string whole, fraction, exponent;
  explicit Parts(const std::string& text) {
    const size_t point = text.find('.'), e = std::min(text.find('e'), text.size());
    whole = text.substr(0, point);
    fraction = text.substr(point + 1, e - point - 1);
    exponent = text.substr(e);
  }
};

enum class Plus { omitted, shown };  // before numbers that are not negative: imaginary parts have one

// All shown numbers in one form and width.
template <class T>
std::vector<std::string> aligned(const std::vector<T>& numbers, Plus plus = Plus::omitted) {
  const bool signs = plus == Plus::shown;
  double most = 0, least = INFINITY;
  size_t odd = 0;  // the longest of nan and inf
  for (const T v : numbers) {
    if (!std::isfinite(v)) odd = std::max<size_t>(odd, v < 0 || (signs && std::isinf(v)) ? 4 : 3);
    if (!std::isfinite(v) || v == 0) continue;
    most = std::max(most, std::fabs(static_cast<double>(v)));
    least = std::min(least, std::fabs(static_cast<double>(v)));
  }
  const bool scientific = most > 0 && (most >= 1e8 || least < 1e-4 || most / least > 1000);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  std::vector<Parts> parts;
  size_t before = 0, behind = 0;
  for (const T v : numbers) {
    parts.emplace_back(std::isfinite(v) ? (signs && !std::signbit(v) ? "+" : "") + digits_of(v, format) : "");
    if (!std::isfinite(v)) continue;
    before = std::max(before, parts.back().whole.size());
    behind = std::max(behind, parts.back().fraction.size());
  }
  size_t tail = behind;  // what stands behind the point
  if (scientific) {
    for (const Parts& p : parts) tail = std::max(tail, behind + p.exponent.size());
  }
  if (odd > tail + 1) before = std::max(before, odd - tail - 1);
  std::vector<std::string> texts;
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::string text;
    if (std::isfinite(numbers[i])) {
      Parts& p = parts[i];
      p.fraction.resize(behind, scientific ? '0' : ' ');
      text = p.whole + "." + p.fraction + p.exponent;
      text.insert(0, before - std::min(before, p.whole.size()), ' ');
    } else {
      text = std::isnan(numbers[i]) ? "nan" : numbers[i] < 0 ? "-inf" : "inf";
      if (signs && text[0] != '-') text.insert(0, "+");
      text.insert(0, before + 1 + tail - std::min(before + 1 + tail, text.size()), ' ');
    }
    texts.push_back(text);
  }
  return texts;
}

// Real parts under each other, and imaginary parts behind them with their sign and a j.
template <class T>
std::vector<std::string> aligned(const std::vector<std::complex<T>>& numbers) {
  std::vector<T> real, imaginary;
  for (const std::complex<T>& v : numbers) {
    real.push_back(v.real());
    imaginary.push_back(v.imag());
  }
  std::vector<std::string> texts = aligned(real);
  const std::vector<std::string> seconds = aligned(imaginary, Plus::shown);
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string second = seconds[i];
    second.insert(second.find_last_not_of(' ') + 1, "j");
    texts[i] += second;
  }
  return texts;
}

template <class T>
std::vector<std::string> integers(const std::vector<T>& numbers) {
  std::vector<std::string> texts;
  size_t width = 0;
  for (const T v : numbers) {
    texts.push_back(std::to_string(v));
    width = std::max(width, texts.back().size());
  }
  for (std::string& t : texts) t.insert(0, width - t.size(), ' ');
  return texts;
}

// The places along an axis that are shown; -1 where "..." stands.
std::vector<int64_t> shown(int64_t extent, bool shortened) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < extent; ++i) {
    if (shortened && extent > 2 * kEdge && i == kEdge) {
      places.push_back(-1);
      i = extent - kEdge;
    }
    places.push_back(i);
  }
  return places;
}

class Printer {
 public:
  explicit Printer(const Array& a) : shape_(a.shape()), shortened_(a.numel() > kThreshold) {
    collect(0, 0);
    switch (a.dtype()) {
      case DType::f64: words_ = aligned(elements<double>(a)); break;
      case DType::f32:
      case DType::f16:
      case DType::bf16: words_ = aligned(elements<float>(a)); break;
      case DType::boolean:
        for (const int64_t v : elements<int64_t>(a)) words_.emplace_back(v ? " True" : "False");
        break;
      case DType::u64: words_ = integers(elements<uint64_t>(a)); break;
      case DType::c64: words_ = aligned(elements<std::complex<float>>(a)); break;
      case DType::c128: words_ = aligned(elements<std::complex<double>>(a)); break;
      default: words_ = integers(elements<int64_t>(a));
    }
  }
  std::string text() { return brackets(0, " ", kLine); }

 private:
  // The elements that are shown, in the order in which they are.
  void collect(int axis, int64_t at) {
    if (axis == shape_.rank()) {
      places_.push_back(at);
      return;
    }
    for (const int64_t i : shown(shape_[axis], shortened_)) {
      if (i >= 0) collect(axis + 1, at * shape_[axis] + i);
    }
  }
  template <class T>
  std::vector<T> elements(const Array& a) const {
    const std::vector<T> all = a.to_vector<T>();
    std::vector<T> some;
    for (const int64_t i : places_) some.push_back(all[static_cast<size_t>(i)]);
    return some;
  }

  // The part from `axis` on, whose lines but the first begin with `indent`.
  std::string brackets(int axis, const std::string& indent, size_t width) {
    const int left = shape_.rank() - axis;
    std::string text;
    const std::vector<int64_t> places = shown(shape_[axis], shortened_);
    if (left == 1) {
      std::string line = indent;
      for (size_t i = 0; i < places.size(); ++i) {
        const std::string word = places[i] < 0 ? "..." : words_[next_++];
        if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
          text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
          line = indent;
        }
        line += word;
        if (i + 1 < places.size()) line += " ";
      }
      text += line;
    } else {
      for (size_t i = 0; i < places.size(); ++i) {
        text += indent + (places[i] < 0 ? "..." : brackets(axis + 1, indent + " ", width - 1));
        if (i + 1 < places.size()) text += std::string(static_cast<size_t>(left - 1), '\n');
      }
    }
    return "[" + text.substr(indent.size()) + "]";
  }

  Shape shape_;
  bool shortened_;
  std::vector<int64_t> places_;
  std::vector<std::string> words_;
  size_t next_ = 0;
};

// A number by itself in the shortest digits that give it back in its own type: positional from 1e-4 up to `large`, else
// with an exponent, as NumPy 2.4 does it. NaN has no sign; that of 0 / 0 is negative on x86, and streams would show it.
template <class T>
std::string number_text(T v, double large) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  const double size = std::fabs(static_cast<double>(v));
  const bool positional = size == 0 || (size >= 1e-4 && size < large);
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v,
                                 positional ? std::chars_format::fixed : std::chars_format::scientific);
  return {buffer, end.ptr};
}

// From here on numbers of the type are written with an exponent.
double large_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::c128: return 1e16;
    case DType::f16: return 1e3;
    default: return 1e6;
  }
}

// The number of the fewest decimal digits that rounds to v in its type of 16 bits.
double fewest_digits(float v, DType dtype) {
  const auto rounded = [&](double d) {
    const auto f = static_cast<float>(d);
    return dtype == DType::f16 ? static_cast<float>(Float16(f)) : static_cast<float>(BFloat16(f));
  };
  double found = static_cast<double>(v);
  for (int digits = 0; digits < 9 && std::isfinite(v); ++digits) {
    char buffer[32];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, static_cast<double>(v), std::chars_format::scientific, digits);
    found = parse_number<double>({buffer, static_cast<size_t>(end.ptr - buffer)}).value_or(found);
    if (rounded(found) == v) break;
  }
  return found;
}

template <class T>
std::string scalar(const std::complex<T>& v, DType dtype) {
  const std::string imaginary = number_text(v.imag(), large_of(dtype)) + "j";
  if (v.real() == 0 && !std::signbit(v.real())) return imaginary;
  return cat("(", number_text(v.real(), large_of(dtype)), imaginary[0] == '-' ? "" : "+", imaginary, ")");
}

std::string scalar(const Array& a) {
  if (a.dtype() == DType::boolean) return a.to_vector<int64_t>()[0] ? "True" : "False";
  if (a.dtype() == DType::c64) return scalar(a.to_vector<std::complex<float>>()[0], a.dtype());
  if (a.dtype() == DType::c128) return scalar(a.to_vector<std::complex<double>>()[0], a.dtype());
  if (a.dtype() == DType::u64) return std::to_string(a.to_vector<uint64_t>()[0]);
  if (!is_floating(a.dtype())) return std::to_string(a.to_vector<int64_t>()[0]);
  const double large = large_of(a.dtype());
  std::string text;
  if (a.dtype() == DType::f64) {
    text = number_text(a.to_vector<double>()[0], large);
  } else {
    const float v = a.to_vector<float>()[0];
    text = a.dtype() == DType::f32 ? number_text(v, large) : number_text(fewest_digits(v, a.dtype()), large);
  }
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

}  // namespace

std::string text_of(const Array& array) {
  if (array.shape().rank() == 0) return scalar(array);
  return array.numel() == 0 ? "[]" : Printer(array).text();
}

}  // namespace freight
