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

using Place = Word::OfTwo;  // element (i, j) of a matrix
using Row = Word::OfOne;    // what a kernel computes for row i

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

// `height`: the rows of a team.
Words words_of(const Team& team, DType dtype) {
  return {{"real", value_type(dtype)},         {"lanes", team.lanes},    {"width", team.width},
          {"height", team.lanes / team.width}, {"half", team.lanes / 2}, {"block", kFactorBlock}};
}
Words operator+(Words words, const Words& more) {
  for (const auto& [name, word] : more) words.insert_or_assign(name, word);
  return words;
}

// An update of a column by all lanes: x(i, column) = value(i) in rows from `first` on, `step` apart.
struct ColumnUpdate {
  Place x;
  const char* column;
  Row value;
  const char* first;
  int64_t step;
  std::string rows;
};
std::string update_rows(const Team& team, const Words& words, const ColumnUpdate& update) {
  std::string loads, stores;
  for (int64_t q = 0; q < team.at_once; ++q) {
    const std::string place = cat("i + ", q * update.step);
    loads += filled(cat("const $real v", q, " = "), words) + update.value(place) + ";\n";
    stores += cat(update.x(place, update.column), " = v", q, ";\n");
  }
  const Words all = words + Words{{"first", filled(update.first, words)},
                                  {"step", update.step},
                                  {"reach", (team.at_once - 1) * update.step},
                                  {"stride", team.at_once * update.step},
                                  {"rows", update.rows},
                                  {"loads", statement(loads)},
                                  {"stores", statement(stores)},
                                  {"target", update.x("i", update.column)},
                                  {"value", update.value("i")}};
  std::string text = filled("idx_t i = $first;\n", all);
  if (team.at_once > 1) {
    text += filled(R"cpp(
                     for (; i + $reach < $rows; i += $stride) {
                       $loads;
                       $stores;
                     }
                   )cpp",
                   all);
  }
  text += filled("for (; i < $rows; i += $step) $target = $value;", all);
  return statement(text);
}

// Every lane gets in `to` what COMBINE makes of all `own`, in the order of a tree; `part` is local memory of a number
// for each lane. Loops may repeat it, other than the dialect's SHARE.
std::string combined(const Words& words, const char* own, const char* COMBINE, const char* to) {
  return statement(filled(R"cpp(
                            part[lane] = $own;
                            BARRIER;
                            for (int apart = $half; apart > 0; apart /= 2) {
                              if (lane < apart) part[lane] = $COMBINE(part[lane], part[lane + apart]);
                              BARRIER;
                            }
                            $to = part[0];
                            BARRIER;
                          )cpp",
                          words + Words{{"own", own}, {"COMBINE", COMBINE}, {"to", to}}));
}

