// See linalg_kernels.h.
#include "freight/backend/gpu/linalg_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "freight/backend/gpu/faults.h"
#include "freight/backend/gpu/kernel_text.h"

namespace freight::gpu {

namespace {

// The elements for which a kernel has room: few numbers, so that matrices of many sizes share a program.
int64_t capacity(DType dtype, int64_t elements) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  for (const int64_t some : {int64_t{256}, int64_t{1024}, kLocalBytes / size}) {
    if (elements <= some) return some;
  }
  return kMostLocalBytes / size;
}

// The work-items of a group, seen as rows of `width` beside each other. Where they walk down global memory, each loads
// `at_once` numbers before it stores the first, since a compiler must think that a store changes what is loaded next:
// one after the other, loads wait for each other (LU of 4096 x 4096 on an H100: 306 ms).
struct Team {
  int64_t lanes = 256, width = 32, at_once = 1;
};
constexpr Team kPanelTeam{256, 32, 8};
Team team_for(int64_t elements) {
  if (elements <= 256) return {32, 8};
  return elements <= 1024 ? Team{64, 16} : Team{128, 32};
}

// The largest number that an address is made of.
int64_t reach(const MatrixBatch& m) {
  return m.count * m.apart + m.rows * std::abs(m.row) + m.columns * std::abs(m.column) + kPanelTeam.lanes;
}

using Place = std::function<std::string(const std::string& i, const std::string& j)>;

// The batch as an operand of a kernel that has declared `matrix`; element (i, j) of that matrix.
Place place_in(KernelText& text, const MatrixBatch& m, bool written) {
  const std::string p = text.operand(m.operand, m.dtype, written, m.offset).pointer, apart = text.number(m.apart),
                    row = text.number(m.row), column = text.number(m.column);
  text.line(p, " += matrix * ", apart, ";");
  return [p, row, column](const std::string& i, const std::string& j) {
    return cat(p, "[(", i, ") * ", row, " + (", j, ") * ", column, "]");
  };
}
// The matrix in local memory, row by row.
Place place_in_tile(const std::string& columns) {
  return [columns](const std::string& i, const std::string& j) {
    return cat("tile[(", i, ") * ", columns, " + ", j, "]");
  };
}

// Begins a kernel of one group per matrix.
void begin_matrix(KernelText& text) { text.line("const int lane = LANE; const idx_t matrix = GROUP;"); }

// Opens a loop over rows i and columns j of a part, which lanes walk side by side.
void for_each_element(KernelText& text, const Team& team, const std::string& rows, const std::string& columns,
                      const std::string& first = "0") {
  text.line("for (idx_t i = ", first, " + lane / ", team.width, "; i < ", rows, "; i += ", team.lanes / team.width,
            ")");
  text.line("for (idx_t j = ", first, " + lane % ", team.width, "; j < ", columns, "; j += ", team.width, ")");
}
// Opens a loop over rows from `first` on.
void for_each_row(KernelText& text, const Team& team, const std::string& first, const std::string& rows) {
  text.line("for (idx_t i = ", first, " + lane; i < ", rows, "; i += ", team.lanes, ")");
}

// x(i, column) = value(i) in rows from `first` on, `step` apart.
void update_rows(KernelText& text, const Team& team, const std::string& real, const Place& x, const std::string& column,
                 const std::function<std::string(const std::string& i)>& value, const std::string& first, int64_t step,
                 const std::string& rows) {
  text.line("idx_t i = ", first, ";");
  if (team.at_once > 1) {
    text.line("for (; i + ", (team.at_once - 1) * step, " < ", rows, "; i += ", team.at_once * step, ") {");
    const auto place = [&](int64_t q) { return cat("i + ", q * step); };
    for (int64_t q = 0; q < team.at_once; ++q) text.line("const ", real, " v", q, " = ", value(place(q)), ";");
    for (int64_t q = 0; q < team.at_once; ++q) text.line(x(place(q), column), " = v", q, ";");
    text.line("}");
  }
  text.line("for (; i < ", rows, "; i += ", step, ") ", x("i", column), " = ", value("i"), ";");
}

// Every lane gets in `to` what COMBINE makes of all `own`, in the order of a tree; `part` is local memory of a number
// for each lane. Loops may repeat it, other than the dialect's SHARE.
void combine(KernelText& text, const Team& team, const std::string& own, const char* COMBINE, const std::string& to) {
  text.line("part[lane] = ", own, "; BARRIER;");
  text.line("for (int apart = ", team.lanes / 2, "; apart > 0; apart /= 2) {");
  text.line("if (lane < apart) part[lane] = ", COMBINE, "(part[lane], part[lane + apart]);");
  text.line("BARRIER; }");
  text.line(to, " = part[0]; BARRIER;");
}

// Elimination with exchanged rows over x (m, n), of which `order` hears.
void lu_lines(KernelText& text, const Team& team, const std::string& real, const Place& x, const MatrixBatch& panel,
              const RowOrder& order) {
  const std::string m = text.number(panel.rows), n = text.number(panel.columns),
                    steps = text.number(std::min(panel.rows, panel.columns)), first = text.number(order.first);
  const std::string pivots = text.operand(order.pivots, DType::i32, true).pointer,
                    permutation = text.operand(order.permutation, DType::i32, true).pointer;
  text.line(pivots, " += matrix * ", text.number(order.matrix_pivots), " + ", first, ";");
  text.line(permutation, " += matrix * ", text.number(order.matrix_rows), ";");
  if (order.first == 0) {
    const std::string all = text.number(order.matrix_rows);
    for_each_row(text, team, "0", all);
    text.line(permutation, "[i] = i;");
  }
  text.line("BARRIER_ALL;");
  text.line("for (idx_t c = 0; c < ", steps, "; ++c) {");
  // The first of the largest numbers. NaN counts as infinite, so that no zero hides it.
  text.line(real, " most = -1; idx_t row = c;");
  for_each_row(text, team, "c", m);
  text.line("{ ", real, " v = fabs(", x("i", "c"), "); if (v != v) v = as_real(0x7f800000u);");
  text.line("if (v > most) { most = v; row = i; } }");
  text.line("part[lane] = most; rows[lane] = row; BARRIER;");
  text.line("for (int apart = ", team.lanes / 2, "; apart > 0; apart /= 2) {");
  text.line("if (lane < apart) { const ", real, " v = part[lane + apart];");
  text.line("if (v > part[lane] || (v == part[lane] && rows[lane + apart] < rows[lane])) {");
  text.line("part[lane] = v; rows[lane] = rows[lane + apart]; } }");
  text.line("BARRIER; }");
  text.line("const idx_t pivot = rows[0];");
  text.line("if (lane == 0) { ", pivots, "[c] = ", first, " + pivot;");
  text.line("const int other = ", permutation, "[", first, " + pivot]; ", permutation, "[", first,
            " + pivot] = ", permutation, "[", first, " + c]; ", permutation, "[", first, " + c] = other; }");
  text.line("if (pivot != c) for (idx_t j = lane; j < ", n, "; j += ", team.lanes, ") {");
  text.line("const ", real, " v = ", x("c", "j"), "; ", x("c", "j"), " = ", x("pivot", "j"), "; ", x("pivot", "j"),
            " = v; }");
  text.line("BARRIER_ALL;");
  text.line("const ", real, " d = ", x("c", "c"), ";");
  text.line("if (d != 0) {");
  const auto divided = [&](const std::string& i) { return x(i, "c") + " / d"; };
  update_rows(text, team, real, x, "c", divided, "c + 1 + lane", team.lanes, m);
  text.line("}");
  text.line("BARRIER_ALL;");
  text.line("for (idx_t j = c + 1 + lane % ", team.width, "; j < ", n, "; j += ", team.width, ") {");
  text.line("const ", real, " u = ", x("c", "j"), ";");
  const auto reduced = [&](const std::string& i) { return cat(x(i, "j"), " - ", x(i, "c"), " * u"); };
  update_rows(text, team, real, x, "j", reduced, cat("c + 1 + lane / ", team.width), team.lanes / team.width, m);
  text.line("} BARRIER_ALL; }");
}

// y <- (I - tau v v^T) y for columns from `first` on; v is 1 in row c and v(i) below it.
void reflect_lines(KernelText& text, const Team& team, const std::string& real,
                   const std::function<std::string(const std::string& i)>& v, const std::string& tau, const Place& y,
                   const std::string& first, const std::string& rows, const std::string& columns) {
  const int64_t step = team.lanes / team.width;
  text.line("for (idx_t from = ", first, "; from < ", columns, "; from += ", team.width, ") {");
  text.line("const idx_t j = from + lane % ", team.width, "; const int team = lane / ", team.width, ";");
  text.line(real, " some = 0;");
  text.line("if (j < ", columns, ") { if (team == 0) some = ", y("c", "j"), ";");
  text.line("for (idx_t i = c + 1 + team; i < ", rows, "; i += ", step, ") some += ", v("i"), " * ", y("i", "j"),
            "; }");
  text.line("part[lane] = some; BARRIER;");
  text.line(real, " sum = 0;");
  text.line("for (int q = lane % ", team.width, "; q < ", team.lanes, "; q += ", team.width, ") sum += part[q];");
  text.line("sum = ", tau, " != 0 ? ", tau, " * sum : 0;");  // without a reflection infinities stay what they are
  text.line("if (j < ", columns, ") { if (team == 0) ", y("c", "j"), " -= sum;");
  const auto reflected = [&](const std::string& i) { return cat(y(i, "j"), " - ", v(i), " * sum"); };
  update_rows(text, team, real, y, "j", reflected, "c + 1 + team", step, rows);
  text.line("} BARRIER_ALL; }");
}

// Reflects x (m, n) to an upper triangle, by LAPACK's rules (dlarfg). The reflectors stay below it, their factors go to
// the local array `tau`.
void qr_lines(KernelText& text, const Team& team, DType dtype, const Place& x, const std::string& m,
              const std::string& n, const std::string& steps) {
  const std::string real = value_type(dtype);
  // Squares of numbers within these bounds neither overflow nor vanish.
  const auto [small, large] = dtype == DType::f64 ? std::pair("0x1p-400", "0x1p400") : std::pair("0x1p-50f", "0x1p50f");
  text.line("for (idx_t c = 0; c < ", steps, "; ++c) {");
  text.line(real, " own = 0, below, squares;");
  for_each_row(text, team, "c + 1", m);
  text.line("{ const ", real, " v = fabs(", x("i", "c"), "); own = MAX_OF(own, v); }");
  combine(text, team, "own", "MAX_OF", "below");
  text.line("const ", real, " alpha = ", x("c", "c"), ", size = fabs(alpha), most = MAX_OF(below, size);");
  text.line("const ", real, " scale = most > ", large, " || (most > 0 && most < ", small, ") ? most : 1;");
  text.line("own = 0;");
  for_each_row(text, team, "c + 1", m);
  text.line("{ const ", real, " v = ", x("i", "c"), " / scale; own += v * v; }");
  combine(text, team, "own", "SUM_OF", "squares");
  text.line("const ", real, " a = alpha / scale, beta = -copysign(sqrt(a * a + squares), a);");
  text.line("const ", real, " factor = below != 0 ? (beta - a) / beta : 0;");
  text.line("if (below != 0) {");
  const auto scaled = [&](const std::string& i) { return x(i, "c") + " / scale / (a - beta)"; };
  update_rows(text, team, real, x, "c", scaled, "c + 1 + lane", team.lanes, m);
  text.line("if (lane == 0) ", x("c", "c"), " = beta * scale; }");
  text.line("if (lane == 0) tau[c] = factor;");
  text.line("BARRIER_ALL;");
  const auto v = [&](const std::string& i) { return x(i, "c"); };
  reflect_lines(text, team, real, v, "factor", x, "c + 1", m, n);
  text.line("}");
}

}  // namespace

