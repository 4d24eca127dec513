// Functions that pick elements by integer tensors of any type. Errors: Error(usage) naming both types; an index out
// of range is an Error(data) naming it and the range when the step runs (GPUs tell when results are read).
#pragma once
#include <optional>

#include "freight/ops/options.h"
#include "freight/trace/tensor.h"
#include "freight/trace/variable.h"

namespace freight {

// Whole rows: the axis is replaced by the shape of `index`. x (R, D), index (N) -> (N, D). NumPy's take.
Tensor gather(const In& x, const In& index, Axis axis = 0);
// The reverse: zeros with `size` rows along `axis`, to which the rows of `updates` are added.
Tensor scatter_add(const In& index, const In& updates, WholeNumber size, Axis axis = 0);
// One element per index along `axis`, result of the index' shape. NumPy's take_along_axis, PyTorch's gather. An empty
// index may have any rank.
Tensor gather_elements(const In& x, const In& index, Axis axis = -1);
// x with the rows of `updates` at those that `index` names along the axis: x[index] = updates, as a tensor of its own.
// Of two for one row the last counts, in the gradient too.
Tensor scatter(const In& x, const In& index, const In& updates, Axis axis = 0);
// The same with one element per index along the axis. NumPy's put_along_axis.
Tensor scatter_elements(const In& x, const In& index, const In& updates, Axis axis = -1);
// Settings of index_put.
struct IndexPutOptions {
  bool accumulate = false;  // adds updates to the elements, as often as they are named
};
// x[{i, j, ...}] = updates: each index names elements of one of the first axes, from the back where negative; indices
// broadcast to one shape, and updates to it and the other axes. An index may be a mask, bool of the shape of one axis
// or several, outside of compiled steps.
Tensor index_put(const In& x, const TensorList& indices, const In& updates, const IndexPutOptions& options = {},
                 SourceLine at = SourceLine::current());
// x with `updates` from `start` on along the axis; a start that is a tensor is known when the step runs.
Tensor update_slice(const In& x, const In& updates, const In& start, Axis axis = 0);
// index (...) in [0, depth) -> (..., depth): 1 at the index, 0 elsewhere.
Tensor one_hot(const In& index, WholeNumber depth, DType dtype = DType::f32);
// index (...) in [0, size) -> (size), i64: how often each number occurs.
Tensor bincount(const In& index, WholeNumber size);
// Settings of embedding.
struct EmbeddingRowOptions {
  int64_t padding_idx = -1;                       // the row that receives no gradient; -1: none
  std::optional<double> max_norm = std::nullopt;  // scales longer rows of the result down to this length; none: no row
  double norm_type = 2;                           // the p of the p-norm that is their length
  bool scale_grad_by_freq = false;                // divides the gradient of a row by how often `index` names it
};
// index (...), table (rows, width) -> (..., width). The table keeps its rows where max_norm scales those of the result;
// gradients reach them as if nothing were scaled, as in PyTorch.
Tensor embedding(const In& index, const In& table, const EmbeddingRowOptions& options = {});

// The places of the elements that differ from 0, in row-major order: per axis an i32 (N). The host reads the elements:
// refused in a compiled step, where shapes do not depend on them.
std::vector<Tensor> nonzero(const In& x);

}  // namespace freight
