// See dense.h: eigenvalues and eigenvectors of a general real matrix. It is balanced, becomes an upper Hessenberg
// matrix, by Francis's double-shift QR steps a quasi-triangular one (1 x 1 and 2 x 2 blocks on the diagonal), whose
// eigenvectors are found by back-substitution; all steps are transformed back. Golub and Van Loan, Matrix Computations,
// chapter 7.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

#include "freight/backend/ref/dense.h"

namespace freight::dense {

namespace {

using Complex = std::complex<double>;

constexpr double kPrecision = std::numeric_limits<double>::epsilon();
// Numbers below, in a matrix of numbers near 1, have too few digits to go on with.
constexpr double kTiny = std::numeric_limits<double>::min() / kPrecision;

// ---- balancing ----

// The changes that balancing made: rows and columns exchanged, in order, and then row i divided and column i multiplied
// by 2^exponents[i].
struct Balance {
  std::vector<std::pair<int64_t, int64_t>> exchanges;
  std::vector<int> exponents;
};

// True where all numbers of row or column i between low and high, other than the diagonal's, are 0.
bool alone_in_row(Matrix a, int64_t i, int64_t low, int64_t high) {
  for (int64_t j = low; j <= high; ++j) {
    if (j != i && a[i][j] != 0) return false;
  }
  return true;
}
bool alone_in_column(Matrix a, int64_t j, int64_t low, int64_t high) {
  for (int64_t i = low; i <= high; ++i) {
    if (i != j && a[i][j] != 0) return false;
  }
  return true;
}

void exchange(Matrix a, int64_t i, int64_t j, Balance& balance) {
  if (i == j) return;
  std::swap_ranges(a[i], a[i] + a.columns, a[j]);
  for (int64_t row = 0; row < a.rows; ++row) std::swap(a[row][i], a[row][j]);
  balance.exchanges.emplace_back(i, j);
}

// Eigenvalues that can be read off stand on the diagonal outside of low to high afterwards.
void isolate(Matrix a, int64_t& low, int64_t& high, Balance& balance) {
  const auto find = [&](auto alone) {
    for (int64_t i = high; i >= low; --i) {
      if (alone(a, i, low, high)) return i;
    }
    return int64_t{-1};
  };
  for (int64_t i = find(alone_in_row); i >= 0; i = find(alone_in_row)) exchange(a, i, high--, balance);
  for (int64_t i = find(alone_in_column); i >= 0; i = find(alone_in_column)) exchange(a, i, low++, balance);
}

// Makes row and column of the same number about equally long, which makes the eigenvalues less sensitive to rounding.
// Factors are powers of two, and the diagonal counts (James, Langou and Lowery 2014, "On matrix balancing and
// eigenvector computation").
void scale_rows_and_columns(Matrix a, int64_t low, int64_t high, Balance& balance) {
  constexpr int kMost = 400;  // of an exponent
  for (bool changed = true; changed;) {
    changed = false;
    for (int64_t i = low; i <= high; ++i) {
      double column = 0, row = 0;
      for (int64_t j = low; j <= high; ++j) {
        column = std::hypot(column, a[j][i]);
        row = std::hypot(row, a[i][j]);
      }
      if (column == 0 || row == 0) continue;
      const int by = std::lround(std::log2(row / column) / 2);
      const double balanced = std::hypot(std::ldexp(column, by), std::ldexp(row, -by));
      int& exponent = balance.exponents[static_cast<size_t>(i)];
      if (by == 0 || balanced >= 0.95 * std::hypot(column, row) || std::abs(exponent + by) > kMost) continue;
      changed = true;
      exponent += by;
      for (int64_t j = 0; j < a.columns; ++j) a[i][j] = std::ldexp(a[i][j], -by);
      for (int64_t j = 0; j < a.rows; ++j) a[j][i] = std::ldexp(a[j][i], by);
    }
  }
}

Balance balance_of(Matrix a) {
  Balance balance;
  balance.exponents.resize(static_cast<size_t>(a.rows));
  int64_t low = 0, high = a.rows - 1;
  isolate(a, low, high, balance);
  scale_rows_and_columns(a, low, high, balance);
  return balance;
}

// An eigenvector of the balanced matrix becomes one of the matrix.
void undo(const Balance& balance, double* x) {
  for (size_t i = 0; i < balance.exponents.size(); ++i) x[i] = std::ldexp(x[i], balance.exponents[i]);
  for (auto e = balance.exchanges.rbegin(); e != balance.exchanges.rend(); ++e) std::swap(x[e->first], x[e->second]);
}

// ---- Q^T A Q in Schur's form ----

// `a` becomes upper Hessenberg: zeros below the first subdiagonal.
void to_hessenberg(Matrix a, Matrix q) {
  set_identity(q);
  std::vector<double> v(static_cast<size_t>(a.rows));
  for (int64_t k = 0; k + 2 < a.rows; ++k) {
    for (int64_t i = k + 1; i < a.rows; ++i) {
      v[static_cast<size_t>(i - k - 1)] = a[i][k];
      a[i][k] = 0;
    }
    const Reflector h = make_reflector(v.data(), a.rows - k - 1);
    a[k + 1][k] = h.beta;
    reflect_rows(a, k + 1, k + 1, v.data(), h.tau);
    reflect_columns(a, k + 1, v.data(), h.tau);
    reflect_columns(q, k + 1, v.data(), h.tau);
  }
}

// The two shifts of a step: the eigenvalues of [[y, b], [c, x]].
struct Shifts {
  double x, y, b, c;
};

class Schur {
 public:
  Schur(Matrix h, Matrix q) : h_(h), q_(q), norm_(largest_magnitude(h)) {}