MatrixBatch MatrixBatch::transposed() const {
  MatrixBatch t = *this;
  std::swap(t.rows, t.columns);
  std::swap(t.row, t.column);
  return t;
}

MatrixBatch MatrixBatch::block(int64_t i, int64_t j, int64_t block_rows, int64_t block_columns) const {
  MatrixBatch b = *this;
  b.rows = block_rows;
  b.columns = block_columns;
  b.offset += static_cast<size_t>(i * row + j * column) * size_of(dtype);
  return b;
}

MatrixBatch MatrixBatch::reversed() const {
  MatrixBatch r = block(rows - 1, columns - 1, rows, columns);
  r.row = -row;
  r.column = -column;
  return r;
}

MatrixBatch dense_batch(int operand, DType dtype, int64_t count, int64_t rows, int64_t columns, size_t offset) {
  return {operand, dtype, count, rows, columns, columns, 1, rows * columns, offset};
}

bool fits_local(DType dtype, int64_t rows, int64_t columns, int64_t bytes) {
  return rows * columns * static_cast<int64_t>(size_of(dtype)) <= bytes;
}

Launch copy_part(const MatrixBatch& from, const MatrixBatch& to, Triangle part) {
  KernelText text;
  text.begin_elements(to.count * to.rows * to.columns);
  text.line(text.split("e", to.columns, "r", "j"), text.split("r", to.rows, "matrix", "i"));
  const Place source = place_in(text, from, false), target = place_in(text, to, true);
  const std::string value = source("i", "j");
  const std::string taken = part == Triangle::all ? "1" : part == Triangle::lower ? "j <= i" : "j >= i";
  text.line(value_type(to.dtype), " v = 0; if (", taken, ") v = ", value, ";");
  text.line(target("i", "j"), " = v;");
  return text.finish_elements("copy_part", std::max(reach(from), reach(to)));
}

