// Elementwise functions over views of any layout; see elementwise.h.
#include "elementwise.h"

#include <algorithm>
#include <cstring>

#include "loops.h"

namespace freight::python {

const std::vector<Elementwise>& elementwise_functions() {
  static const std::vector<Elementwise> rows = [] {
    std::vector<Elementwise> made = detail::unary_rows(), more = detail::binary_rows();
    made.insert(made.end(), more.begin(), more.end());
    return made;
  }();
  return rows;
}

const Elementwise& elementwise_function(std::string_view name) {
  for (const Elementwise& f : elementwise_functions()) {
    if (name == f.name) return f;
  }
  raise<ValueError>("no elementwise function ", std::string(name));
}

DType computed_in(const Elementwise& f, DType dtype) {
  if (f.loops[static_cast<size_t>(dtype)]) return dtype;
  if (f.floating && is_integer(dtype)) return DType::f32;
  raise<TypeError>(f.name, " is not defined for ", python_name(dtype));
}

View apply(const Elementwise& f, const View& x) {
  const auto at = static_cast<size_t>(x.dtype);
  View y(f.results[at], x.shape);
  Loop<2>(y.shape, {&y, &x}).run_parallel(f.loops[at]);
  return y;
}

View apply(const Elementwise& f, const View& a, const View& b) {
  View y(f.results[static_cast<size_t>(a.dtype)], broadcast_of(a.shape, b.shape));
  apply_into(f, y, a, b);
  return y;
}

void apply_into(const Elementwise& f, const View& out, const View& a, const View& b) {
  Loop<3>(out.shape, {&out, &a, &b}).run_parallel(f.loops[static_cast<size_t>(a.dtype)]);
}

namespace {
template <class Word>
void choose(int64_t n, char** at, const int64_t* steps) {
  char *y = at[0], *c = at[1], *a = at[2], *b = at[3];
  for (int64_t i = 0; i < n; ++i, y += steps[0], c += steps[1], a += steps[2], b += steps[3]) {
    std::memcpy(y, *reinterpret_cast<const bool*>(c) ? a : b, sizeof(Word));
  }
}
}  // namespace

View where(const View& condition, const View& a, const View& b) {
  View y(a.dtype, broadcast_of(condition.shape, broadcast_of(a.shape, b.shape)));
  const Loop<4> loop(y.shape, {&y, &condition, &a, &b});
  switch (y.item_size()) {
    case 1: loop.run_parallel(choose<uint8_t>); break;
    case 2: loop.run_parallel(choose<uint16_t>); break;
    case 4: loop.run_parallel(choose<uint32_t>); break;
    case 8: loop.run_parallel(choose<uint64_t>); break;
    default: loop.run_parallel(choose<std::complex<double>>); break;
  }
  return y;
}

}  // namespace freight::python