// Elimination with exchanged rows over x (m, n), of which `order` hears. The pivot is the first of the largest numbers
// of a column; NaN counts as infinite, so that no zero hides it.
void lu_lines(KernelText& text, const Team& team, const Place& x, const MatrixBatch& panel, const RowOrder& order) {
  const std::string m = text.number(panel.rows), n = text.number(panel.columns),
                    steps = text.number(std::min(panel.rows, panel.columns)), first = text.number(order.first);
  const std::string pivots = text.operand(order.pivots, DType::i32, true).pointer,
                    permutation = text.operand(order.permutation, DType::i32, true).pointer,
                    matrix_pivots = text.number(order.matrix_pivots), matrix_rows = text.number(order.matrix_rows);
  Words words = words_of(team, panel.dtype) + Words{{"x", x},
                                                    {"m", m},
                                                    {"n", n},
                                                    {"steps", steps},
                                                    {"first", first},
                                                    {"pivots", pivots},
                                                    {"permutation", permutation},
                                                    {"matrix_pivots", matrix_pivots},
                                                    {"matrix_rows", matrix_rows}};
  const Row divided = [&](const std::string&i) { return x(i, "c") + " / d"; },
            reduced = [&](const std::string&i) { return cat(x(i, "j"), " - ", x(i, "c"), " * u"); };
  words.insert({{"divide_column", update_rows(team, words, {x, "c", divided, "c + 1 + lane", team.lanes, m})},
                {"reduce_column",
                 update_rows(team, words, {x, "j", reduced, "c + 1 + lane / $width", team.lanes / team.width, m})}});
  text.lines(words, R"cpp(
    $pivots += matrix * $matrix_pivots + $first;
    $permutation += matrix * $matrix_rows;
  )cpp");
  if (order.first == 0) {
    text.lines(words + Words{{"all", text.number(order.matrix_rows)}}, R"cpp(
      for (idx_t i = 0 + lane; i < $all; i += $lanes)
        $permutation[i] = i;
    )cpp");
  }
  text.lines(words, R"cpp(
    BARRIER_ALL;
    for (idx_t c = 0; c < $steps; ++c) {
      $real most = -1;
      idx_t row = c;
      for (idx_t i = c + lane; i < $m; i += $lanes) {
        $real v = fabs($x(i, c));
        if (v != v) v = as_real(0x7f800000u);
        if (v > most) {
          most = v;
          row = i;
        }
      }
      part[lane] = most;
      rows[lane] = row;
      BARRIER;
      for (int apart = $half; apart > 0; apart /= 2) {
        if (lane < apart) {
          const $real v = part[lane + apart];
          if (v > part[lane] || (v == part[lane] && rows[lane + apart] < rows[lane])) {
            part[lane] = v;
            rows[lane] = rows[lane + apart];
          }
        }
        BARRIER;
      }
      const idx_t pivot = rows[0];
      if (lane == 0) {
        $pivots[c] = $first + pivot;
        const int other = $permutation[$first + pivot];
        $permutation[$first + pivot] = $permutation[$first + c];
        $permutation[$first + c] = other;
      }
      if (pivot != c)
        for (idx_t j = lane; j < $n; j += $lanes) {
          const $real v = $x(c, j);
          $x(c, j) = $x(pivot, j);
          $x(pivot, j) = v;
        }
      BARRIER_ALL;
      const $real d = $x(c, c);
      if (d != 0) {
        $divide_column;
      }
      BARRIER_ALL;
      for (idx_t j = c + 1 + lane % $width; j < $n; j += $width) {
        const $real u = $x(c, j);
        $reduce_column;
      }
      BARRIER_ALL;
    }
  )cpp");
}

// y <- (I - tau v v^T) y for columns from `first` on; v is 1 in row c and v(i) below it. Without a reflection (tau = 0)
// infinities stay what they are.
struct Reflection {
  Row v;
  const char* tau;
  Place y;
  const char* first;
  std::string rows, columns;
};
std::string reflected(const Team& team, const Words& words, const Reflection& r) {
  const Row row = [&](const std::string& i) { return cat(r.y(i, "j"), " - ", r.v(i), " * sum"); };
  const std::string update = update_rows(team, words, {r.y, "j", row, "c + 1 + team", team.lanes / team.width, r.rows});
  return statement(filled(R"cpp(
                            for (idx_t from = $first; from < $columns; from += $width) {
                              const idx_t j = from + lane % $width;
                              const int team = lane / $width;
                              $real some = 0;
                              if (j < $columns) {
                                if (team == 0) some = $y(c, j);
                                for (idx_t i = c + 1 + team; i < $rows; i += $height) some += $v(i) * $y(i, j);
                              }
                              part[lane] = some;
                              BARRIER;
                              $real sum = 0;
                              for (int q = lane % $width; q < $lanes; q += $width) sum += part[q];
                              sum = $tau != 0 ? $tau * sum : 0;
                              if (j < $columns) {
                                if (team == 0) $y(c, j) -= sum;
                                $update_rows;
                              }
                              BARRIER_ALL;
                            }
                          )cpp",
                          words + Words{{"v", r.v},
                                        {"tau", r.tau},
                                        {"y", r.y},
                                        {"first", r.first},
                                        {"rows", r.rows},
                                        {"columns", r.columns},
                                        {"update_rows", update}}));
}