Launch set_identity(const MatrixBatch& to) {
  KernelText text;
  text.begin_elements(to.count * to.rows * to.columns);
  text.line(text.split("e", to.columns, "r", "j"), text.split("r", to.rows, "matrix", "i"));
  const Place target = place_in(text, to, true);
  text.line(target("i", "j"), " = i == j;");
  return text.finish_elements("identity", reach(to));
}

Launch lu_panel(const MatrixBatch& from, const MatrixBatch& panel, const RowOrder& order, int64_t local_bytes) {
  const int64_t elements = panel.rows * panel.columns;
  const bool local = fits_local(panel.dtype, panel.rows, panel.columns, local_bytes);
  const Team team = local ? team_for(elements) : kPanelTeam;
  const std::string real = value_type(panel.dtype);
  KernelText text;
  begin_matrix(text);
  text.line("LOCAL ", real, " part[", team.lanes, "]; LOCAL idx_t rows[", team.lanes, "];");
  const Place target = place_in(text, panel, true);
  if (!local) {
    lu_lines(text, team, real, target, panel, order);
    return text.finish("lu_panel", reach(panel), panel.count, team.lanes);
  }
  text.line("LOCAL ", real, " tile[", capacity(panel.dtype, elements), "];");
  const Place source = place_in(text, from, false);
  const std::string m = text.number(panel.rows), n = text.number(panel.columns);
  const Place tile = place_in_tile(n);
  for_each_element(text, team, m, n);
  text.line(tile("i", "j"), " = ", source("i", "j"), ";");
  lu_lines(text, team, real, tile, panel, order);
  for_each_element(text, team, m, n);
  text.line(target("i", "j"), " = ", tile("i", "j"), ";");
  return text.finish("lu_panel", std::max(reach(from), reach(panel)), panel.count, team.lanes);
}

