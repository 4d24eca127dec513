// See model_difference.h.
#include "model_difference.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/io/file.h"
#include "freight/io/safetensors.h"

namespace freight::app {

namespace {

std::string type_of(const Array& a) { return cat(a.dtype(), a.shape()); }

// The index "[3,0,1,1]" of an element of a row-major array; "" for a scalar.
std::string place_in(const Shape& shape, int64_t element) {
  std::vector<std::string> at(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[static_cast<size_t>(axis)] = cat(element % shape[axis]);
    element /= shape[axis];
  }
  return at.empty() ? "" : cat("[", join(at, ","), "]");
}

// The value, with its bytes if `bits`: NaNs and zeros may look alike and differ.
std::string element_text(const Array& a, int64_t element, bool bits) {
  const size_t size = size_of(a.dtype());
  const auto* bytes = static_cast<const uint8_t*>(a.raw()) + static_cast<size_t>(element) * size;
  Array one(a.dtype(), {1});
  std::memcpy(one.raw(), bytes, size);
  std::string text;
  if (a.dtype() == DType::f64) {
    text = cat(one.to_vector<double>()[0]);
  } else if (is_floating(a.dtype())) {
    text = cat(one.to_vector<float>()[0]);
  } else {
    text = cat(one.to_vector<int64_t>()[0]);
  }
  if (!bits) return text;
  text += " (0x";
  for (size_t i = size; i-- > 0;) {  // from the last byte in memory, which is the most significant
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", bytes[i]);
    text += hex;
  }
  return text + ")";
}

std::optional<ModelDifference> difference_of(const std::string& name, const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return ModelDifference{name, type_of(a), type_of(b)};
  const auto* x = static_cast<const uint8_t*>(a.raw());
  const auto* y = static_cast<const uint8_t*>(b.raw());
  const auto at = std::mismatch(x, x + a.bytes(), y).first - x;
  if (at == static_cast<std::ptrdiff_t>(a.bytes())) return std::nullopt;
  const int64_t element = at / static_cast<int64_t>(size_of(a.dtype()));
  const bool alike = element_text(a, element, false) == element_text(b, element, false);
  return ModelDifference{name + place_in(a.shape(), element), element_text(a, element, alike),
                         element_text(b, element, alike)};
}

}  // namespace

std::optional<ModelDifference> difference_of(const std::string& first, const std::string& second) {
  const std::string mine = io::read_text(first), theirs = io::read_text(second);
  if (mine == theirs) return std::nullopt;
  const io::SafeTensors a = io::load_safetensors(first), b = io::load_safetensors(second);
  for (const auto& [name, tensor] : a.tensors) {
    const Array* const other = b.find(name);
    if (!other) return ModelDifference{name, type_of(tensor), "nothing"};
    if (auto found = difference_of(name, tensor, *other)) return found;
  }
  for (const auto& [name, tensor] : b.tensors) {
    if (!a.find(name)) return ModelDifference{name, "nothing", type_of(tensor)};
  }
  for (const auto& [key, text] : a.metadata) {
    const auto other = b.metadata.find(key);
    const std::string there = other == b.metadata.end() ? "" : other->second;
    if (there == text) continue;
    // The text before the difference is equal, and may be long.
    constexpr std::ptrdiff_t kBefore = 20;
    const size_t same = std::min(text.size(), there.size());
    const auto at = std::mismatch(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(same), there.begin()).first;
    const auto from = static_cast<size_t>(std::max<std::ptrdiff_t>(0, at - text.begin() - kBefore));
    return ModelDifference{cat("metadata ", key), excerpt(text.substr(from)), excerpt(there.substr(from))};
  }
  return ModelDifference{"the order of the header", cat(mine.size(), " bytes"), cat(theirs.size(), " bytes")};
}

}  // namespace freight::app
