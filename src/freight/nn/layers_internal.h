// Helpers that several layers' sources share. Internal: only nn/*.cpp include it.
#pragma once
#include "freight/ops/options.h"
#include "freight/trace/tracer.h"

namespace freight::nn {

// The number of elements of a window or shape as a double, which does not overflow: a single size stands for all of
// `spatial` axes.
inline double volume(const Extents& e, int spatial) {
  double n = 1;
  for (const int64_t v : e.values) n *= static_cast<double>(v);
  return e.uniform && spatial == 2 ? n * n : n;
}

// Throws where x is not (N, T, width).
inline void need_tokens(const char* layer, const Tensor& x, int64_t width) {
  if (x.rank() != 3 || x.dim(2) != width) {
    trace::fail_here(layer, "expected (N, T, ", width, "), got ", x.type());
  }
}

}  // namespace freight::nn
