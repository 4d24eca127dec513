// See solver_kernels.h.
#include "freight/backend/gpu/cuda/solver_kernels.h"

#include <algorithm>

#include "freight/backend/gpu/faults.h"
#include "freight/backend/gpu/kernel_text.h"

namespace freight::cuda {

namespace {

using gpu::KernelText;

constexpr int64_t kTile = 32, kTileLanes = 256, kScanLanes = 256;

gpu::Elements elements(KernelText& text, const Location& at, DType dtype, bool written) {
  return text.operand(at.operand, dtype, written, at.offset);
}

int64_t reach(const Rows& m, int64_t batches) { return batches * m.apart + m.rows * m.lead + m.columns; }

std::string taken(Triangle take, const char* row, const char* column) {
  if (take == Triangle::all) return "1";
  return cat(column, take == Triangle::lower ? " <= " : " >= ", row);
}

// A statement behind which `v` is finite; none where the matrix need not be.
std::string look_for_nan(KernelText& text, const CopyOptions& options) {
  if (!options.not_finite) return "";
  return gpu::statement(gpu::filled(R"cpp(
                                      if (v - v != 0) {
                                        $flags[b] = 1;
                                        v = 0;
                                      }
                                    )cpp",
                                    {{"flags", elements(text, *options.not_finite, DType::i32, true).pointer}}));
}

// Elements as words of a template: $x(index), and $store_y(index, value) as a statement.
gpu::Word loaded(const gpu::Elements& x) {
  return gpu::Word::OfOne([x](const std::string& index) { return x.load(index); });
}
gpu::Word stored(const gpu::Elements& y) {
  return gpu::Word::OfTwo(
      [y](const std::string& index, const std::string& value) { return gpu::statement(y.store(index, value)); });
}

// Begins a kernel with a work-item for element (i, j) of every matrix b.
void begin_matrices(KernelText& text, const Rows& m, int64_t batches) {
  text.begin_elements(batches * m.rows * m.columns);
  text.line(text.split("e", m.rows * m.columns, "b", "in_matrix"));
  text.line(text.split("in_matrix", m.columns, "i", "j"));
}

std::string index_in(KernelText& text, const Rows& m, const char* row, const char* column) {
  const std::string apart = text.number(m.apart), lead = text.number(m.lead);
  return cat("b * ", apart, " + ", row, " * ", lead, " + ", column);
}

// A kernel of one group that finds the first matrix e for which `bad` holds. `find` declares the `place` in it. An
// earlier fault is the cause, and stays.
gpu::Launch scan(KernelText& text, int64_t batches, int64_t k, int64_t check, const std::string& bad,
                 const std::string& find) {
  const std::string end = text.number(batches), places = text.number(k), checked = text.number(check),
                    faults = text.operand(gpu::kFaults, DType::i64, true).pointer;
  text.lines({{"end", end},
              {"places", places},
              {"check", checked},
              {"faults", faults},
              {"lanes", kScanLanes},
              {"bad", bad},
              {"find", gpu::statement(find)}},
             R"cpp(
               i64 first = $end;
               for (i64 e = LANE; e < $end; e += $lanes)
                 if (($bad) && e < first) first = e;
               SHARE(i64, $lanes, all, first, MIN_OF);
               if (LANE == 0 && first < $end && $faults[0] == 0) {
                 const i64 e = first;
                 $find;
                 $faults[0] = $check;
                 $faults[1] = e * $places + place;
               }
             )cpp");
  return text.finish("report", batches, 1, kScanLanes);
}

}  // namespace

gpu::Launch copy_matrices(const Rows& from, const Rows& to, const CopyOptions& options) {
  KernelText text;
  const gpu::Elements x = elements(text, from.at, options.dtype, false), y = elements(text, to.at, options.dtype, true);
  begin_matrices(text, from, options.batches);
  const std::string at = index_in(text, from, "i", "j"), into = index_in(text, to, "i", "j");
  text.lines({{"real", gpu::value_type(options.dtype)},
              {"taken", taken(options.take, "i", "j")},
              {"x", x.load(at)},
              {"look_for_nan", look_for_nan(text, options)},
              {"store", gpu::statement(y.store(into, "v"))}},
             R"cpp(
               $real v = 0;
               if ($taken) {
                 v = $x;
                 $look_for_nan;
               }
               $store;
             )cpp");
  return text.finish_elements("copy_matrices", std::max(reach(from, options.batches), reach(to, options.batches)));
}

