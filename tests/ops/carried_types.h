// Cases of the element types that few programs compute in, or, if complex, none: the ops' test rows that move elements,
// in such a type, with what has to come out, and what NumPy's astype makes of elements. The tests of the backends share
// them.
#pragma once
#include <complex>
#include <cstring>

#include "freight/backend/ref/interpret.h"
#include "freight/ir/infer.h"
#include "tests/ops/op_rows.h"

namespace freight::test {

inline std::vector<DType> carried_types() {
  return (dtypes::kComplex | dtypes::kInteger).without({DType::i32, DType::i64, DType::u8}).list();
}

// Elements of all bits, from number `first` on; parts of complex numbers are finite.
inline Array elements(DType dtype, const Shape& shape, int64_t first) {
  Array a(dtype, shape);
  dispatch(dtype, [&]<class T>(T) {
    T* to = static_cast<T*>(a.raw());
    for (int64_t i = 0; i < a.numel(); ++i) {
      const uint64_t bits = static_cast<uint64_t>(first + i + 1) * 0x9E3779B97F4A7C15u;
      if constexpr (kIsComplex<T>) {
        to[i] = T(static_cast<typename T::value_type>(static_cast<int64_t>(bits)),
                  static_cast<typename T::value_type>(bits >> 40) * -0.25F);
      } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        to[i] = static_cast<T>(bits >> 13);
      }
    }
  });
  return a;
}

inline bool same_bytes(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

// The row with its data, those operands that are no indices, conditions or keys, in another type.
struct Typed {
  OpRow row;
  std::vector<bool> data;  // by operand
};
inline Typed typed(const OpRow& row, DType dtype) {
  Typed t{row, {}};
  const bool index_first = row.op == Op::scatter_add || row.op == Op::scatter_elements_add || row.op == Op::embedding ||
                           row.op == Op::check_index || row.op == Op::one_hot;
  for (size_t i = 0; i < row.in.size(); ++i) {
    Operand& o = t.row.in[i];
    const bool indexes = index_first ? i == 0 : i == 1 && info(row.op).kind == OpKind::index;
    const bool condition = row.op == Op::where && i == 0;
    const bool is_data = !indexes && !condition && o.fill != Fill::key;
    t.data.push_back(is_data);
    if (is_data) o.type.dtype = dtype;
  }
  if (auto* a = std::get_if<ConstantAttrs>(&t.row.attrs)) {
    a->type.dtype = dtype;
    if (a->data.defined()) a->data = a->data.cast(is_complex(dtype) ? dtype : DType::i64).cast(dtype);
  }
  if (auto* a = std::get_if<IotaAttrs>(&t.row.attrs)) a->dtype = dtype;
  if (auto* a = std::get_if<OneHotAttrs>(&t.row.attrs)) a->dtype = dtype;
  return t;
}

inline Graph graph_for(const OpRow& row) {
  Graph g;
  std::vector<Value> in;
  for (const Operand& o : row.in) in.push_back(g.add(Op::input, LeafAttrs{cat("x", in.size()), o.type}, {})[0]);
  g.outputs = g.add(row.op, row.attrs, in, "layer1.fc", "net.cpp:7");
  return g;
}

// What moving gives: the elements in the places of their numbers; number -1 is what pad puts between.
inline Array moved(const Typed& t, const std::vector<Array>& given, DType dtype) {
  OpRow numbers = t.row;
  std::vector<Array> in = given;
  std::vector<const Array*> of;
  constexpr int64_t kEach = 1 << 20;
  for (size_t k = 0; k < given.size(); ++k) {
    if (!t.data[k]) continue;
    numbers.in[k].type.dtype = DType::i64;
    in[k] = Array(DType::i64, given[k].shape());
    for (int64_t i = 0; i < in[k].numel(); ++i) in[k].data<int64_t>()[i] = static_cast<int64_t>(of.size()) * kEach + i;
    of.push_back(&given[k]);
  }
  double fill = 0;
  if (auto* a = std::get_if<PadAttrs>(&numbers.attrs)) fill = std::exchange(a->value, -1);
  const Array places = interpret(graph_for(numbers), in)[0];
  const Array filled = Array::of<double>({fill}, {1}).cast(dtype);
  Array out(dtype, places.shape());
  const size_t size = size_of(dtype);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const int64_t n = places.data<int64_t>()[i];
    const Array& from = n < 0 ? filled : *of[static_cast<size_t>(n / kEach)];
    std::memcpy(static_cast<char*>(out.raw()) + static_cast<size_t>(i) * size,
                static_cast<const char*>(from.raw()) + static_cast<size_t>(n < 0 ? 0 : n % kEach) * size, size);
  }
  return out;
}

