// Linear algebra on the CPU over transposed operands, parts of larger matrices and operands that serve a whole batch:
// they are read as they lie, so that no copy is planned, and the results are those of row-major operands to the bit,
// but of transposed triangles, by which a right side is solved in another order of the same sums.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/ir/builder.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"

namespace freight {
namespace {

// The operand is a view of the input: its last two axes exchanged; between rows and columns of a
// larger matrix; once for a whole batch.
enum class Lies { transposed, inside, shared };
constexpr Lies kLies[] = {Lies::transposed, Lies::inside, Lies::shared};
constexpr int64_t kMargin = 3;

Type input_type(Type t, Lies lies) {
  const int r = t.shape.rank();
  if (lies == Lies::transposed) std::swap(t.shape[r - 1], t.shape[r - 2]);
  if (lies == Lies::inside) {
    t.shape[r - 1] += kMargin;
    t.shape[r - 2] += 1;
  }
  if (lies == Lies::shared) t.shape[0] = 1;
  return t;
}

Value view_of(Builder& builder, Value x, const Type& t, Lies lies) {
  const int r = t.shape.rank();
  if (lies == Lies::shared) return builder.broadcast(x, t.shape);
  if (lies == Lies::inside) {
    Shape start = Shape::filled(r, 0);
    start[r - 1] = kMargin - 1;
    start[r - 2] = 1;
    Shape limit = t.shape;
    for (int i = 0; i < r; ++i) limit[i] += start[i];
    return builder.slice(x, start, limit, Shape::filled(r, 1));
  }
  Shape perm = t.shape;
  for (int i = 0; i < r; ++i) perm[i] = i;
  std::swap(perm[r - 2], perm[r - 1]);
  return builder.transpose(x, perm);
}

// Small enough that a triangle with ones on its diagonal is easy to solve by.
Array random_numbers(const Type& type, uint64_t seed) {
  Array a(type.dtype, type.shape);
  PhiloxStream random(seed, 0, 1);
  const float size = 1 / static_cast<float>(type.shape.back());
  for (int64_t i = 0; i < a.numel(); ++i) {
    const float v = random.uniform(-size, size);
    if (type.dtype == DType::f64) {
      a.data<double>()[i] = static_cast<double>(v);
    } else {
      a.data<float>()[i] = v;
    }
  }
  return a;
}

RunOptions on_cpu() {
  RunOptions o;
  o.backend = "cpu";
  o.deterministic = true;
  return o;
}

std::vector<Array> results(const Graph& g, const std::vector<Array>& in) {
  Executable step(plan_for(g, on_cpu()), {});
  std::vector<Array> out;
  for (Value v : g.outputs) out.emplace_back(g.type(v).dtype, g.type(v).shape);
  step.run(in, out);
  return out;
}

// A computation on one matrix, or on a matrix and right sides.
struct Row {
  std::string name;
  std::function<std::vector<Value>(Builder&, const std::vector<Value>&)> run;
  int64_t columns = 0;  // of the right sides; 0: there are none
  bool positive = false;
};

std::vector<Row> rows() {
  const auto op = [](Op o, const Attrs& a) {
    return [o, a](Builder& b, const std::vector<Value>& in) { return b.add(o, a, in); };
  };
  return {{"lu_factor", op(Op::lu_factor, LuAttrs{})},
          {"cholesky", op(Op::cholesky, CholeskyAttrs{}), 0, true},
          {"cholesky, upper", op(Op::cholesky, CholeskyAttrs{true}), 0, true},
          {"qr", op(Op::qr, QrAttrs{})},
          {"eigh", op(Op::eigh, EighAttrs{})},
          {"svd", op(Op::svd, SvdAttrs{})},
          {"eig", op(Op::eig, NoAttrs{})},
          {"solve", op(Op::solve, NoAttrs{}), 1},
          {"solve, many right sides", op(Op::solve, NoAttrs{}), 37},
          {"solve_triangular", op(Op::solve_triangular, TriangularAttrs{.unit_diagonal = true}), 1},
          {"solve_triangular, many right sides",
           op(Op::solve_triangular, TriangularAttrs{.upper = true, .unit_diagonal = true}), 37}};
}

// Numbers that make a matrix positive definite, in the operand's own order.
void make_positive(const Array& x) {
  const int64_t n = x.shape().back();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const bool diagonal = i / n % n == i % n;
    if (diagonal && x.dtype() == DType::f64) x.data<double>()[i] = static_cast<double>(2 * n);
    if (diagonal && x.dtype() == DType::f32) x.data<float>()[i] = static_cast<float>(2 * n);
  }
}

struct Case {
  Graph strided, plain;
  std::vector<Array> strided_inputs, plain_inputs;
};

// Operand `which` lies so, the others are row-major; in `plain` all are, with the same numbers.
Case make_case(const Row& row, DType dtype, const Shape& batch_and_n, size_t which, Lies lies) {
  const int64_t batch = batch_and_n[0], n = batch_and_n[1];
  Case c;
  Builder strided(c.strided), plain(c.plain);
  std::vector<Value> strided_in, plain_in;
  for (size_t i = 0; i < (row.columns > 0 ? 2 : 1); ++i) {
    const Type type{dtype, {batch, n, i == 0 ? n : row.columns}}, lying = i == which ? input_type(type, lies) : type;
    const std::string name = i == 0 ? "a" : "b";
    const Array input = random_numbers(lying, 7 + i);
    const Value from = strided.one(Op::input, LeafAttrs{name, lying}, {});
    strided_in.push_back(i == which ? view_of(strided, from, type, lies) : from);
    plain_in.push_back(plain.one(Op::input, LeafAttrs{name, type}, {}));
    if (row.positive && lies != Lies::inside) make_positive(input);
    c.strided_inputs.push_back(input);
    if (i != which) {
      c.plain_inputs.push_back(input);
      continue;
    }
    Graph view;
    Builder builder(view);
    view.outputs = {view_of(builder, builder.one(Op::input, LeafAttrs{name, lying}, {}), type, lies)};
    c.plain_inputs.push_back(results(view, {input})[0]);
  }
  c.strided.outputs = row.run(strided, strided_in);
  c.plain.outputs = row.run(plain, plain_in);
  return c;
}

void expect_no_copy(const Case& c) {
  const auto strided = plan_for(c.strided, on_cpu()), plain = plan_for(c.plain, on_cpu());
  std::vector<std::string> got, want;
  for (const PlanStep& s : strided->steps()) got.push_back(s.kernel->name());
  for (const PlanStep& s : plain->steps()) want.push_back(s.kernel->name());
  EXPECT_EQ(got, want);
}

void expect_equal_bits(const Case& c) {
  const std::vector<Array> got = results(c.strided, c.strided_inputs), want = results(c.plain, c.plain_inputs);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(std::memcmp(got[i].raw(), want[i].raw(), want[i].bytes()), 0) << "result " << i;
}

void expect_near(const Case& c) {
  const Array got = results(c.strided, c.strided_inputs)[0], want = results(c.plain, c.plain_inputs)[0];
  const std::vector<double> x = got.to_vector<double>(), y = want.to_vector<double>();
  const double rounding = got.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(x[i], y[i], 16 * rounding) << i;
}

TEST(LinalgStrided, OperandsAreReadAsTheyLieWithoutACopy) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const Shape& extents : {Shape{1, 1}, Shape{1, 5}, Shape{3, 21}, Shape{41, 6}, Shape{1, 70}, Shape{2, 200}}) {
      for (const Row& row : rows()) {
        for (const Lies lies : kLies) {
          for (size_t which = 0; which < (row.columns > 0 ? 2 : 1); ++which) {
            if (row.positive && lies == Lies::inside) continue;
            SCOPED_TRACE(
                cat(row.name, " ", dtype, " ", extents, ", operand ", which, ", lies ", static_cast<int>(lies)));
            const Case c = make_case(row, dtype, extents, which, lies);
            const bool triangle = which == 0 && row.name.starts_with("solve_triangular");
            if (triangle && lies == Lies::transposed) {
              expect_near(c);
            } else {
              expect_equal_bits(c);
            }
            // Many small triangles are read where they have no gaps.
            const bool gaps = lies != Lies::transposed && extents[0] > 1;
            if (!(triangle && gaps && row.columns == 1)) expect_no_copy(c);
          }
        }
      }
    }
  }
}

// One step whose memory is that of its result: neither the plan nor the step holds the matrix a second time.
TEST(LinalgStrided, ATransposedMatrixIsFactorizedInTheMemoryOfItsFactors) {
  constexpr int64_t kN = 1700;  // beyond what Cholesky packs at once
  const Row all[] = {rows()[0], rows()[1], rows()[2]};
  for (const Row& row : all) {
    SCOPED_TRACE(row.name);
    const Case c = make_case(row, DType::f32, {1, kN}, 0, Lies::transposed);
    expect_no_copy(c);
    EXPECT_EQ(plan_for(c.strided, on_cpu())->arena_bytes(), plan_for(c.plain, on_cpu())->arena_bytes());
    expect_equal_bits(c);
  }
}

}  // namespace
}  // namespace freight