// A row of the tile has one element more than it holds, so that a column's elements lie in banks of their own.
gpu::Launch transpose_matrices(const Rows& from, const Rows& to, const CopyOptions& options) {
  KernelText text;
  const gpu::Elements x = elements(text, from.at, options.dtype, false), y = elements(text, to.at, options.dtype, true);
  const int64_t down = gpu::ceil_div(from.rows, kTile), across = gpu::ceil_div(from.columns, kTile);
  gpu::Words words{{"real", gpu::value_type(options.dtype)}, {"size", kTile * (kTile + 1)}};
  text.lines(words, R"cpp(
    LOCAL $real tile[$size];
    const idx_t group = GROUP;
    const int lane = LANE;
  )cpp");
  text.line(text.split("group", down * across, "b", "in_matrix"));
  text.line(text.split("in_matrix", across, "tile_row", "tile_column"));
  const std::string rows = text.number(from.rows), columns = text.number(from.columns);
  const std::string at = index_in(text, from, "i", "j"), into = index_in(text, to, "j", "i");
  words.insert({{"rows", rows},
                {"columns", columns},
                {"taken", taken(options.take, "i", "j")},
                {"x", x.load(at)},
                {"look_for_nan", look_for_nan(text, options)},
                {"store", gpu::statement(y.store(into, "tile[lane % 32 * 33 + k]"))}});
  text.lines(words, R"cpp(
    for (int k = lane / 32; k < 32; k += 8) {
      const idx_t i = tile_row * 32 + k, j = tile_column * 32 + lane % 32;
      $real v = 0;
      if (i < $rows && j < $columns && $taken) {
        v = $x;
        $look_for_nan;
      }
      tile[k * 33 + lane % 32] = v;
    }
    BARRIER;
    for (int k = lane / 32; k < 32; k += 8) {
      const idx_t i = tile_row * 32 + lane % 32, j = tile_column * 32 + k;
      if (i < $rows && j < $columns) $store;
    }
  )cpp");
  const int64_t most = std::max(reach(from, options.batches), reach(to, options.batches));
  return text.finish("transpose", most + kTile * (from.columns + from.rows + kTile), options.batches * down * across,
                     kTileLanes);
}

gpu::Launch clear_triangle(const Rows& to, const CopyOptions& options, Triangle keep) {
  KernelText text;
  const gpu::Elements y = elements(text, to.at, options.dtype, true);
  begin_matrices(text, to, options.batches);
  const std::string into = index_in(text, to, "i", "j");
  text.line("if (!(", taken(keep, "i", "j"), ")) ", y.store(into, "0"));
  return text.finish_elements("clear_triangle", reach(to, options.batches));
}

gpu::Launch set_identity(const Rows& to, DType dtype, int64_t batches) {
  KernelText text;
  const gpu::Elements y = elements(text, to.at, dtype, true);
  begin_matrices(text, to, batches);
  const std::string into = index_in(text, to, "i", "j");
  text.line(y.store(into, "(i == j ? 1 : 0)"));
  return text.finish_elements("identity", reach(to, batches));
}

// NaN has no largest number: its pivot is row k itself.
gpu::Launch pivots_from_zero(Location from, Location to, int64_t batches, int64_t rows, int64_t pivots) {
  KernelText text;
  const gpu::Elements x = elements(text, from, DType::i64, false), y = elements(text, to, DType::i32, true);
  text.begin_elements(batches * pivots);
  text.line(text.split("e", pivots, "b", "k"));
  text.lines({{"x", loaded(x)}, {"store_y", stored(y)}, {"rows", text.number(rows)}}, R"cpp(
    i64 p = $x(e) - 1;
    if (p < k || p >= $rows) p = k;
    $store_y(e, (int)p);
  )cpp");
  return text.finish_elements("pivots", batches * rows);
}

// Every work-item follows a row of the result back to where it was: the exchanges in the order from last to first.
gpu::Launch permutation_of(Location pivots, Location to, int64_t batches, int64_t rows, int64_t count) {
  KernelText text;
  const gpu::Elements x = elements(text, pivots, DType::i32, false), y = elements(text, to, DType::i32, true);
  text.begin_elements(batches * rows);
  text.line(text.split("e", rows, "b", "i"));
  text.lines({{"x", loaded(x)}, {"store_y", stored(y)}, {"each", text.number(count)}}, R"cpp(
    int p = (int)i;
    for (int k = (int)$each - 1; k >= 0; --k) {
      const int other = $x(b * $each + k);
      p = p == k ? other : p == other ? k : p;
    }
    $store_y(e, p);
  )cpp");
  return text.finish_elements("permutation", batches * rows);
}