inline Array expected(const Typed& t, const std::vector<Array>& in, DType dtype) {
  if (t.row.op == Op::constant) {
    const auto& a = std::get<ConstantAttrs>(t.row.attrs);
    if (a.data.defined()) return a.data;
    return Array::of<double>(std::vector<double>(static_cast<size_t>(a.type.numel()), a.value), a.type.shape)
        .cast(dtype);
  }
  if (t.row.op != Op::eq && t.row.op != Op::ne) return moved(t, in, dtype);
  Array out(DType::boolean, in[0].shape());
  dispatch(dtype, [&]<class T>(T) {
    if constexpr (!kIsHalf<T>) {
      const T *a = static_cast<const T*>(in[0].raw()), *b = static_cast<const T*>(in[1].raw());
      for (int64_t i = 0; i < out.numel(); ++i) out.data<bool>()[i] = (a[i] == b[i]) == (t.row.op == Op::eq);
    }
  });
  return out;
}

// What is run: inputs, and the result that is needed.
struct CarriedCase {
  std::string what;
  Graph graph;
  std::vector<Array> in;
  Array need;
};

inline bool is_carried_row(const OpRow& row, const Typed& t) {
  if (row.op == Op::cast || row.op == Op::fused || row.op == Op::attention_grad) return false;  // casts: cast_cases()
  const bool result = row.op == Op::constant || row.op == Op::iota || row.op == Op::one_hot;
  return result || std::find(t.data.begin(), t.data.end(), true) != t.data.end();
}

// Of the rows whose op takes every type.
inline std::vector<CarriedCase> carried_cases(DType dtype) {
  std::vector<CarriedCase> cases;
  for (const OpRow& row : op_rows()) {
    const Typed t = typed(row, dtype);
    if (!is_carried_row(row, t) || element_types(info(row.op).infer) != dtypes::kAll) continue;
    std::vector<Array> in;
    for (size_t i = 0; i < t.row.in.size(); ++i) {
      const Type& type = t.row.in[i].type;
      const int64_t first = static_cast<int64_t>(i) * 1000;
      in.push_back(t.data[i] ? elements(dtype, type.shape, first) : random_array(t.row.in[i], i + 1));
    }
    if (row.op == Op::eq || row.op == Op::ne) {  // half of the elements are equal
      for (int64_t k = 0; k < in[1].numel(); k += 2) {
        const size_t at = static_cast<size_t>(k) * size_of(dtype);
        std::memcpy(static_cast<char*>(in[1].raw()) + at, static_cast<char*>(in[0].raw()) + at, size_of(dtype));
      }
    }
    cases.push_back({to_string(t.row), graph_for(t.row), in, expected(t, in, dtype)});
  }
  return cases;
}

struct Astype {
  const char *from, *to, *elements, *converted;
};
inline constexpr Astype kAstype[] = {
#include "tests/ops/astype_rows.inc"
};

inline Array of_hex(const std::string& type, std::string_view hex) {
  DType dtype{};
  EXPECT_TRUE(parse_dtype(type, dtype));
  Array a(dtype, {static_cast<int64_t>(hex.size() / 2 / size_of(dtype))});
  for (size_t i = 0; i < hex.size() / 2; ++i)
    static_cast<uint8_t*>(a.raw())[i] = static_cast<uint8_t>(std::stoi(std::string(hex.substr(2 * i, 2)), nullptr, 16));
  return a;
}

inline std::vector<CarriedCase> cast_cases() {
  std::vector<CarriedCase> cases;
  for (const Astype& row : kAstype) {
    const Array x = of_hex(row.from, row.elements), need = of_hex(row.to, row.converted);
    const Graph g = graph_for({Op::cast, CastAttrs{need.dtype()}, {{{x.dtype(), x.shape()}}}});
    cases.push_back({cat(row.from, " to ", row.to, " of ", row.elements), g, {x}, need});
  }
  return cases;
}

// NaN has many bits; all others are NumPy's.
inline bool same_or_nan(const Array& got, const Array& need) {
  if (got.dtype() != need.dtype() || got.shape() != need.shape()) return false;
  if (same_bytes(got, need)) return true;
  const auto a = got.to_vector<std::complex<double>>(), b = need.to_vector<std::complex<double>>();
  const auto part = [](double x, double y) {
    return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
  };
  for (size_t i = 0; i < a.size(); ++i) {
    if (!part(a[i].real(), b[i].real()) || !part(a[i].imag(), b[i].imag())) return false;
  }
  return is_floating(got.dtype()) || is_complex(got.dtype());
}

// All cases as one graph, for devices on which a plan costs a compilation.
inline Graph joined(const std::vector<CarriedCase>& cases, std::vector<Array>& in) {
  Graph all;
  for (const CarriedCase& c : cases) {
    std::vector<Value> given;
    for (Value v : c.graph.leaves(Op::input))
      given.push_back(all.add(Op::input, LeafAttrs{cat("x", in.size() + given.size()), c.graph.type(v)}, {})[0]);
    const Node& node = c.graph.def(c.graph.outputs[0]);
    all.outputs.push_back(all.add(node.op, node.attrs, given)[0]);
    in.insert(in.end(), c.in.begin(), c.in.end());
  }
  return all;
}

}  // namespace freight::test
