// See linear_fit.h.
#include "freight/tables/linear_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "freight/base/error.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/index.h"
#include "freight/ops/linalg.h"
#include "freight/ops/neural.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"
#include "freight/trace/compile.h"
#include "freight/trace/device.h"

namespace freight::tables {

namespace {

constexpr int64_t kMostUnknowns = 4096;  // a matrix with this many columns, 128 MiB, is factorized in each round
constexpr int kMostRounds = 100, kMostHalvings = 40;
// A column depends on the columns before it if less than this fraction of it remains: the rest is rounding.
constexpr double kDependent = 1e-12;
// The last round of Newton's method is one that would lower the loss by less than this fraction: the error of the
// solution decreases as its square.
constexpr double kSmallestPromise = 1e-13;

const CompileOptions kFixed{.deterministic = true};

// The rows in blocks of equal shape: x (rows, width + 1) with 1 in the last column, y (rows, outputs), weight (rows,
// 1). The last block is padded with zeros.
class Blocks {
 public:
  Blocks(store::RowLink link, const Design& design, const store::Rows& rows, int64_t classes)
      : design_(design),
        rows_(rows),
        logit_(link == store::RowLink::logistic),
        outputs_(link == store::RowLink::softmax ? classes : 1) {}

  int64_t width() const { return design_.width() + 1; }
  int64_t outputs() const { return outputs_; }
  int64_t count() const { return rows_.count(); }
  // The total weight of the rows.
  double total() const {
    double sum = 0;
    for (int64_t i = 0; i < count(); ++i) sum += rows_.weight(i);
    return sum;
  }

  template <class F>
  void for_each(const F& f) const {
    std::vector<double> room;
    for (int64_t first = 0; first < count(); first += kFitBlockRows) {
      const int64_t n = std::min(kFitBlockRows, count() - first);
      Array x(DType::f64, {kFitBlockRows, width()}), y(DType::f64, {kFitBlockRows, outputs_}),
          weight(DType::f64, {kFitBlockRows, 1});
      const double* const cells = rows_.values.read(first, first + n, room);
      for (int64_t i = 0; i < n; ++i) {
        double* const to = x.data<double>() + i * width();
        design_.encode(cells + i * rows_.values.width(), to);
        to[width() - 1] = 1;
        weight.data<double>()[i] = rows_.weight(first + i);
        if (rows_.classification()) {
          const int64_t label = rows_.labels.data<int64_t>()[first + i];
          if (!logit_) y.data<double>()[i * outputs_ + label] = 1;
          if (logit_) y.data<double>()[i] = static_cast<double>(label);
        } else {
          y.data<double>()[i] = static_cast<double>(rows_.labels.data<float>()[first + i]);
        }
      }
      f(Tensor(x), Tensor(y), Tensor(weight));
    }
  }