  // False where it does not converge.
  bool run() {
    const int64_t n = h_.rows;
    int64_t steps = 30 * std::max<int64_t>(n, 10);  // it takes about two for each eigenvalue
    int64_t tries = 0;                              // for the present block
    for (int64_t last = n - 1; last > 0;) {
      const int64_t first = block_start(last);
      if (last - first >= 2) {
        if (steps-- == 0) return false;
        step(first, last, shifts(last, ++tries));
        continue;
      }
      if (last - first == 1) split(first);
      last = first - 1;
      tries = 0;
    }
    return true;
  }

 private:
  // The row from which on no number of the subdiagonal up to `last` can be taken for 0.
  int64_t block_start(int64_t last) {
    for (int64_t i = last; i > 0; --i) {
      double size = std::fabs(h_[i - 1][i - 1]) + std::fabs(h_[i][i]);
      if (size == 0) size = norm_;
      if (std::fabs(h_[i][i - 1]) > std::max(kPrecision * size, kTiny * norm_)) continue;
      h_[i][i - 1] = 0;
      return i;
    }
    return 0;
  }

  Shifts shifts(int64_t last, int64_t tries) const {
    if (tries % 10 == 0) {  // others, in case these lead nowhere; the constants are EISPACK's
      const double size = std::fabs(h_[last][last - 1]) + std::fabs(h_[last - 1][last - 2]);
      const double x = 0.75 * size + h_[last][last];
      return {x, x, -0.4375 * size, size};
    }
    return {h_[last][last], h_[last - 1][last - 1], h_[last - 1][last], h_[last][last - 1]};
  }

  // The first column of (H - s1)(H - s2) from row m on, over h[m + 1][m].
  void start(double* v, int64_t m, const Shifts& s) const {
    const double z = h_[m][m], x = s.x - z, y = s.y - z, over = h_[m + 1][m];
    v[0] = x / over * y - s.b / over * s.c + h_[m][m + 1];  // products alone may vanish
    v[1] = h_[m + 1][m + 1] - z - x - y;
    v[2] = h_[m + 2][m + 1];
    const double size = std::fabs(v[0]) + std::fabs(v[1]) + std::fabs(v[2]);
    for (int i = 0; i < 3 && size > 0; ++i) v[i] /= size;
  }

  void step(int64_t first, int64_t last, const Shifts& s) {
    double v[3];
    int64_t m = last - 2;  // the step may begin where two numbers of the subdiagonal are small together
    for (;; --m) {
      start(v, m, s);
      if (m == first) break;
      const double size = std::fabs(h_[m - 1][m - 1]) + std::fabs(h_[m][m]) + std::fabs(h_[m + 1][m + 1]);
      const double beside = std::fabs(h_[m][m - 1]) * (std::fabs(v[1]) + std::fabs(v[2]));
      if (beside <= kPrecision * std::fabs(v[0]) * size) break;
    }
    for (int64_t k = m; k < last; ++k) {
      const int64_t count = std::min<int64_t>(3, last - k + 1);
      for (int64_t i = 0; i < count && k > m; ++i) v[i] = h_[k + i][k - 1];
      const Reflector h = make_reflector(v, count);
      if (k > m) {
        h_[k][k - 1] = h.beta;
        for (int64_t i = 1; i < count; ++i) h_[k + i][k - 1] = 0;
      } else if (m > first) {
        h_[k][k - 1] *= 1 - h.tau;
      }
      reflect(k, count, std::min(k + 3, last) + 1, v, h.tau);
    }
  }

