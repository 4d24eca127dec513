// Functions that move elements without computing: reshaping, slicing, joining, and tensors made from nothing.
// All throw Error(usage) naming shapes and axes. Negative axes count from the back.
#pragma once
#include <vector>

#include "freight/ops/options.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// The same elements in row-major order under another shape; one extent may be -1 (inferred).
Tensor reshape(const In& x, const Shape& shape);
// Joins the axes from `start` to `end` (inclusive): (N, C, H, W) -> (N, C*H*W) by default.
Tensor flatten(const In& x, Axis start = 1, Axis end = -1);
// Swaps two axes.
Tensor transpose(const In& x, Axis a = -2, Axis b = -1);
// Result axis i is axis perm[i] of x.
Tensor permute(const In& x, const Shape& perm);
// Drops an axis of extent 1.
Tensor squeeze(const In& x, Axis axis);
Tensor unsqueeze(const In& x, Axis axis);  // adds an axis of extent 1 before `axis` of the result
// NumPy's broadcast_to: leading axes are added, extents of 1 expand.
Tensor broadcast_to(const In& x, const Shape& shape);
// Elements start, start+step, ... below limit along one axis; negative numbers count from the end, the rest is clamped.
Tensor slice(const In& x, Axis axis, WholeNumber start, WholeNumber limit, WholeNumber step = 1);
// `length` elements from `start`; out of range is an error.
Tensor narrow(const In& x, Axis axis, WholeNumber start, WholeNumber length);
// The slice at `index`, without the axis.
Tensor select(const In& x, Axis axis, WholeNumber index);
// Per axis: `low` elements before and `high` after, all `value`.
Tensor pad(const In& x, const Shape& low, const Shape& high, const In& value = 0);
// The elements of one axis in reverse order.
Tensor flip(const In& x, Axis axis);
// The elements of one axis moved by `shift` places; those that leave it at one end come back at the other.
Tensor roll(const In& x, WholeNumber shift, Axis axis);
// Each element of the axis several times in a row: as often as the only entry of `times` says, or its own entry.
Tensor repeat(const In& x, const std::vector<int64_t>& times, Axis axis);
// x repeated `times` times along each of its last axes; more of them add axes in front.
Tensor tile(const In& x, const Shape& times);
// Differences of neighbors along the axis, n times; of bool, whether they differ.
Tensor diff(const In& x, WholeNumber n = 1, Axis axis = -1);
// Joins along an existing axis. Element types and other extents must agree.
Tensor concat(const TensorList& xs, Axis axis, SourceLine at = SourceLine::current());
// Joins along a new axis. Element types and shapes must agree.
Tensor stack(const TensorList& xs, Axis axis = 0, SourceLine at = SourceLine::current());
// Parts of the given sizes, whose sum is the axis' extent.
std::vector<Tensor> split(const In& x, const std::vector<int64_t>& sizes, Axis axis);
// `parts` equal parts, 65,536 at most. Throws Error(usage) where the axis does not divide.
std::vector<Tensor> chunk(const In& x, WholeNumber parts, Axis axis);

// A constant of zeros. Throws Error(usage) for a negative extent.
Tensor zeros(const Shape& shape, DType dtype = DType::f32, SourceLine at = SourceLine::current());
// A constant of ones.
Tensor ones(const Shape& shape, DType dtype = DType::f32, SourceLine at = SourceLine::current());
// A constant of one number. Throws Error(usage) naming the number where `dtype` does not hold it.
Tensor full(const Shape& shape, const In& value, DType dtype = DType::f32, SourceLine at = SourceLine::current());
// 0, 1, ... along one axis of `shape`.
Tensor iota(const Shape& shape, Axis axis, DType dtype = DType::i32, SourceLine at = SourceLine::current());
// 0, 1, ..., n - 1.
Tensor arange(WholeNumber n, DType dtype = DType::i32, SourceLine at = SourceLine::current());
// start, start + step, ... before stop: i32 of integers, else f32.
Tensor arange(const In& start, const In& stop, const In& step = 1);
// 0, 1, ... before stop, f32: arange(2.5) is 0, 1, 2.
template <class T>
requires std::is_floating_point_v<T> Tensor arange(T stop, SourceLine at = SourceLine::current()) {
  return arange(In(0.0, at), In(stop, at));
}
// `count` numbers from start to stop, both of them, at equal distances.
Tensor linspace(double start, double stop, WholeNumber count, DType dtype = DType::f32,
                SourceLine at = SourceLine::current());
// (rows, columns): 1 on the diagonal, 0 elsewhere; columns -1: as many as rows.
Tensor eye(WholeNumber rows, WholeNumber columns = -1, DType dtype = DType::f32, SourceLine at = SourceLine::current());

}  // namespace freight