 private:
  const Design& design_;
  const store::Rows& rows_;
  bool logit_;
  int64_t outputs_;
};

// (columns): 1 for the weights, 0 for the intercept, which is not penalized.
Tensor penalized(int64_t columns) { return cast(iota({columns}, 0) < columns - 1, DType::f64); }

// The fit with the parameters (outputs, width + 1), intercepts last, and their errors in the same form.
LinearFit fit_of(const Array& parameters, const Array& errors, int64_t rank) {
  const int64_t outputs = parameters.shape()[0], width = parameters.shape()[1] - 1;
  LinearFit fit{.weights = Array(DType::f64, {outputs, width}),
                .intercepts = Array(DType::f64, {outputs}),
                .errors = Array(DType::f64, {outputs, width + 1}),
                .rank = rank};
  for (int64_t k = 0; k < outputs; ++k) {
    const double* const from = parameters.data<double>() + k * (width + 1);
    std::copy_n(from, width, fit.weights.data<double>() + k * width);
    fit.intercepts.data<double>()[k] = from[width];
    if (!errors.defined()) continue;
    const double* const error = errors.data<double>() + k * (width + 1);
    double* const to = fit.errors.data<double>() + k * (width + 1);
    to[0] = error[width];
    std::copy_n(error, width, to + 1);
  }
  return fit;
}

// Least squares. The triangle R of [x y] is all that is kept of the rows: each block is factorized below the triangle
// of the blocks before it. Normal equations would lose the lower half of the digits.
LinearFit least_squares(const Blocks& blocks, double lambda, const Fitted& on_fit) {
  const int64_t p = blocks.width();
  auto append = compile([](const Tensor& r, const Tensor& rows) { return qr(concat({r, rows}, 0)).r; }, kFixed);
  Tensor r = zeros({p + 1, p + 1}, DType::f64);
  blocks.for_each([&](const Tensor& x, const Tensor& y, const Tensor& weight) {
    r = append(r, sqrt(weight) * concat({x, y}, 1));
  });
  const Tensor rows_left = r;
  if (lambda > 0) {
    const Tensor penalty = std::sqrt(lambda) * eye(p, p + 1, DType::f64) * unsqueeze(penalized(p), 1);
    r = append(r, penalty);
  }
  const Tensor a = narrow(narrow(r, 0, 0, p), 1, 0, p), b = narrow(narrow(r, 0, 0, p), 1, p, 1);
  const double smallest = std::numeric_limits<double>::epsilon() * static_cast<double>(std::max(blocks.count(), p));
  const LeastSquares solution = lstsq(a, b, {.rcond = smallest});
  const int64_t rank = solution.rank.item<int64_t>();
  Array errors;
  const double freedom = blocks.total() - static_cast<double>(p);
  if (rank == p && freedom > 0) {
    // The residuals of the rows only: the penalty is not part of the noise.
    const Tensor parameters = concat({solution.x, -ones({1, 1}, DType::f64)}, 0);
    const double rest = sum(square(matmul(rows_left, parameters))).item<double>();
    const double noise = rest / freedom;
    errors = transpose(sqrt(noise * sum(square(inv(a)), 1, Keep::yes))).array();
  }
  LinearFit fit = fit_of(transpose(solution.x).array(), errors, rank);
  on_fit(fit, true);
  return fit;
}

// The sums over rows for Newton's method, at parameters w (outputs, width + 1).
struct Sums {
  Tensor loss;       // ()
  Tensor gradient;   // (outputs, width + 1)
  Tensor curvature;  // (outputs * (width + 1), the same)
};

// Losses of rows (rows, 1) and mean predictions (rows, outputs), at sums of products z.
struct LossAndMean {
  Tensor loss, mean;
};
LossAndMean loss_and_mean(store::RowLink link, const Tensor& z, const Tensor& y) {
  if (link == store::RowLink::logistic) return {softplus(z) - y * z, sigmoid(z)};
  if (link == store::RowLink::exponential) return {exp(z) - y * z, exp(z)};
  const Tensor logs = log_softmax(z, 1);
  return {-sum(y * logs, 1, Keep::yes), exp(logs)};
}

Sums sums_of(store::RowLink link, const Tensor& w, const Tensor& x, const Tensor& y, const Tensor& weight) {
  const auto [loss, mean] = loss_and_mean(link, matmul(x, transpose(w)), y);
  const int64_t outputs = w.dim(0);
  Sums s{sum(weight * loss), matmul(transpose(weight * (mean - y)), x), {}};
  const auto product = [&](const Tensor& factors) { return matmul(transpose(x), weight * factors * x); };
  if (link == store::RowLink::logistic) s.curvature = product(mean * (1.0 - mean));
  if (link == store::RowLink::exponential) s.curvature = product(mean);
  if (link != store::RowLink::softmax) return s;
  std::vector<Tensor> rows;
  for (int64_t k = 0; k < outputs; ++k) {
    std::vector<Tensor> blocks;
    const Tensor own = narrow(mean, 1, k, 1);
    for (int64_t other = 0; other < outputs; ++other) {
      blocks.push_back(product(own * ((other == k ? 1.0 : 0.0) - narrow(mean, 1, other, 1))));
    }
    rows.push_back(concat(blocks, 1));
  }
  s.curvature = concat(rows, 0);
  return s;
}

// Softmax does not change if a number is added to the parameters of all classes alike. The curvature is zero in these
// directions; this adds them to it. The gradient has no component in them.
Tensor common_directions(int64_t outputs, int64_t p) {
  return kron(ones({outputs, outputs}, DType::f64), eye(p, p, DType::f64));
}

class Newton {
 public:
  Newton(store::RowLink link, const Blocks& blocks, double lambda) : link_(link), blocks_(blocks), lambda_(lambda) {
    const int64_t p = blocks.width(), n = blocks.outputs() * p;
    if (n > kMostUnknowns) {
      fail(ErrorKind::usage, "--model", "a linear model of ", blocks.outputs(), " outputs and ", p,
           " numbers per row has ", n, " unknowns, expected at most ", kMostUnknowns,
           ": drop columns with many categories, or use trees");
    }
    held_ = reshape(broadcast_to(penalized(p), {blocks.outputs(), p}), {n});
  }

  LinearFit run(Tensor w, const Fitted& on_fit) {
    double loss = loss_at(w);
    for (int round = 1;; ++round) {
      const Sums s = sums_at(w);
      const Tensor gradient = s.gradient + lambda_ * reshape(held_, w.shape()) * w;
      const Tensor curvature = whole(s.curvature, w);
      const Tensor step = reshape(solved(curvature, reshape(gradient, {w.numel(), 1})), w.shape());
      const double promise = sum(gradient * step).item<double>() / 2;
      const bool last = !(promise > kSmallestPromise * std::max(1.0, std::fabs(loss))) || round == kMostRounds;
      const bool lowered = descend(w, step, promise, loss);
      const bool ends = last || !lowered;
      LinearFit fit = fit_of(w.array(), ends ? errors_at(w) : Array(), rank_);
      if (!on_fit(fit, ends) || ends) return fit;
    }
  }

 private:
  // The curvature of the whole objective, with the directions that softmax leaves open added.
  Tensor whole(const Tensor& curvature, const Tensor& w) const {
    const int64_t n = w.numel();
    Tensor all = curvature + lambda_ * held_ * eye(n, n, DType::f64);
    if (link_ == store::RowLink::softmax) all = all + common_directions(w.dim(0), w.dim(1));
    return all;
  }