  // The reflector over rows and columns k to k + count - 1; `rows` have numbers in these columns.
  void reflect(int64_t k, int64_t count, int64_t rows, const double* v, double tau) {
    for (int64_t j = k; j < h_.columns; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += v[i] * h_[k + i][j];
      for (int64_t i = 0; i < count; ++i) h_[k + i][j] -= tau * sum * v[i];
    }
    const auto columns = [&](double* row) {
      const double sum = tau * dot(row + k, v, count);
      for (int64_t i = 0; i < count; ++i) row[k + i] -= sum * v[i];
    };
    for (int64_t i = 0; i < rows; ++i) columns(h_[i]);
    for (int64_t i = 0; i < q_.rows; ++i) columns(q_[i]);
  }

  // Makes the 2 x 2 block at i triangular where its eigenvalues are real.
  void split(int64_t i) {
    const double b = h_[i][i + 1], c = h_[i + 1][i], p = (h_[i][i] - h_[i + 1][i + 1]) / 2;
    const double size = std::max({std::fabs(p), std::fabs(b), std::fabs(c)});
    const double square = (p / size) * (p / size) + (b / size) * (c / size);
    if (square < 0) return;
    const double z = p + std::copysign(size * std::sqrt(square), p);  // (z, c) is an eigenvector
    const double r = std::hypot(z, c), cosine = z / r, sine = c / r;
    rotate(h_[i] + i, h_[i + 1] + i, h_.columns - i, cosine, sine);
    for (int64_t row = 0; row < i + 2; ++row) rotate(h_[row] + i, h_[row] + i + 1, 1, cosine, sine);
    for (int64_t row = 0; row < q_.rows; ++row) rotate(q_[row] + i, q_[row] + i + 1, 1, cosine, sine);
    h_[i + 1][i] = 0;
  }

  Matrix h_, q_;
  double norm_;
};

// ---- eigenvectors of a quasi-triangular matrix ----

class Eigenvector {
 public:
  explicit Eigenvector(Matrix t) : re(static_cast<size_t>(t.rows)), im(static_cast<size_t>(t.rows)), t_(t) {}

  // The eigenvector of the eigenvalue of the block of one row, or two, at k: numbers behind the block are 0.
  void solve(int64_t k, Complex eigenvalue) {
    std::fill(re.begin(), re.end(), 0.0);
    std::fill(im.begin(), im.end(), 0.0);
    value_ = eigenvalue;
    least_ = std::max(kPrecision * (std::fabs(eigenvalue.real()) + std::fabs(eigenvalue.imag())),
                      kTiny * static_cast<double>(t_.rows));
    const bool pair = eigenvalue.imag() != 0;
    end_ = k + (pair ? 2 : 1);
    if (!pair) {
      set(k, 1);
    } else {  // from the row of the block with the larger number beside the diagonal
      const double b = t_[k][k + 1], c = t_[k + 1][k];
      const bool upper = std::fabs(b) >= std::fabs(c);
      set(k, upper ? b : value_ - t_[k + 1][k + 1]);
      set(k + 1, upper ? value_ - t_[k][k] : c);
      const double size = std::max(size_of(k), size_of(k + 1));
      multiply(1 / size);
    }
    for (int64_t i = k - 1; i >= 0; --i) {
      if (i > 0 && t_[i][i - 1] != 0) {
        pair_of_rows(--i);
      } else {
        set(i, divide(-rest(i, i + 1), t_[i][i] - value_));
        bound(i);
      }
    }
  }

  std::vector<double> re, im;

 private:
  void set(int64_t i, Complex v) {
    re[static_cast<size_t>(i)] = v.real();
    im[static_cast<size_t>(i)] = v.imag();
  }
  double size_of(int64_t i) const { return std::hypot(re[static_cast<size_t>(i)], im[static_cast<size_t>(i)]); }

