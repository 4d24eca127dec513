// Fourier transforms along one axis by PocketFFT, in f64 of all types; Python's part pads, cuts and scales
// (freight/_fft.py).
#include <nanobind/stl/string.h>

#include "../third_party/pocketfft/pocketfft_hdronly.h"
#include "array.h"
#include "loops.h"

namespace freight::python {

namespace {

void transform(const std::string& kind, const View& x, const View& y, size_t axis, bool forward, double factor) {
  using R = double;
  using Z = std::complex<R>;
  pocketfft::stride_t step[2];  // of x and y in bytes
  for (const View* v : {&x, &y}) {
    for (const int64_t s : v->strides) step[v == &y].push_back(s * static_cast<int64_t>(v->item_size()));
  }
  const View& real = kind == "c2r" ? y : x;
  const pocketfft::shape_t sizes(real.shape.begin(), real.shape.end());
  const char* from = x.data;
  if (kind == "c2c") {
    pocketfft::c2c(sizes, step[0], step[1], {axis}, forward, reinterpret_cast<const Z*>(from),
                   reinterpret_cast<Z*>(y.data), factor);
  } else if (kind == "r2c") {
    pocketfft::r2c(sizes, step[0], step[1], axis, forward, reinterpret_cast<const R*>(from),
                   reinterpret_cast<Z*>(y.data), factor);
  } else {
    pocketfft::c2r(sizes, step[0], step[1], axis, forward, reinterpret_cast<const Z*>(from),
                   reinterpret_cast<R*>(y.data), factor);
  }
}

// kind: c2c, r2c, c2r. n: the length of the real side of r2c and c2r. The results are multiplied by `factor`.
nb::object fft(nb::handle h, const std::string& kind, int64_t axis, int64_t n, bool forward, double factor) {
  PyArray& a = array_of(h, "fft");
  if (!a.on_host()) raise<TypeError>("fft: transforms work neither in jit and grad nor on other devices");
  const DType given = a.dtype();
  if (!is_floating(given) && !is_complex(given)) raise<TypeError>("fft is not defined for ", python_name(given));
  const DType real = size_of(real_type(given)) <= 4 ? DType::f32 : DType::f64;
  const View x = cast(a.view, kind == "r2c" ? DType::f64 : DType::c128);
  Shape shape = x.shape;
  const int at = checked_axis(axis, x.rank());
  if (kind == "r2c") shape[at] = n / 2 + 1;
  if (kind == "c2r") shape[at] = n;
  View y(kind == "c2r" ? DType::f64 : DType::c128, shape);
  // Lines are independent of each other: the longest other axis is cut for the pool's threads.
  int cut = at == 0 ? x.rank() - 1 : 0;
  for (int i = 0; i < x.rank(); ++i) cut = i != at && shape[i] > shape[cut] ? i : cut;
  const int64_t lines = shape[cut],
                parts = cut == at || y.numel() < kParallelElements ? 1 : std::min<int64_t>(lines, 16);
  if (parts == 1) transform(kind, x, y, static_cast<size_t>(at), forward, factor);
  parallel_for(parts == 1 ? 0 : parts, [&](int64_t part) {
    const int64_t begin = lines * part / parts, count = lines * (part + 1) / parts - begin;
    const auto piece = [&](const View& v) { return sliced(v, cut, begin, 1, count); };
    transform(kind, piece(x), piece(y), static_cast<size_t>(at), forward, factor);
  });
  return wrap(real == DType::f64 ? std::move(y) : cast(y, kind == "c2r" ? real : complex_type(real)));
}

}  // namespace

void bind_fft(nb::module_& m) { m.def("fft", fft); }

}  // namespace freight::python