Launch lu_exchange(const MatrixBatch& matrix, const RowOrder& order, int64_t pivots) {
  KernelText text;
  const int64_t others = matrix.columns - pivots;
  text.begin_elements(matrix.count * others);
  text.line(text.split("e", others, "matrix", "q"));
  const Place x = place_in(text, matrix, true);
  const std::string rows = text.operand(order.pivots, DType::i32, false).pointer, first = text.number(order.first),
                    count = text.number(pivots);
  text.line("const idx_t j = q < ", first, " ? q : q + ", count, ";");
  text.line(rows, " += matrix * ", text.number(order.matrix_pivots), " + ", first, ";");
  text.line("for (idx_t c = 0; c < ", count, "; ++c) {");
  text.line("const idx_t i = ", first, " + c, pivot = ", rows, "[c];");
  text.line("if (pivot != i) { const ", value_type(matrix.dtype), " v = ", x("i", "j"), "; ", x("i", "j"), " = ",
            x("pivot", "j"), "; ", x("pivot", "j"), " = v; } }");
  return text.finish_elements("lu_exchange", reach(matrix));
}

Launch cholesky_block(const MatrixBatch& from, const MatrixBatch& to) {
  const int64_t elements = to.rows * to.rows;
  const Team team = team_for(elements);
  const std::string real = value_type(to.dtype);
  KernelText text;
  begin_matrix(text);
  text.line("LOCAL ", real, " tile[", capacity(to.dtype, elements), "];");
  const Place source = place_in(text, from, false), target = place_in(text, to, true);
  const std::string n = text.number(to.rows);
  const Place x = place_in_tile(n);
  for_each_element(text, team, n, "i + 1");
  text.line(x("i", "j"), " = ", source("i", "j"), ";");
  text.line("BARRIER;");
  text.line("for (idx_t c = 0; c < ", n, "; ++c) {");
  text.line("const ", real, " d = ", x("c", "c"), ", root = d > 0 ? sqrt(d) : (", real, ")as_real(0x7fc00000u);");
  text.line("BARRIER;");
  for_each_row(text, team, "c", n);
  text.line(x("i", "c"), " = i == c ? root : ", x("i", "c"), " / root;");
  text.line("BARRIER;");
  for_each_element(text, team, n, "i + 1", "c + 1");
  text.line(x("i", "j"), " -= ", x("i", "c"), " * ", x("j", "c"), ";");
  text.line("BARRIER; }");
  for_each_element(text, team, n, n);
  text.line("{ ", real, " v = 0; if (j <= i) v = ", x("i", "j"), "; ", target("i", "j"), " = v; }");
  return text.finish("cholesky", std::max(reach(from), reach(to)), to.count, team.lanes);
}

