// The transforms of Winograd's minimal filtering F(4x4, 3x3) and F(4x4, 5x5) (Lavin and Gray 2016, arXiv:1509.09308), a
// vector of channels at a time. Chosen per CPU by Highway; winograd.cpp puts them together. P: 6 or 8, R: 3 or 5.
//   d (PxP input)    -> B^T d B     g (RxR filter)  -> G g G^T      m (PxP products) -> A^T m A (4x4 result)
// and the transposes that the filter's gradient needs:
//   dy (4x4)         -> A dy A^T    du (PxP)        -> G^T du G (RxR)
#pragma once
#include <cstddef>
#include <cstdint>

namespace freight::cpu {

// A square of pixels of channels-last images. Rows [row0, row1) and columns [col0, col1) of it exist in some image,
// whose pixel would be at `first` in row 0, column 0; what is in none is zero.
struct WinogradPatch {
  struct PatchRectangle {
    ptrdiff_t first;
    int64_t row0, row1, col0, col1;
  };
  ptrdiff_t row = 0, col = 0;  // strides in floats
  bool whole = false;          // all of it is in pieces[0]
  uint64_t exists = 0;         // bits of the square's pixels that do
  int count = 0;
  PatchRectangle pieces[4];  // so many
};

// T: the numbers of images, float or the bits of bf16, which are widened when read and rounded when written.
template <class T>
struct WinogradTable {
  int patch = 0;  // pixels along an axis
  // Channel c of transformed element e goes to dst[e * element + (c / width) * panel + c % width]; width is a multiple
  // of the lanes.
  struct Out {
    float* dst;
    ptrdiff_t element, panel;
    int64_t width;
  };
  using Transform = void (*)(const T* images, const WinogradPatch& patch, int64_t channels, const Out& out);
  Transform input, gradient;  // B^T d B and A dy A^T
  // This is done to a result before it is stored: bias (channels) and residual (like the images) may be null.
  struct Finish {
    const T *bias, *residual;
    bool relu, stream;
    float most;
  };
  // Channel c of product e is at m[e * element + c].
  void (*output)(const float* m, ptrdiff_t element, int64_t channels, const Finish& finish, T* images,
                 const WinogradPatch& patch);
  // One vector of filters, tap t of lane l at taps[t * tap + l]: element e to dst[e * element + l].
  void (*filter)(const float* taps, ptrdiff_t tap, float* dst, ptrdiff_t element);
  // One vector of the filter's gradient: tap t of lane l to w[t + l * lane].
  void (*filter_gradient)(const float* u, ptrdiff_t element, float* w, ptrdiff_t lane);
};
struct WinogradTables {
  int lanes = 0;  // channels come in multiples of it
  WinogradTable<float> three, five;
  WinogradTable<uint16_t> three_bf16, five_bf16;
};
const WinogradTables& winograd_tables();

}  // namespace freight::cpu
