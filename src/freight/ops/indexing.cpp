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

int axes_taken(const Index& index) {
  if (const auto* t = std::get_if<Tensor>(&index.is))
    return ops::get(*t, kIndexing).dtype() == DType::boolean ? t->rank() : 1;
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

// One element per index: the picked axes become the indices' shape.
Tensor picked(const Tensor& t, const Picks& picks) {
  const auto count = static_cast<int>(picks.each.size());
  Tensor flat;
  for (int i = 0; i < count; ++i) {
    const int64_t extent = t.shape()[picks.first + i];
    const Tensor index = checked(picks.each[static_cast<size_t>(i)], extent);
    flat = i == 0 ? index : flat * extent + index;  // they broadcast
  }
  return gather(ops::reshaped(t, with_axes_joined(t.shape(), picks.first, count)), flat, picks.first);
}

}  // namespace

Tensor index_put(const In& x, const TensorList& indices, const In& updates, SourceLine at) {
  constexpr const char* kName = "index_put";
  const Frame frame(at, kName);
  const Tensor t = ops::get(x, kName);
  const std::vector<Tensor> each = ops::tensors_of(indices, kName);
  const auto count = static_cast<int>(each.size());
  if (count == 0 || count > t.rank()) {
    fail_here(kName, "expected indices for 1 to ", t.rank(), " axes of ", t.type(), ", got ", count);
  }
  return ops::named(kName, [&] {
    Tensor flat;
    for (int i = 0; i < count; ++i) {
      const Tensor& index = each[static_cast<size_t>(i)];
      if (!is_integer(index.dtype())) fail_here(kName, "indices must be integers: got ", index.type());
      const Tensor from_front = checked(index, t.shape()[i]);
      flat = i == 0 ? from_front : flat * t.shape()[i] + from_front;  // they broadcast
    }
    Shape picks = flat.shape();
    for (int i = count; i < t.rank(); ++i) picks.push_back(t.shape()[i]);
    const Tensor u =
        updates.is_number ? full(picks, updates, t.dtype()) : broadcast_to(ops::get(updates, kName), picks);
    const Tensor rows = ops::reshaped(t, with_axes_joined(t.shape(), 0, count));
    return ops::reshaped(scatter(rows, flat, u), t.shape());
  });
}

namespace {

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
  return picks.each.empty() ? t : picked(t, picks);
}

const Tensor Tensor::operator[](const Index& index) const { return (*this)[{index}]; }

}  // namespace freight