Launch solve_block(const MatrixBatch& t, const MatrixBatch& x, Diagonal diagonal) {
  constexpr int64_t kLanes = 64;
  const int64_t width = x.columns == 1 ? 1 : x.columns <= 4 ? 4 : 16;  // columns of a group
  const int64_t groups = ceil_div(x.columns, width);
  const std::string real = value_type(x.dtype);
  KernelText text;
  text.line("const int lane = LANE; const idx_t group = GROUP;");
  text.line("LOCAL ", real, " lower[", kFactorBlock * kFactorBlock, "], own[", kFactorBlock * width, "];");
  text.line(text.split("group", groups, "matrix", "some"));
  const Place triangle = place_in(text, t, false), result = place_in(text, x, true);
  const std::string n = text.number(t.rows), columns = text.number(x.columns);
  text.line("for (idx_t e = lane; e < ", n, " * ", kFactorBlock, "; e += ", kLanes, ") {");
  text.line("const idx_t i = e / ", kFactorBlock, ", j = e % ", kFactorBlock, ";");
  text.line("if (j <", diagonal == Diagonal::unit ? "" : "=", " i) lower[e] = ", triangle("i", "j"), "; }");
  const std::string each = cat("for (idx_t e = lane; e < ", n, " * ", width, "; e += ", kLanes,
                               ") { const idx_t i = e / ", width, ", j = some * ", width, " + e % ", width, ";");
  text.line(each, " ", real, " v = 0; if (j < ", columns, ") v = ", result("i", "j"), "; own[e] = v; }");
  text.line("BARRIER;");
  text.line("for (idx_t c = 0; c < ", n, "; ++c) {");
  if (diagonal == Diagonal::given) {
    text.line("if (lane < ", width, ") own[c * ", width, " + lane] /= lower[c * ", kFactorBlock, " + c];");
    text.line("BARRIER;");
  }
  text.line("for (idx_t e = (c + 1) * ", width, " + lane; e < ", n, " * ", width, "; e += ", kLanes, ")");
  text.line("own[e] -= lower[e / ", width, " * ", kFactorBlock, " + c] * own[c * ", width, " + e % ", width, "];");
  text.line("BARRIER; }");
  text.line(each, " if (j < ", columns, ") ", result("i", "j"), " = own[e]; }");
  return text.finish("solve_block", std::max(reach(t), reach(x)), x.count * groups, kLanes);
}

Launch report_diagonal(const MatrixBatch& matrix, Bad bad, int64_t check) {
  constexpr int64_t kLanes = 256;
  const int64_t places = std::min(matrix.rows, matrix.columns), all = matrix.count * places;
  KernelText text;
  const Elements x = text.operand(matrix.operand, matrix.dtype, false, matrix.offset),
                 words = text.operand(kFaults, DType::i64, true);
  const std::string end = text.number(all), apart = text.number(matrix.apart),
                    step = text.number(matrix.row + matrix.column);
  text.line("const int lane = LANE;");
  text.line("LOCAL idx_t part[", kLanes, "];");
  text.line("idx_t first = ", end, ";");
  text.line("for (idx_t e = lane; e < first; e += ", kLanes, ") {");
  text.line(text.split("e", places, "matrix", "k"));
  text.line("const ", value_type(x.dtype), " v = ", x.load(cat("matrix * ", apart, " + k * ", step)), ";");
  text.line("if (", bad == Bad::zero ? "v == 0" : "!(v > 0)", ") first = e; }");
  combine(text, {kLanes, kLanes}, "first", "MIN_OF", "first");
  // An earlier fault is the cause, and stays.
  text.line("if (lane == 0 && first < ", end, " && ", words.load("0"), " == 0) {");
  text.line(words.store("0", text.number(check)), " ", words.store("1", "first"), " }");
  return text.finish("report_diagonal", std::max(reach(matrix), all + kLanes), 1, kLanes);
}