  // Solves by Cholesky; with minimum norm if columns depend on each other.
  Tensor solved(const Tensor& curvature, const Tensor& right) {
    rank_ = blocks_.width();
    try {
      const Tensor factor = cholesky(curvature);
      if (min(square(diagonal(factor)) / diagonal(curvature)).item<double>() > kDependent)
        return cho_solve(factor, right);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::data) throw;
    }
    const LeastSquares least = lstsq(curvature, right, {.rcond = kDependent});
    rank_ = least.rank.item<int64_t>() / blocks_.outputs();
    return least.x;
  }

  // Moves along -step, halving it until the loss decreases; false if it does not decrease any more.
  bool descend(Tensor& w, const Tensor& step, double promise, double& loss) {
    double length = 1;
    for (int i = 0; i < kMostHalvings; ++i, length /= 2) {
      const Tensor there = w - length * step;
      const double next = loss_at(there);
      if (!(next <= loss - 1e-4 * length * promise)) continue;
      w = Tensor(there.array());
      loss = next;
      return true;
    }
    return false;
  }

  double loss_at(const Tensor& w) {
    Tensor loss = zeros({}, DType::f64);
    blocks_.for_each(
        [&](const Tensor& x, const Tensor& y, const Tensor& weight) { loss = add_loss_(loss, w, x, y, weight); });
    return loss.item<double>() + 0.5 * lambda_ * sum(reshape(held_, w.shape()) * square(w)).item<double>();
  }

  Sums sums_at(const Tensor& w) {
    const int64_t n = w.numel();
    Sums s{zeros({}, DType::f64), zeros(w.shape(), DType::f64), zeros({n, n}, DType::f64)};
    blocks_.for_each([&](const Tensor& x, const Tensor& y, const Tensor& weight) { s = add_(s, w, x, y, weight); });
    return s;
  }

  // Standard errors: square roots of the diagonal of the inverse curvature, without the directions that were added to
  // it.
  Array errors_at(const Tensor& w) {
    if (rank_ < blocks_.width()) return {};
    const int64_t n = w.numel();
    Tensor spread = diagonal(inv(whole(sums_at(w).curvature, w)));
    if (link_ == store::RowLink::softmax) {
      const auto classes = static_cast<double>(w.dim(0));
      spread = spread - 1.0 / (classes * (classes + lambda_ * held_));
    }
    return reshape(sqrt(maximum(spread, 0.0)), {w.dim(0), n / w.dim(0)}).array();
  }

  store::RowLink link_;
  const Blocks& blocks_;
  double lambda_;
  int64_t rank_ = 0;
  Tensor held_;  // (outputs * (width + 1)): 1 for penalized parameters
  Compiled<std::function<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&)>> add_loss_ =
      compile(std::function(
                  [this](const Tensor& loss, const Tensor& w, const Tensor& x, const Tensor& y, const Tensor& weight) {
                    return Tensor(loss + sum(weight * loss_and_mean(link_, matmul(x, transpose(w)), y).loss));
                  }),
              kFixed);
  Compiled<std::function<Sums(const Sums&, const Tensor&, const Tensor&, const Tensor&, const Tensor&)>> add_ = compile(
      std::function([this](const Sums& s, const Tensor& w, const Tensor& x, const Tensor& y, const Tensor& weight) {
        const Sums more = sums_of(link_, w, x, y, weight);
        return Sums{s.loss + more.loss, s.gradient + more.gradient, s.curvature + more.curvature};
      }),
      kFixed);
};

// Initial parameters: zeros, and for counts the logarithm of their mean as the intercept.
Tensor beginning(store::RowLink link, const Blocks& blocks, const store::Rows& rows) {
  Array w(DType::f64, {blocks.outputs(), blocks.width()});
  if (link != store::RowLink::exponential) return Tensor(w);
  double total = 0, count = 0;
  for (int64_t i = 0; i < rows.count(); ++i) {
    const auto v = static_cast<double>(rows.labels.data<float>()[i]);
    if (v < 0) fail(ErrorKind::data, "--model", "poisson predicts counts: expected none below 0, got a value of ", v);
    total += rows.weight(i) * v;
    count += rows.weight(i);
  }
  if (total == 0) fail(ErrorKind::data, "--model", "poisson predicts counts: all of the training set are 0");
  w.data<double>()[blocks.width() - 1] = std::log(total / count);
  return Tensor(w);
}

}  // namespace

LinearFit fit_linear(store::RowLink link, const Design& design, const store::Rows& rows, int64_t classes, double lambda,
                     const Fitted& on_fit) {
  const DeviceScope on_cpu("cpu");
  const Blocks blocks(link, design, rows, classes);
  if (link == store::RowLink::identity) return least_squares(blocks, lambda, on_fit);
  return Newton(link, blocks, lambda).run(beginning(link, blocks, rows), on_fit);
}

}  // namespace freight::tables