// Reflects x (m, n) to an upper triangle, by LAPACK's rules (dlarfg). The reflectors stay below it, their factors go to
// the local array `tau`.
void qr_lines(KernelText& text, const Team& team, DType dtype, const Place& x, const std::string& m,
              const std::string& n, const std::string& steps) {
  // Squares of numbers within these bounds neither overflow nor vanish.
  const auto [small, large] = dtype == DType::f64 ? std::pair("0x1p-400", "0x1p400") : std::pair("0x1p-50f", "0x1p50f");
  Words words =
      words_of(team, dtype) + Words{{"x", x}, {"m", m}, {"n", n}, {"steps", steps}, {"small", small}, {"large", large}};
  const Row v = [&](const std::string&i) { return x(i, "c"); },
            scaled = [&](const std::string&i) { return x(i, "c") + " / scale / (a - beta)"; };
  words.insert({{"combine_largest", combined(words, "own", "MAX_OF", "below")},
                {"combine_squares", combined(words, "own", "SUM_OF", "squares")},
                {"scale_column", update_rows(team, words, {x, "c", scaled, "c + 1 + lane", team.lanes, m})},
                {"reflect", reflected(team, words, {v, "factor", x, "c + 1", m, n})}});
  text.lines(words, R"cpp(
    for (idx_t c = 0; c < $steps; ++c) {
      $real own = 0, below, squares;
      for (idx_t i = c + 1 + lane; i < $m; i += $lanes) {
        const $real v = fabs($x(i, c));
        own = MAX_OF(own, v);
      }
      $combine_largest;
      const $real alpha = $x(c, c), size = fabs(alpha), most = MAX_OF(below, size);
      const $real scale = most > $large || (most > 0 && most < $small) ? most : 1;
      own = 0;
      for (idx_t i = c + 1 + lane; i < $m; i += $lanes) {
        const $real v = $x(i, c) / scale;
        own += v * v;
      }
      $combine_squares;
      const $real a = alpha / scale, beta = -copysign(sqrt(a * a + squares), a);
      const $real factor = below != 0 ? (beta - a) / beta : 0;
      if (below != 0) {
        $scale_column;
        if (lane == 0) $x(c, c) = beta * scale;
      }
      if (lane == 0) tau[c] = factor;
      BARRIER_ALL;
      $reflect;
    }
  )cpp");
}

// Copies a matrix to local memory, or back, or a part of it: to(i, j) = from(i, j).
constexpr const char* kCopy = R"cpp(
  for (idx_t i = 0 + lane / $width; i < $m; i += $height)
    for (idx_t j = 0 + lane % $width; j < $n; j += $width) $to(i, j) = $from(i, j);
)cpp";

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
  const char* taken = part == Triangle::all ? "1" : part == Triangle::lower ? "j <= i" : "j >= i";
  text.lines({{"real", value_type(to.dtype)}, {"taken", taken}, {"source", source}, {"target", target}}, R"cpp(
    $real v = 0;
    if ($taken) v = $source(i, j);
    $target(i, j) = v;
  )cpp");
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
  Words words = words_of(team, panel.dtype);
  KernelText text;
  begin_matrix(text);
  text.lines(words, R"cpp(
    LOCAL $real part[$lanes];
    LOCAL idx_t rows[$lanes];
  )cpp");
  const Place target = place_in(text, panel, true);
  if (!local) {
    lu_lines(text, team, target, panel, order);
    return text.finish("lu_panel", reach(panel), panel.count, team.lanes);
  }
  text.lines(words + Words{{"capacity", capacity(panel.dtype, elements)}}, "  LOCAL $real tile[$capacity];\n");
  const Place source = place_in(text, from, false);
  const std::string m = text.number(panel.rows), n = text.number(panel.columns);
  const Place tile = place_in_tile(n);
  words.insert({{"m", m}, {"n", n}});
  text.lines(words + Words{{"from", source}, {"to", tile}}, kCopy);
  lu_lines(text, team, tile, panel, order);
  text.lines(words + Words{{"from", tile}, {"to", target}}, kCopy);
  return text.finish("lu_panel", std::max(reach(from), reach(panel)), panel.count, team.lanes);
}