Launch qr_small(const MatrixBatch& x, const MatrixBatch& q, const MatrixBatch& r) {
  const int64_t elements = x.rows * x.columns;
  const Team team = team_for(elements);
  const std::string real = value_type(x.dtype);
  KernelText text;
  begin_matrix(text);
  text.line("LOCAL ", real, " part[", team.lanes, "], tile[", capacity(x.dtype, elements), "], tau[",
            elements <= 1024 ? 32 : 96, "];");  // sides of the largest squares that fit
  const Place source = place_in(text, x, false), of_q = place_in(text, q, true), of_r = place_in(text, r, true);
  const std::string m = text.number(x.rows), n = text.number(x.columns),
                    steps = text.number(std::min(x.rows, x.columns)), q_columns = text.number(q.columns),
                    r_rows = text.number(r.rows);
  const Place tile = place_in_tile(n);
  for_each_element(text, team, m, n);
  text.line(tile("i", "j"), " = ", source("i", "j"), ";");
  text.line("BARRIER;");
  qr_lines(text, team, x.dtype, tile, m, n, steps);
  for_each_element(text, team, r_rows, n);
  text.line("{ ", real, " v = 0; if (j >= i) v = ", tile("i", "j"), "; ", of_r("i", "j"), " = v; }");
  for_each_element(text, team, m, q_columns);
  text.line(of_q("i", "j"), " = i == j;");
  text.line("BARRIER_ALL;");
  text.line("for (idx_t c = ", steps, " - 1; c >= 0; --c) {");
  const auto v = [&](const std::string& i) { return tile(i, "c"); };
  reflect_lines(text, team, real, v, "tau[c]", of_q, "c", m, q_columns);
  text.line("}");
  return text.finish("qr", std::max({reach(x), reach(q), reach(r)}), x.count, team.lanes);
}

Launch qr_panel(const MatrixBatch& panel, const MatrixBatch& v, const MatrixBatch& tau) {
  const Team team = kPanelTeam;
  KernelText text;
  begin_matrix(text);
  text.line("LOCAL ", value_type(panel.dtype), " part[", team.lanes, "], tau[", kFactorBlock, "];");
  const Place x = place_in(text, panel, true), of_v = place_in(text, v, true), of_tau = place_in(text, tau, true);
  const std::string m = text.number(panel.rows), n = text.number(panel.columns);
  qr_lines(text, team, panel.dtype, x, m, n, text.number(std::min(panel.rows, panel.columns)));
  for_each_element(text, team, m, n);
  text.line("{ ", value_type(panel.dtype), " one = i == j; if (j < i) one = ", x("i", "j"), "; ", of_v("i", "j"),
            " = one; }");
  text.line("if (lane < ", n, ") ", of_tau("0", "lane"), " = tau[lane];");
  return text.finish("qr_panel", std::max(reach(panel), reach(v)), panel.count, team.lanes);
}

// LAPACK's dlarft: column c of t is -tau_c t (v^T v)_c above the diagonal, and tau_c on it.
Launch qr_triangle(const MatrixBatch& gram, const MatrixBatch& tau, const MatrixBatch& t) {
  const std::string real = value_type(t.dtype);
  KernelText text;
  begin_matrix(text);
  text.line("LOCAL ", real, " own[", kFactorBlock * kFactorBlock, "];");
  const Place of_gram = place_in(text, gram, false), of_tau = place_in(text, tau, false),
              result = place_in(text, t, true);
  const std::string n = text.number(t.rows);
  text.line("for (idx_t c = 0; c < ", n, "; ++c) {");
  text.line(real, " sum = 0; const ", real, " factor = ", of_tau("0", "c"), ";");
  text.line("for (idx_t q = lane; q < c; ++q) sum += own[lane * ", kFactorBlock, " + q] * ", of_gram("q", "c"), ";");
  text.line("own[lane * ", kFactorBlock, " + c] = lane < c ? -factor * sum : lane == c ? factor : 0;");
  text.line("BARRIER; }");
  text.line("if (lane < ", n, ") for (idx_t j = 0; j < ", n, "; ++j) ", result("lane", "j"), " = own[lane * ",
            kFactorBlock, " + j];");
  return text.finish("qr_triangle", std::max(reach(gram), reach(t)), t.count, kFactorBlock);
}

}  // namespace freight::gpu