gpu::Launch spoil(Location to, DType dtype, int64_t batches, int64_t count, Location not_finite) {
  KernelText text;
  const gpu::Elements y = elements(text, to, dtype, true), flags = elements(text, not_finite, DType::i32, false);
  text.begin_elements(batches * count);
  text.line("if (", flags.load(text.quotient("e", count)), ") ", y.store("e", "as_real(0x7fc00000u)"));
  return text.finish_elements("spoil", batches * count);
}

gpu::Launch unpack_eigenvalues(const EigenResults& r, DType dtype, int64_t batches, int64_t n) {
  KernelText text;
  const gpu::Elements w = elements(text, r.values, dtype, false), re = elements(text, r.values_re, dtype, true),
                      im = elements(text, r.values_im, dtype, true);
  text.begin_elements(batches * n);
  text.line(text.split("e", n, "b", "j"));
  text.lines({{"w", loaded(w)}, {"store_re", stored(re)}, {"store_im", stored(im)}, {"each", text.number(n)}}, R"cpp(
    $store_re(e, $w(2 * b * $each + j));
    $store_im(e, $w((2 * b + 1) * $each + j));
  )cpp");
  return text.finish_elements("eigenvalues", 2 * batches * n);
}

gpu::Launch unpack_eigenvectors(const EigenResults& r, DType dtype, int64_t batches, int64_t n) {
  KernelText text;
  const gpu::Elements w = elements(text, r.values, dtype, false), v = elements(text, r.vectors, dtype, false),
                      re = elements(text, r.vectors_re, dtype, true), im = elements(text, r.vectors_im, dtype, true);
  text.begin_elements(batches * n * n);
  text.line(text.split("e", n * n, "b", "in_matrix"));
  text.line(text.split("in_matrix", n, "i", "j"));
  const std::string each = text.number(n), square = text.number(n * n);
  text.lines({{"real", gpu::value_type(dtype)},
              {"w", loaded(w)},
              {"v", loaded(v)},
              {"store_re", stored(re)},
              {"store_im", stored(im)},
              {"each", each},
              {"square", square}},
             R"cpp(
               const $real part = $w((2 * b + 1) * $each + j);
               const idx_t first = part < 0 && j > 0 ? j - 1 : j, second = first + 1 < $each ? first + 1 : first;
               $store_re(e, $v(b* $square + first * $each + i));
               $store_im(e, part == 0 ? 0 : part < 0 ? -$v(b * $square + second * $each + i) : $v(b * $square + second * $each + i));
             )cpp");
  return text.finish_elements("eigenvectors", batches * n * n);
}

gpu::Launch report(Location info, InfoSays says, int64_t batches, int64_t k, int64_t check) {
  KernelText text;
  const gpu::Elements x = elements(text, info, DType::i32, false);
  return scan(text, batches, k, check, cat(x.load("e"), " > 0"),
              cat("const i64 place = ", says == InfoSays::place ? cat(x.load("e"), " - 1") : std::string("0"), ";"));
}

// A NaN spreads to all of the diagonal behind it.
gpu::Launch report_not_positive(Location info, const Rows& factor, const CopyOptions& options, int64_t check) {
  KernelText text;
  const gpu::Elements x = elements(text, info, DType::i32, false), y = elements(text, factor.at, options.dtype, false);
  const std::string apart = text.number(factor.apart), step = text.number(factor.lead + 1),
                    n = text.number(factor.rows);
  const gpu::Words words{{"info", x.load("e")}, {"n", n}, {"diagonal", gpu::Word::OfOne([=](const std::string& i) {
                                                             return y.load(cat("e * ", apart, " + (", i, ") * ", step));
                                                           })}};
  const std::string find = gpu::filled(R"cpp(
                                         i64 place = $info - 1;
                                         if (place < 0)
                                           for (place = 0; $diagonal(place) == $diagonal(place);) ++place;
                                       )cpp",
                                       words);
  const std::string bad = gpu::filled("$info > 0 || $diagonal($n - 1) != $diagonal($n - 1)", words);
  return scan(text, options.batches, factor.rows, check, bad, find);
}

gpu::Launch addresses_of(Location matrices, Location to, DType dtype, int64_t batches, int64_t apart) {
  KernelText text;
  const gpu::Elements x = elements(text, matrices, dtype, true), y = elements(text, to, DType::i64, true);
  text.begin_elements(batches);
  text.line(y.store("e", cat("(i64)(", x.pointer, " + (i64)e * ", text.number(apart), ")")));
  return text.finish_elements("addresses", batches);
}

}  // namespace freight::cuda