Launch lu_exchange(const MatrixBatch& matrix, const RowOrder& order, int64_t pivots) {
  KernelText text;
  const int64_t others = matrix.columns - pivots;
  text.begin_elements(matrix.count * others);
  text.line(text.split("e", others, "matrix", "q"));
  const Place x = place_in(text, matrix, true);
  const std::string rows = text.operand(order.pivots, DType::i32, false).pointer, first = text.number(order.first),
                    count = text.number(pivots), matrix_pivots = text.number(order.matrix_pivots);
  text.lines({{"real", value_type(matrix.dtype)},
              {"x", x},
              {"rows", rows},
              {"first", first},
              {"count", count},
              {"matrix_pivots", matrix_pivots}},
             R"cpp(
               const idx_t j = q < $first ? q : q + $count;
               $rows += matrix * $matrix_pivots + $first;
               for (idx_t c = 0; c < $count; ++c) {
                 const idx_t i = $first + c, pivot = $rows[c];
                 if (pivot != i) {
                   const $real v = $x(i, j);
                   $x(i, j) = $x(pivot, j);
                   $x(pivot, j) = v;
                 }
               }
             )cpp");
  return text.finish_elements("lu_exchange", reach(matrix));
}

Launch cholesky_block(const MatrixBatch& from, const MatrixBatch& to) {
  const int64_t elements = to.rows * to.rows;
  const Team team = team_for(elements);
  Words words = words_of(team, to.dtype) + Words{{"capacity", capacity(to.dtype, elements)}};
  KernelText text;
  begin_matrix(text);
  text.lines(words, "  LOCAL $real tile[$capacity];\n");
  const Place source = place_in(text, from, false), target = place_in(text, to, true);
  const std::string n = text.number(to.rows);
  words.insert({{"n", n}, {"x", place_in_tile(n)}, {"source", source}, {"target", target}});
  text.lines(words, R"cpp(
    for (idx_t i = 0 + lane / $width; i < $n; i += $height)
      for (idx_t j = 0 + lane % $width; j < i + 1; j += $width) $x(i, j) = $source(i, j);
    BARRIER;
    for (idx_t c = 0; c < $n; ++c) {
      const $real d = $x(c, c), root = d > 0 ? sqrt(d) : ($real)as_real(0x7fc00000u);
      BARRIER;
      for (idx_t i = c + lane; i < $n; i += $lanes) $x(i, c) = i == c ? root : $x(i, c) / root;
      BARRIER;
      for (idx_t i = c + 1 + lane / $width; i < $n; i += $height)
        for (idx_t j = c + 1 + lane % $width; j < i + 1; j += $width) $x(i, j) -= $x(i, c) * $x(j, c);
      BARRIER;
    }
    for (idx_t i = 0 + lane / $width; i < $n; i += $height)
      for (idx_t j = 0 + lane % $width; j < $n; j += $width) {
        $real v = 0;
        if (j <= i) v = $x(i, j);
        $target(i, j) = v;
      }
  )cpp");
  return text.finish("cholesky", std::max(reach(from), reach(to)), to.count, team.lanes);
}

