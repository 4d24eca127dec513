// Fourier transforms along one axis by PocketFFT, in f64 of all types; Python's part pads, cuts and scales
// (freight/_fft.py).
#include <nanobind/stl/string.h>

#define POCKETFFT_NO_MULTITHREADING
#include "../third_party/pocketfft/pocketfft_hdronly.h"
#include "array.h"

namespace freight::python {

namespace {

void transform(const std::string& kind, const View& x, View& y, size_t axis, bool forward, double factor) {
  using R = double;
  using Z = std::complex<R>;
  pocketfft::stride_t step[2];  // of x and y in bytes
  for (const View* v : {&x, static_cast<const View*>(&y)}) {
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
  transform(kind, x, y, static_cast<size_t>(at), forward, factor);
  return wrap(real == DType::f64 ? std::move(y) : cast(y, kind == "c2r" ? real : complex_type(real)));
}

}  // namespace

void bind_fft(nb::module_& m) { m.def("fft", fft); }

}  // namespace freight::python
