// Views: memory, layouts, copies and element types; see view.h.
#include "view.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>

#include "freight/trace/tracer.h"
#include "loops.h"

namespace freight::python {

namespace {

constexpr size_t kAlignment = 64;

// One loop per pair of types.
template <class To, class From>
void convert(int64_t n, char** at, const int64_t* steps) {
  char* to = at[0];
  const char* from = at[1];
  if (steps[0] == sizeof(To) && steps[1] == sizeof(From)) {
    auto* out = reinterpret_cast<To*>(to);
    const auto* in = reinterpret_cast<const From*>(from);
    for (int64_t i = 0; i < n; ++i) out[i] = element_cast<To>(in[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i, to += steps[0], from += steps[1]) {
    *reinterpret_cast<To*>(to) = element_cast<To>(*reinterpret_cast<const From*>(from));
  }
}

template <class Word>
void move(int64_t n, char** at, const int64_t* steps) {
  convert<Word, Word>(n, at, steps);
}

ElementMove converter(DType to, DType from) {
  ElementMove found = nullptr;
  if (to == from) return mover_of(to);
  dispatch(to, [&]<class To>(To) {
    dispatch(from, [&]<class From>(From) {
      if constexpr (!(kIsComplex<From> && !kIsComplex<To> && !std::is_same_v<To, bool>)) found = convert<To, From>;
    });
  });
  return found;
}

}  // namespace

ElementMove mover_of(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return move<uint8_t>;
    case 2: return move<uint16_t>;
    case 4: return move<uint32_t>;
    case 8: return move<uint64_t>;
    default: return move<std::complex<double>>;
  }
}

int64_t* Shape::resize(size_t rank) {
  if (rank > kMaxRank) raise<ValueError>("an array has at most ", kMaxRank, " axes: got ", rank);
  if (rank > kFew && !many_) {
    many_ = std::make_unique<int64_t[]>(kMaxRank);
    std::copy(few_, few_ + rank_, many_.get());
  }
  rank_ = static_cast<int>(rank);
  return begin();
}

Shape Shape::filled(int rank, int64_t value) {
  Shape s;
  std::fill_n(s.resize(static_cast<size_t>(rank)), rank, value);
  return s;
}

Shape::operator freight::Shape() const {
  if (rank_ > freight::Shape::kMaxRank) {
    raise<ValueError>("jit, grad, other devices and the library's functions take at most ", freight::Shape::kMaxRank,
                      " axes: got shape ", to_string(*this), ": merge some by reshape");
  }
  return {begin(), end()};
}

void Shape::insert(int at, int64_t n) {
  int64_t* dims = resize(static_cast<size_t>(rank_) + 1);
  std::copy_backward(dims + at, dims + rank_ - 1, dims + rank_);
  dims[at] = n;
}

void Shape::erase(int at) {
  std::copy(begin() + at + 1, end(), begin() + at);
  --rank_;
}

bool Shape::is_empty() const { return std::find(begin(), end(), 0) != end(); }

int64_t Shape::numel() const {
  if (is_empty()) return 0;  // the other extents may have a product beyond 64 bits
  return std::accumulate(begin(), end(), int64_t{1}, std::multiplies<>());
}

Strides contiguous_strides(const Shape& shape) {
  Strides s = shape;
  int64_t step = 1;
  for (int a = shape.rank() - 1; a >= 0; --a) {
    s[a] = step;
    __builtin_mul_overflow(step, shape[a], &step);  // of an empty array, or of one that is refused for its size
  }
  return s;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int a = 0; a < shape.rank(); ++a) text += cat(a ? ", " : "", shape[a]);
  return text + (shape.rank() == 1 ? ",)" : ")");
}

Block::Block(size_t size) : bytes(size), of_trace(trace::compiling()), owned_(true) {
  static std::atomic<int64_t> made = 0;
  number = ++made;
  const size_t unit = size < size_t{4} << 20 ? kAlignment : size_t{2} << 20;
  data = static_cast<char*>(std::aligned_alloc(unit, (size + unit - 1) / unit * unit + kAlignment));
  if (!data) throw std::bad_alloc();
  // Small pages take longer to be given than most functions take to fill them. The system may refuse large ones.
  if (unit > kAlignment) madvise(data, size, MADV_HUGEPAGE);
}

Block::~Block() {
  if (owned_) std::free(data);
}

namespace {
// ValueError where they do not fit.
size_t bytes_of(const Shape& shape, DType dtype) {
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  if (shape.is_empty()) return 0;
  for (const int64_t n : shape) {
    if (__builtin_mul_overflow(bytes, n, &bytes))
      raise<ValueError>("array is too big: its size does not fit in 64 bits");
  }
  return static_cast<size_t>(bytes);
}
}  // namespace

View::View(DType type, const Shape& extents) : dtype(type), shape(extents), strides(contiguous_strides(extents)) {
  block = std::make_shared<Block>(bytes_of(extents, type));
  data = block->data;
}

View::View(DType type, const Shape& extents, const Strides& steps, void* first, bool writable,
           std::shared_ptr<void> owner)
    : View(type, extents, steps, static_cast<char*>(first),
           std::make_shared<Block>(first, bytes_of(extents, type), writable, std::move(owner))) {}

bool View::is_contiguous() const {
  if (shape.is_empty()) return true;
  int64_t step = 1;
  for (int a = rank() - 1; a >= 0; --a) {
    if (shape[a] != 1 && strides[a] != step) return false;
    step *= shape[a];
  }
  return true;
}

Shape checked_shape(const std::vector<int64_t>& extents, DType dtype) {
  for (const int64_t n : extents) {
    if (n < 0) raise<ValueError>("negative dimensions are not allowed: got ", n);
  }
  const Shape shape(extents);
  bytes_of(shape, dtype);
  return shape;
}

View copy(const View& x) {
  View y(x.dtype, x.shape);
  if (x.is_contiguous()) {
    parallel_copy(y.data, x.data, static_cast<size_t>(x.numel()) * x.item_size());
  } else {
    Loop<2>(x.shape, {&y, &x}).run_parallel(converter(x.dtype, x.dtype));
  }
  return y;
}

View contiguous(const View& x) { return x.is_contiguous() ? x : copy(x); }

View cast(const View& x, DType dtype) {
  if (dtype == x.dtype) return copy(x);
  const ElementMove f = converter(dtype, x.dtype);
  if (!f) raise<TypeError>("astype: ", python_name(x.dtype), " cannot become ", python_name(dtype), ": take real(x)");
  View y(dtype, x.shape);
  Loop<2>(x.shape, {&y, &x}).run_parallel(f);
  return y;
}

bool may_share_memory(const View& a, const View& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto ends = [](const View& v) {
    const char *low = v.data, *high = v.data + v.item_size();
    for (int i = 0; i < v.rank(); ++i) {
      const int64_t reach = (v.shape[i] - 1) * v.strides[i] * static_cast<int64_t>(v.item_size());
      (reach < 0 ? low : high) += reach;
    }
    return std::pair(low, high);
  };
  const auto [a_low, a_high] = ends(a);
  const auto [b_low, b_high] = ends(b);
  return a_low < b_high && b_low < a_high;
}

void assign(const View& dst, const View& src) {
  if (!dst.block->writable) raise<ValueError>("assignment destination is read-only");
  View from = may_share_memory(dst, src) ? copy(src) : src;
  while (from.rank() > dst.rank() && from.shape[0] == 1) from = without_axis(from, 0);
  from = broadcast(from, dst.shape);
  const ElementMove f = converter(dst.dtype, src.dtype);
  if (!f) raise<TypeError>("cannot assign ", python_name(src.dtype), " to ", python_name(dst.dtype), ": take real(x)");
  Loop<2>(dst.shape, {&dst, &from}).run_parallel(f);
}

View permuted(const View& x, const std::vector<int>& order) {
  View y = x;
  for (int i = 0; i < x.rank(); ++i) {
    y.shape[i] = x.shape[order[static_cast<size_t>(i)]];
    y.strides[i] = x.strides[order[static_cast<size_t>(i)]];
  }
  return y;
}

View broadcast(const View& x, const Shape& shape) {
  if (x.shape == shape) return x;
  const int added = shape.rank() - x.rank();
  bool fits = added >= 0;
  View y = x;
  y.shape = shape;
  y.strides = Strides::filled(shape.rank(), 0);
  for (int a = 0; a < x.rank() && fits; ++a) {
    fits = x.shape[a] == shape[a + added] || x.shape[a] == 1;
    y.strides[a + added] = x.shape[a] == shape[a + added] ? x.strides[a] : 0;
  }
  if (!fits)
    raise<ValueError>("could not broadcast input array from shape ", to_string(x.shape), " into shape ",
                      to_string(shape));
  return y;
}

View reshaped_view(const View& x, const Shape& shape) {
  View y = x;
  y.shape = shape;
  if (x.is_contiguous()) {
    y.strides = contiguous_strides(shape);
    return y;
  }
  // Axes of x that lie together in memory must cover axes of the result.
  y.strides = Strides::filled(shape.rank(), 0);
  int from = 0, to = 0;
  while (from < x.rank() || to < shape.rank()) {
    int64_t have = from < x.rank() ? x.shape[from] : 1, want = to < shape.rank() ? shape[to] : 1;
    int from_end = from + (from < x.rank()), to_end = to + (to < shape.rank());
    while (have != want) {
      if (have < want) {
        have *= x.shape[from_end++];
      } else {
        want *= shape[to_end++];
      }
    }
    int64_t expected = 0;
    bool first = true;
    int64_t inner = 1;
    for (int a = from_end - 1; a >= from; --a) {
      if (x.shape[a] == 1) continue;
      if (first) {
        inner = x.strides[a];
        first = false;
      } else if (x.strides[a] != expected) {
        y.block = nullptr;
        return y;
      }
      expected = x.strides[a] * x.shape[a];
    }
    for (int a = to_end - 1; a >= to; --a) {
      y.strides[a] = inner;
      inner *= shape[a];
    }
    from = from_end;
    to = to_end;
  }
  return y;
}

View reshaped(const View& x, const Shape& shape) {
  if (x.numel() != shape.numel()) {
    raise<ValueError>("cannot reshape array of size ", x.numel(), " into shape ", to_string(shape));
  }
  View y = reshaped_view(x, shape);
  return y.block ? y : reshaped_view(copy(x), shape);
}

View sliced(const View& x, int axis, int64_t start, int64_t step, int64_t length) {
  View y = x;
  if (length > 0) y.data += start * x.strides[axis] * static_cast<int64_t>(x.item_size());
  y.shape[axis] = length;
  y.strides[axis] *= step;
  return y;
}

View selected(const View& x, int axis, int64_t index) {
  const int64_t size = x.shape[axis], at = index < 0 ? index + size : index;
  if (at < 0 || at >= size) {
    raise<IndexError>("index ", index, " is out of bounds for axis ", axis, " with size ", size);
  }
  View y = x;
  y.data += at * x.strides[axis] * static_cast<int64_t>(x.item_size());
  y.shape.erase(axis);
  y.strides.erase(axis);
  return y;
}

View with_axis(const View& x, int axis) {
  View y = x;
  y.shape.insert(axis, 1);
  y.strides.insert(axis, 0);
  return y;
}

View without_axis(const View& x, int axis) {
  if (x.shape[axis] != 1) {
    raise<ValueError>("cannot select an axis to squeeze out which has size not equal to one: axis ", axis, " of ",
                      to_string(x.shape));
  }
  View y = x;
  y.shape.erase(axis);
  y.strides.erase(axis);
  return y;
}

View diagonal_view(const View& x, int64_t offset) {
  const int n = x.rank();
  if (n < 2) raise<ValueError>("diagonal requires an array of at least two dimensions: got ", to_string(x.shape));
  const int64_t rows = x.shape[n - 2], columns = x.shape[n - 1];
  const int64_t length =
      std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  View y = x;
  if (length > 0) {
    const int64_t start = offset >= 0 ? offset * x.strides[n - 1] : -offset * x.strides[n - 2];
    y.data += start * static_cast<int64_t>(x.item_size());
  }
  const int64_t step = x.strides[n - 2] + x.strides[n - 1];
  y.shape.erase(n - 1);
  y.strides.erase(n - 1);
  y.shape[n - 2] = length;
  y.strides[n - 2] = step;
  return y;
}

View part_of_complex(const View& x, int part) {
  View y = x;
  y.dtype = real_type(x.dtype);
  y.data += static_cast<size_t>(part) * y.item_size();
  for (int a = 0; a < y.rank(); ++a) y.strides[a] *= 2;
  return y;
}

Shape broadcast_of(const Shape& a, const Shape& b) {
  if (a == b) return a;
  Shape out = a.rank() < b.rank() ? b : a;
  const Shape& shorter = a.rank() < b.rank() ? a : b;
  for (int i = 0, added = out.rank() - shorter.rank(); i < shorter.rank(); ++i) {
    if (out[i + added] == 1) out[i + added] = shorter[i];
    if (shorter[i] != 1 && shorter[i] != out[i + added])
      raise<ValueError>("operands could not be broadcast together with shapes ", to_string(a), " ", to_string(b));
  }
  return out;
}

int checked_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    raise<IndexError>("axis ", axis, " is out of bounds for array of dimension ", rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

DType real_type(DType dtype) { return dtype == DType::c64 ? DType::f32 : dtype == DType::c128 ? DType::f64 : dtype; }

DType complex_type(DType dtype) {
  if (is_complex(dtype)) return dtype;
  return dtype == DType::f64 ? DType::c128 : DType::c64;
}

namespace {
struct ElementType {
  DType dtype;
  const char *name, *buffer_format;
};
constexpr bool kLong = sizeof(long) == 8;
constexpr ElementType kElementTypes[kDTypeCount] = {{DType::f32, "float32", "f"},
                                                    {DType::f64, "float64", "d"},
                                                    {DType::bf16, "bfloat16", nullptr},
                                                    {DType::f16, "float16", "e"},
                                                    {DType::i32, "int32", "i"},
                                                    {DType::i64, "int64", kLong ? "l" : "q"},
                                                    {DType::u8, "uint8", "B"},
                                                    {DType::boolean, "bool", "?"},
                                                    {DType::i8, "int8", "b"},
                                                    {DType::i16, "int16", "h"},
                                                    {DType::u16, "uint16", "H"},
                                                    {DType::u32, "uint32", "I"},
                                                    {DType::u64, "uint64", kLong ? "L" : "Q"},
                                                    {DType::c64, "complex64", "Zf"},
                                                    {DType::c128, "complex128", "Zd"}};
static_assert(std::all_of(std::begin(kElementTypes), std::end(kElementTypes),
                          [](const ElementType& t) { return &t - kElementTypes == static_cast<int>(t.dtype); }));
}  // namespace

const char* python_name(DType dtype) { return kElementTypes[static_cast<size_t>(dtype)].name; }
const char* buffer_format(DType dtype) { return kElementTypes[static_cast<size_t>(dtype)].buffer_format; }

DType promoted(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  const bool floats = is_floating(a) || is_complex(a), other_floats = is_floating(b) || is_complex(b);
  if (floats != other_floats) return floats ? a : b;
  if (floats) {
    const DType x = real_type(a), y = real_type(b);
    const DType wider = size_of(x) == size_of(y) && x != y ? DType::f32 : size_of(x) > size_of(y) ? x : y;
    return is_complex(a) || is_complex(b) ? complex_type(wider) : wider;
  }
  const bool a_signed = info(a).kind == NumberKind::signed_integer,
             b_signed = info(b).kind == NumberKind::signed_integer;
  if (a_signed == b_signed) return size_of(a) > size_of(b) ? a : b;
  const DType with_sign = a_signed ? a : b, without = a_signed ? b : a;
  if (size_of(with_sign) > size_of(without)) return with_sign;
  switch (without) {
    case DType::u8: return DType::i16;
    case DType::u16: return DType::i32;
    case DType::u32: return DType::i64;
    default: break;
  }
  raise<TypeError>("no integer type holds both ", python_name(a), " and ", python_name(b), ": convert one with astype");
}

Array to_array(const View& x) {
  if (!x.is_contiguous()) return to_array(copy(x));
  return Array(x.dtype, x.shape, Storage::borrow(x.data, static_cast<size_t>(x.numel()) * x.item_size(), x.block));
}

View from_array(const Array& a) {
  return View(a.dtype(), a.shape(), contiguous_strides(a.shape()), a.raw(), true, a.storage());
}

}  // namespace freight::python