Launch solve_block(const MatrixBatch& t, const MatrixBatch& x, Diagonal diagonal) {
  constexpr int64_t kLanes = 64;
  const int64_t width = x.columns == 1 ? 1 : x.columns <= 4 ? 4 : 16;  // columns of a group
  const int64_t groups = ceil_div(x.columns, width);
  Words words = words_of({kLanes, width}, x.dtype) + Words{{"triangle_size", kFactorBlock * kFactorBlock},
                                                           {"own_size", kFactorBlock * width},
                                                           {"below", diagonal == Diagonal::unit ? "<" : "<="}};
  KernelText text;
  text.lines(words, R"cpp(
    const int lane = LANE;
    const idx_t group = GROUP;
    LOCAL $real lower[$triangle_size], own[$own_size];
  )cpp");
  text.line(text.split("group", groups, "matrix", "some"));
  const Place triangle = place_in(text, t, false), result = place_in(text, x, true);
  const std::string n = text.number(t.rows), columns = text.number(x.columns);
  const std::string divided = filled(R"cpp(
                                       if (lane < $width) own[c * $width + lane] /= lower[c * $block + c];
                                       BARRIER;
                                     )cpp",
                                     words);
  words.insert({{"triangle", triangle},
                {"result", result},
                {"n", n},
                {"columns", columns},
                {"divide_row", diagonal == Diagonal::given ? statement(divided) : ""}});
  text.lines(words, R"cpp(
    for (idx_t e = lane; e < $n * $block; e += $lanes) {
      const idx_t i = e / $block, j = e % $block;
      if (j $below i) lower[e] = $triangle(i, j);
    }
    for (idx_t e = lane; e < $n * $width; e += $lanes) {
      const idx_t i = e / $width, j = some * $width + e % $width;
      $real v = 0;
      if (j < $columns) v = $result(i, j);
      own[e] = v;
    }
    BARRIER;
    for (idx_t c = 0; c < $n; ++c) {
      $divide_row;
      for (idx_t e = (c + 1) * $width + lane; e < $n * $width; e += $lanes)
        own[e] -= lower[e / $width * $block + c] * own[c * $width + e % $width];
      BARRIER;
    }
    for (idx_t e = lane; e < $n * $width; e += $lanes) {
      const idx_t i = e / $width, j = some * $width + e % $width;
      if (j < $columns) $result(i, j) = own[e];
    }
  )cpp");
  return text.finish("solve_block", std::max(reach(t), reach(x)), x.count * groups, kLanes);
}

// An earlier fault is the cause, and stays.
Launch report_diagonal(const MatrixBatch& matrix, Bad bad, int64_t check) {
  constexpr int64_t kLanes = 256;
  const int64_t places = std::min(matrix.rows, matrix.columns), all = matrix.count * places;
  KernelText text;
  const Elements x = text.operand(matrix.operand, matrix.dtype, false, matrix.offset),
                 faults = text.operand(kFaults, DType::i64, true);
  const std::string end = text.number(all), apart = text.number(matrix.apart),
                    step = text.number(matrix.row + matrix.column);
  Words words = words_of({kLanes, kLanes}, x.dtype) + Words{{"end", end}, {"apart", apart}, {"step", step}};
  const std::string place = text.split("e", places, "matrix", "k");
  words.insert({{"place", statement(place)},
                {"diagonal", x.load(cat("matrix * ", apart, " + k * ", step))},
                {"bad", bad == Bad::zero ? "v == 0" : "!(v > 0)"},
                {"combine_first", combined(words, "first", "MIN_OF", "first")},
                {"fault", faults.load("0")},
                {"store_check", statement(faults.store("0", text.number(check)))},
                {"store_place", statement(faults.store("1", "first"))}});
  text.lines(words, R"cpp(
    const int lane = LANE;
    LOCAL idx_t part[$lanes];
    idx_t first = $end;
    for (idx_t e = lane; e < first; e += $lanes) {
      $place;
      const $real v = $diagonal;
      if ($bad) first = e;
    }
    $combine_first;
    if (lane == 0 && first < $end && $fault == 0) {
      $store_check;
      $store_place;
    }
  )cpp");
  return text.finish("report_diagonal", std::max(reach(matrix), all + kLanes), 1, kLanes);
}

