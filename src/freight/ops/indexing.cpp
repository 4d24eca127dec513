// See indexing.h: indices become slices, reshapes and one gather.
#include "freight/ops/indexing.h"

#include <algorithm>
#include <vector>

#include "freight/ops/common.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/shape.h"

namespace freight {

namespace {

using ops::fail_here;
constexpr const char* kIndexing = "index";

// Where tensors name elements: the axes [first, first + picks.size()) of what slices and integers left.
struct Picks {
  int first = 0;
  std::vector<Tensor> each;
  bool closed = false;       // another index stands behind them
  bool lone_before = false;  // an integer stands before them, with something in between
};

Shape with_axes_joined(const Shape& s, int first, int count) {
  Shape joined;
  for (int i = 0; i < s.rank(); ++i) {
    if (i <= first || i >= first + count) {
      joined.push_back(s[i]);
    } else {
      joined[first] *= s[i];
    }
  }
  return joined;
}

// The numbers of the true elements, in row-major order.
Tensor places_of(const Tensor& mask) {
  if (trace::compiling())
    fail_here(kIndexing, "a mask in a compiled step gives a tensor of unknown shape: got ", mask.type(),
              "; use where() and a sum over all elements");
  const std::vector<uint8_t> on = mask.to_vector<uint8_t>();
  std::vector<int64_t> places;
  for (size_t i = 0; i < on.size(); ++i) {
    if (on[i]) places.push_back(static_cast<int64_t>(i));
  }
  const auto n = static_cast<int64_t>(places.size());
  return ops::made_on_host(Array::of(places, {n}), mask);
}

int axes_taken(const Tensor& index) { return ops::get(index, kIndexing).dtype() == DType::boolean ? index.rank() : 1; }
int axes_taken(const Index& index) {
  if (const auto* t = std::get_if<Tensor>(&index.is)) return axes_taken(*t);
  return std::holds_alternative<Ellipsis>(index.is) || std::holds_alternative<NewAxis>(index.is) ? 0 : 1;
}

// The indices with the ellipsis written out, so that they name every axis of x.
std::vector<Index> complete(const Type& x, std::initializer_list<Index> given) {
  int taken = 0;
  ptrdiff_t ellipses = 0;
  for (const Index& i : given) {
    taken += axes_taken(i);
    ellipses += std::holds_alternative<Ellipsis>(i.is);
  }
  if (taken > x.shape.rank())
    fail_here(kIndexing, "expected at most ", x.shape.rank(), " for ", x, ", got indices for ", taken, " axes");
  if (ellipses > 1) fail_here(kIndexing, "only one ellipsis is allowed among the indices of ", x);
  const auto rest = static_cast<size_t>(x.shape.rank() - taken);
  std::vector<Index> all;
  for (const Index& i : given) {
    if (std::holds_alternative<Ellipsis>(i.is)) {
      all.insert(all.end(), rest, Slice{});
    } else {
      all.push_back(i);
    }
  }
  if (ellipses == 0) all.insert(all.end(), rest, Slice{});
  return all;
}

Tensor sliced(const Tensor& t, int axis, const Slice& s) {
  const int64_t n = t.shape()[axis];
  if (s.step < 1) fail_here(kIndexing, "step must be positive: got ", s.step, "; flip() reverses an axis");
  return slice(t, axis, s.start.value_or(0), s.stop.value_or(n), s.step);
}

// Indices that were checked and count from the front.
Tensor checked(const Tensor& index, int64_t extent) {
  Tensor from_front = index;
  if (info(index.dtype()).kind == NumberKind::signed_integer) {
    const Tensor t = size_of(index.dtype()) < 4 ? cast(index, DType::i32) : index;  // which hold more than the extent
    from_front = where(t < 0 && t >= -extent, t + extent, t);
  }
  return cast(ops::one(Op::check_index, RowsAttrs{extent}, {from_front}), DType::i64);
}

// The numbers of the picked elements among those of the picked axes in row-major order; indices broadcast.
Tensor joined(const Tensor& t, const Picks& picks) {
  Tensor flat;
  for (int i = 0; i < static_cast<int>(picks.each.size()); ++i) {
    const int64_t extent = t.shape()[picks.first + i];
    const Tensor index = checked(picks.each[static_cast<size_t>(i)], extent);
    flat = i == 0 ? index : flat * extent + index;
  }
  return flat;
}

// The tensor with the picked axes as one.
Tensor with_picks_joined(const Tensor& t, const Picks& picks) {
  return ops::reshaped(t, with_axes_joined(t.shape(), picks.first, static_cast<int>(picks.each.size())));
}

void add_pick(Picks& picks, Tensor& t, int axis, const Tensor& index, const Type& x) {
  if (picks.closed || picks.lone_before)
    fail_here(kIndexing,
              "indices that are tensors or integers must be adjacent where one is a tensor: got another order for ", x,
              "; permute() brings the axes together");
  if (picks.each.empty()) picks.first = axis;
  if (index.dtype() != DType::boolean) {
    if (!is_integer(index.dtype())) fail_here(kIndexing, "indices must be integers or bool: got ", index.type());
    picks.each.push_back(index);
    return;
  }
  for (int i = 0; i < index.rank(); ++i) {
    if (index.shape()[i] != t.shape()[axis + i])
      fail_here(kIndexing, "a mask must have the sizes of the axes that it selects from: got ", index.type(), " for ",
                x, " from axis ", axis, " on");
  }
  if (index.rank() == 0) fail_here(kIndexing, "a mask needs an axis: got ", index.type());
  t = ops::reshaped(t, with_axes_joined(t.shape(), axis, index.rank()));
  picks.each.push_back(places_of(index));
}

}  // namespace

Tensor index_put(const In& x, const TensorList& indices, const In& updates, const IndexPutOptions& options,
                 SourceLine at) {
  constexpr const char* kName = "index_put";
  const Frame frame(at, kName);
  const Tensor given = ops::get(x, kName);
  const std::vector<Tensor> each = ops::tensors_of(indices, kName);
  int count = 0;  // of the axes that they name
  for (const Tensor& index : each) count += axes_taken(index);
  if (count == 0 || count > given.rank()) {
    fail_here(kName, "expected indices for 1 to ", given.rank(), " axes of ", given.type(), ", got ", count);
  }
  return ops::named(kName, [&] {
    Tensor t = given;  // the axes of a mask become one
    Picks picks;
    for (const Tensor& index : each) add_pick(picks, t, static_cast<int>(picks.each.size()), index, given.type());
    const Tensor places = joined(t, picks), rows = with_picks_joined(t, picks);
    Shape shape = places.shape();
    for (int i = 1; i < rows.rank(); ++i) shape.push_back(rows.shape()[i]);
    const Tensor u =
        updates.is_number ? full(shape, updates, t.dtype()) : broadcast_to(ops::get(updates, kName), shape);
    const Tensor y = options.accumulate ? rows + scatter_add(places, u, rows.dim(0)) : scatter(rows, places, u);
    return ops::reshaped(y, given.shape());
  });
}

Index::Index(const Slice& s, SourceLine line) : is(s), where(line) {}
Index::Index(Ellipsis e, SourceLine line) : is(e), where(line) {}
Index::Index(NewAxis n, SourceLine line) : is(n), where(line) {}
Index::Index(const Tensor& t, SourceLine line) : is(t), where(line) {}
Index::Index(At at, SourceLine line) : is(at.element), where(line) {}
Index::Index(const Index& other) = default;
Index& Index::operator=(const Index& other) = default;
Index::~Index() = default;

const Tensor Tensor::operator[](std::initializer_list<Index> indices) const {
  const Frame frame(indices.size() > 0 ? indices.begin()->where : SourceLine{}, kIndexing);
  const Type x = type();
  Tensor t = *this;
  Picks picks;
  bool integer_before = false, gap = false;  // whether an integer stood, and behind it something that keeps an axis
  int axis = 0;
  for (const Index& index : complete(x, indices)) {
    if (const auto* at = std::get_if<int64_t>(&index.is)) {
      if (picks.closed && !picks.each.empty())
        add_pick(picks, t, axis, zeros({}, DType::i64), x);  // says what is wrong
      t = select(t, axis, *at);
      integer_before = true;
      continue;
    }
    if (const auto* tensor = std::get_if<Tensor>(&index.is)) {
      picks.lone_before = integer_before && gap;
      add_pick(picks, t, axis, *tensor, x);
    } else {
      t = std::holds_alternative<NewAxis>(index.is) ? unsqueeze(t, axis) : sliced(t, axis, std::get<Slice>(index.is));
      picks.closed = !picks.each.empty();
      gap = integer_before;
    }
    ++axis;
  }
  return picks.each.empty() ? t : gather(with_picks_joined(t, picks), joined(t, picks), picks.first);
}

const Tensor Tensor::operator[](const Index& index) const { return (*this)[{index}]; }

}  // namespace freight