  // Sum of row i times the numbers that are known, from place `from` on.
  Complex rest(int64_t i, int64_t from) const {
    const int64_t n = end_ - from;
    return {dot(t_[i] + from, re.data() + from, n), dot(t_[i] + from, im.data() + from, n)};
  }
  void multiply(double factor) {
    for (int64_t i = 0; i < end_; ++i) {
      re[static_cast<size_t>(i)] *= factor;
      im[static_cast<size_t>(i)] *= factor;
    }
  }
  // A large number makes all smaller, so that sums with it stay finite.
  void bound(int64_t i) {
    constexpr double kLarge = 1e100;
    if (const double size = size_of(i); size > kLarge) multiply(1 / size);
  }
  // a / b, with all numbers and `beside` made smaller where that is too large. An eigenvalue that is there twice has
  // b = 0; then the least that makes a difference stands for it, as in LAPACK.
  Complex divide(Complex a, Complex b, Complex* beside = nullptr) {
    if (std::abs(b) < least_) b = least_;
    constexpr double kMost = 1e200;
    if (const double most = kMost * std::abs(b); std::abs(a) > most) {
      const double factor = most / std::abs(a);
      multiply(factor);
      a *= factor;
      if (beside) *beside *= factor;
    }
    return a / b;
  }
  // The same for a block at rows i and i + 1, by elimination.
  void pair_of_rows(int64_t i) {
    Complex upper[3] = {t_[i][i] - value_, t_[i][i + 1], -rest(i, i + 2)};
    Complex lower[3] = {t_[i + 1][i], t_[i + 1][i + 1] - value_, -rest(i + 1, i + 2)};
    if (std::abs(upper[0]) < std::abs(lower[0])) std::swap(upper, lower);
    const Complex factor = lower[0] / upper[0];
    const Complex below = divide(lower[2] - factor * upper[2], lower[1] - factor * upper[1], &upper[2]);
    set(i + 1, below);
    Complex above = upper[2] - upper[1] * below;
    set(i, divide(above, upper[0]));
    bound(i);
    bound(i + 1);
  }

  Matrix t_;
  Complex value_;
  double least_ = 0;
  int64_t end_ = 0;  // numbers from here on are 0
};

// Scales a vector to 2-norm 1 with its largest number real.
void normalize(std::vector<double>& re, std::vector<double>& im) {
  const size_t n = re.size();
  size_t most = 0;
  double size = 0;
  for (size_t i = 0; i < n; ++i) {
    if (const double s = std::hypot(re[i], im[i]); s > size) {
      most = i;
      size = s;
    }
  }
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += (re[i] / size) * (re[i] / size) + (im[i] / size) * (im[i] / size);
  const double length = size * std::sqrt(squares);
  const bool real = im[most] == 0;
  const double c = real ? 1 : re[most] / size, s = real ? 0 : im[most] / size;
  for (size_t i = 0; i < n; ++i) {
    const double x = re[i] / length, y = im[i] / length;
    re[i] = c * x + s * y;
    im[i] = c * y - s * x;
  }
  im[most] = 0;
}

}  // namespace

void eig(Matrix a, double* re, double* im, Matrix vectors_re, Matrix vectors_im) {
  const int64_t n = a.rows;
  if (n == 0) return;
  OwnedMatrix q(n, n);
  Balance balance;
  int scale = 0;
  const auto decompose = [&] {
    if (!all_finite(a)) return false;
    scale = scale_to(a, 0);
    balance = balance_of(a);
    scale += scale_to(a, 0);  // a balanced matrix may be much smaller
    to_hessenberg(a, q);
    return Schur(a, q).run();
  };
  if (!decompose()) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    std::fill_n(re, n, kNone);
    std::fill_n(im, n, kNone);
    fill(vectors_re, kNone);
    fill(vectors_im, kNone);
    return;
  }
  Eigenvector x(a);
  std::vector<double> vector_re(static_cast<size_t>(n)), vector_im(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    const bool pair = k + 1 < n && a[k + 1][k] != 0;
    Complex value = a[k][k];
    if (pair) {
      const double p = (a[k][k] - a[k + 1][k + 1]) / 2, b = a[k][k + 1], c = a[k + 1][k];
      const double size = std::max({std::fabs(p), std::fabs(b), std::fabs(c)});
      const double square = (p / size) * (p / size) + (b / size) * (c / size);
      value = {a[k + 1][k + 1] + p, size * std::sqrt(-square)};
    }
    x.solve(k, value);
    for (int64_t i = 0; i < n; ++i) {
      vector_re[static_cast<size_t>(i)] = dot(q[i], x.re.data(), n);
      vector_im[static_cast<size_t>(i)] = dot(q[i], x.im.data(), n);
    }
    undo(balance, vector_re.data());
    undo(balance, vector_im.data());
    normalize(vector_re, vector_im);
    for (int64_t twin = 0; twin < (pair ? 2 : 1); ++twin) {
      const double sign = twin == 0 ? 1 : -1;
      re[k + twin] = std::ldexp(value.real(), -scale);
      im[k + twin] = sign * std::ldexp(value.imag(), -scale);
      for (int64_t i = 0; i < n; ++i) {
        vectors_re[i][k + twin] = vector_re[static_cast<size_t>(i)];
        vectors_im[i][k + twin] = sign * vector_im[static_cast<size_t>(i)];
      }
    }
    if (pair) ++k;
  }
}

}  // namespace freight::dense