Launch qr_small(const MatrixBatch& x, const MatrixBatch& q, const MatrixBatch& r) {
  const int64_t elements = x.rows * x.columns;
  const Team team = team_for(elements);
  Words words = words_of(team, x.dtype) + Words{{"capacity", capacity(x.dtype, elements)},
                                                // Sides of the largest squares that fit.
                                                {"sides", elements <= 1024 ? int64_t{32} : int64_t{96}}};
  KernelText text;
  begin_matrix(text);
  text.lines(words, "  LOCAL $real part[$lanes], tile[$capacity], tau[$sides];\n");
  const Place source = place_in(text, x, false), of_q = place_in(text, q, true), of_r = place_in(text, r, true);
  const std::string m = text.number(x.rows), n = text.number(x.columns),
                    steps = text.number(std::min(x.rows, x.columns)), q_columns = text.number(q.columns),
                    r_rows = text.number(r.rows);
  const Place tile = place_in_tile(n);
  const Row v = [&](const std::string& i) { return tile(i, "c"); };
  words.insert({{"m", m},
                {"n", n},
                {"steps", steps},
                {"q_columns", q_columns},
                {"r_rows", r_rows},
                {"tile", tile},
                {"q", of_q},
                {"r", of_r},
                {"reflect", reflected(team, words, {v, "tau[c]", of_q, "c", m, q_columns})}});
  text.lines(words + Words{{"from", source}, {"to", tile}}, kCopy);
  text.line("BARRIER;");
  qr_lines(text, team, x.dtype, tile, m, n, steps);
  text.lines(words, R"cpp(
    for (idx_t i = 0 + lane / $width; i < $r_rows; i += $height)
      for (idx_t j = 0 + lane % $width; j < $n; j += $width) {
        $real v = 0;
        if (j >= i) v = $tile(i, j);
        $r(i, j) = v;
      }
    for (idx_t i = 0 + lane / $width; i < $m; i += $height)
      for (idx_t j = 0 + lane % $width; j < $q_columns; j += $width) $q(i, j) = i == j;
    BARRIER_ALL;
    for (idx_t c = $steps - 1; c >= 0; --c) {
      $reflect;
    }
  )cpp");
  return text.finish("qr", std::max({reach(x), reach(q), reach(r)}), x.count, team.lanes);
}

Launch qr_panel(const MatrixBatch& panel, const MatrixBatch& v, const MatrixBatch& tau) {
  const Team team = kPanelTeam;
  Words words = words_of(team, panel.dtype);
  KernelText text;
  begin_matrix(text);
  text.lines(words, "  LOCAL $real part[$lanes], tau[$block];\n");
  const Place x = place_in(text, panel, true), of_v = place_in(text, v, true), of_tau = place_in(text, tau, true);
  const std::string m = text.number(panel.rows), n = text.number(panel.columns);
  words.insert({{"m", m}, {"n", n}, {"x", x}, {"v", of_v}, {"tau", of_tau}});
  qr_lines(text, team, panel.dtype, x, m, n, text.number(std::min(panel.rows, panel.columns)));
  text.lines(words, R"cpp(
    for (idx_t i = 0 + lane / $width; i < $m; i += $height)
      for (idx_t j = 0 + lane % $width; j < $n; j += $width) {
        $real one = i == j;
        if (j < i) one = $x(i, j);
        $v(i, j) = one;
      }
    if (lane < $n) $tau(0, lane) = tau[lane];
  )cpp");
  return text.finish("qr_panel", std::max(reach(panel), reach(v)), panel.count, team.lanes);
}

// LAPACK's dlarft: column c of t is -tau_c t (v^T v)_c above the diagonal, and tau_c on it.
Launch qr_triangle(const MatrixBatch& gram, const MatrixBatch& tau, const MatrixBatch& t) {
  Words words{{"real", value_type(t.dtype)}, {"block", kFactorBlock}, {"own_size", kFactorBlock * kFactorBlock}};
  KernelText text;
  begin_matrix(text);
  text.lines(words, "  LOCAL $real own[$own_size];\n");
  const Place of_gram = place_in(text, gram, false), of_tau = place_in(text, tau, false),
              result = place_in(text, t, true);
  words.insert({{"gram", of_gram}, {"tau", of_tau}, {"result", result}, {"n", text.number(t.rows)}});
  text.lines(words, R"cpp(
    for (idx_t c = 0; c < $n; ++c) {
      $real sum = 0;
      const $real factor = $tau(0, c);
      for (idx_t q = lane; q < c; ++q) sum += own[lane * $block + q] * $gram(q, c);
      own[lane * $block + c] = lane < c ? -factor * sum : lane == c ? factor : 0;
      BARRIER;
    }
    if (lane < $n)
      for (idx_t j = 0; j < $n; ++j) $result(lane, j) = own[lane * $block + j];
  )cpp");
  return text.finish("qr_triangle", std::max(reach(gram), reach(t)), t.count, kFactorBlock);
}

}  // namespace freight::gpu
