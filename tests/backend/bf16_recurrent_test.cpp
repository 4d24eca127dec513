// The steps of LSTM and GRU layers in bf16 against plain loops in double. A step is computed from what the kernel
// itself stored of the step before, so errors do not add up and bounds are those of one rounding.
#include "freight/backend/cpu/kernels/bf16/recurrent.h"

#include "tests/backend/bf16_kernels.h"

namespace freight::cpu {
namespace {

// As of attention in bf16_test.cpp: one rounding, and what sums of f32 and the functions add.
constexpr double kRounding = 0x1p-8, kFloats = 1e-5;

struct RecurrentCase {
  int64_t samples, steps, width;
  bool gru = false, reverse = false, counted = false;
  int64_t gates() const { return gru ? 3 : 4; }
};

std::string print(const RecurrentCase& c) {
  return cat(c.gru ? "gru" : "lstm", c.reverse ? "reverse" : "", c.counted ? "counted" : "", "n", c.samples, "t",
             c.steps, "h", c.width);
}

enum class InPlace : uint8_t { no, yes };  // the gates over x, dx over the gates

struct RecurrentRun {
  explicit RecurrentRun(const RecurrentCase& which, InPlace in_place = InPlace::no)
      : c(which),
        x(rows() * gh()),
        gates(rows() * gh()),
        dx(rows() * gh()),
        y(rows() * c.width),
        inner(rows() * c.width),
        dy(rows() * c.width),
        w(gh() * c.width),
        dw(gh() * c.width),
        inside(c.width),
        dinside(c.width),
        counts(c.samples) {
    fill_uniform(x.data(), x.size(), 1);
    fill_uniform(dy.data(), dy.size(), 2);
    PhiloxStream r(3, 0, 1);
    const auto scale = 1 / std::sqrt(static_cast<float>(c.width));
    for (int64_t i = 0; i < w.size(); ++i) w[i] = scale * r.uniform(-1, 1);
    for (int64_t i = 0; i < c.width; ++i) inside[i] = r.uniform(-1, 1);
    for (int64_t i = 0; i < c.samples; ++i)
      counts[i] = static_cast<int32_t>(i % 3 == 0 ? c.steps : i % 3 == 1 ? c.steps / 2 : 0);
    o.x = x.data();
    o.w = w.data();
    if (c.gru) o.inside = inside.data();
    if (c.counted) o.counts = counts.data();
    o.y = y.data();
    o.inner = inner.data();
    o.gates = in_place == InPlace::yes ? x.data() : gates.data();
    o.dy = dy.data();
    o.dx = in_place == InPlace::yes ? o.gates : dx.data();
    o.dw = dw.data();
    if (c.gru) o.dinside = dinside.data();
    problem = {.gru = c.gru, .reverse = c.reverse, .samples = c.samples, .steps = c.steps, .width = c.width};
  }
  int64_t gh() const { return c.gates() * c.width; }
  int64_t rows() const { return c.samples * c.steps; }
  void forward() {
    const Bf16Recurrent steps(problem, false);
    poison_thread_scratch();
    Array s = poisoned_scratch(steps.scratch_bytes());
    steps.forward(o, s.raw());
  }
  void backward() {
    const Bf16Recurrent steps(problem, true);
    poison_thread_scratch();
    Array s = poisoned_scratch(steps.scratch_bytes());
    steps.backward(o, s.raw());
  }
  // Which time step is the i-th, and the row of sample n then.
  int64_t time(int64_t i) const { return c.reverse ? c.steps - 1 - i : i; }
  int64_t row(int64_t n, int64_t i) const { return n * c.steps + time(i); }
  bool token(int64_t n, int64_t i) const { return !c.counted || time(i) < counts[n]; }
  double weight(int64_t row, int64_t column) const { return value(narrow(value(w[row * c.width + column]))); }

  const RecurrentCase c;
  Guarded<Bf16> x, gates, dx, y, inner, dy;
  Guarded<float> w, dw, inside, dinside;
  Guarded<int32_t> counts;
  RecurrentProblem problem;
  RecurrentOperands<Bf16> o;
};

void expect_rounded(double got, double expected, double others, const std::string& what) {
  ASSERT_NEAR(got, expected, kRounding * std::fabs(expected) + kFloats * (1 + others)) << what;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Of one sample, all steps.
void check_forward(const RecurrentRun& r, int64_t n) {
  const int64_t h = r.c.width;
  std::vector<double> state(static_cast<size_t>(h));  // cells, or states
  for (int64_t i = 0; i < r.c.steps; ++i) {
    const int64_t row = r.row(n, i);
    for (int64_t j = 0; j < h; ++j) {
      const std::string where = cat("sample ", n, " step ", r.time(i), " number ", j);
      double z[4], gate[4];
      for (int64_t k = 0; k < r.c.gates(); ++k) {
        z[k] = 0;
        for (int64_t q = 0; i > 0 && q < h; ++q) z[k] += value(r.y[r.row(n, i - 1) * h + q]) * r.weight(k * h + j, q);
      }
      const auto x = [&](int64_t k) { return value(r.x[row * r.gh() + k * h + j]); };
      double& s = state[static_cast<size_t>(j)];
      double next, inner, shown;
      if (r.c.gru) {
        gate[0] = sigmoid(x(0) + z[0]);
        gate[1] = 1 - sigmoid(x(1) + z[1]);
        inner = z[2] + value(r.inside[j]);
        gate[2] = std::tanh(x(2) + gate[0] * inner);
        if (r.token(n, i)) s = gate[2] + (1 - gate[1]) * (s - gate[2]);
        shown = s;
      } else {
        gate[0] = sigmoid(x(0) + z[0]);
        gate[1] = 1 - sigmoid(x(1) + z[1]);
        gate[2] = std::tanh(x(2) + z[2]);
        gate[3] = sigmoid(x(3) + z[3]);
        next = (1 - gate[1]) * s + gate[0] * gate[2];
        shown = i > 0 ? value(r.y[r.row(n, i - 1) * h + j]) : 0;
        if (r.token(n, i)) {
          s = next;
          shown = gate[3] * std::tanh(s);
        }
        inner = s;
      }
      for (int64_t k = 0; k < r.c.gates(); ++k) {
        ASSERT_NO_FATAL_FAILURE(
            expect_rounded(value(r.gates[row * r.gh() + k * h + j]), gate[k], 0, cat(where, " gate ", k)));
      }
      ASSERT_NO_FATAL_FAILURE(expect_rounded(value(r.inner[row * h + j]), inner, 0, "inner of " + where));
      ASSERT_NO_FATAL_FAILURE(expect_rounded(value(r.y[row * h + j]), shown, 0, "y of " + where));
    }
  }
}

// dz of a sample's steps as the products take them, of a GRU's last gate by what the kernel does.
std::vector<double> check_backward(const RecurrentRun& r, int64_t n) {
  const int64_t h = r.c.width, gh = r.gh();
  std::vector<double> dc(static_cast<size_t>(h)), dh = dc, dz(static_cast<size_t>(r.c.steps * gh));
  for (int64_t i = r.c.steps - 1; i >= 0; --i) {
    const int64_t row = r.row(n, i);
    double* now = dz.data() + i * gh;
    for (int64_t j = 0; j < h; ++j) {
      const std::string where = cat("sample ", n, " step ", r.time(i), " number ", j);
      const auto before = [&](const Guarded<Bf16>& a) { return i > 0 ? value(a[r.row(n, i - 1) * h + j]) : 0; };
      const auto gate = [&](int64_t k) { return value(r.gates[row * gh + k * h + j]); };
      double &g = dh[static_cast<size_t>(j)], &cell = dc[static_cast<size_t>(j)], d[4] = {};
      g += value(r.dy[row * h + j]);
      const double inner = value(r.inner[row * h + j]), keeps = 1 - gate(1);
      double din = 0;
      if (!r.token(n, i)) {  // g goes on
      } else if (r.c.gru) {
        d[2] = g * gate(1) * (1 - gate(2) * gate(2));
        d[0] = d[2] * inner * gate(0) * (1 - gate(0));
        d[1] = g * (before(r.y) - gate(2)) * keeps * gate(1);
        din = d[2] * gate(0);
        g *= keeps;
      } else {
        const double squashed = std::tanh(inner);
        const double all = cell + g * gate(3) * (1 - squashed * squashed);
        d[0] = all * gate(2) * gate(0) * (1 - gate(0));
        d[1] = all * before(r.inner) * keeps * gate(1);
        d[2] = all * gate(0) * (1 - gate(2) * gate(2));
        d[3] = g * squashed * gate(3) * (1 - gate(3));
        cell = all * keeps;
        g = 0;
      }
      for (int64_t k = 0; k < r.c.gates(); ++k) {
        const double got = value(r.dx[row * gh + k * h + j]);
        // A rounded din may be the number next to that of the kernel, in the gradients of all earlier steps.
        expect_rounded(got, d[k], r.c.gru ? 200 : 0, cat(where, " gate ", k));
        now[k * h + j] = r.c.gru && k == 2 ? value(narrow(din)) : got;
      }
    }
    for (int64_t q = 0; q < h; ++q) {
      for (int64_t k = 0; k < gh; ++k) dh[static_cast<size_t>(q)] += now[k] * r.weight(k, q);
    }
  }
  return dz;
}

class Bf16RecurrentOf : public testing::TestWithParam<RecurrentCase> {};

TEST_P(Bf16RecurrentOf, GivesWhatPlainLoopsGive) {
  FREIGHT_NEEDS_BF16();
  RecurrentRun r(GetParam());
  const int64_t h = r.c.width, gh = r.gh();
  r.forward();
  r.backward();
  std::vector<double> dw(static_cast<size_t>(gh * h)), size = dw, dinside(static_cast<size_t>(h)),
                                                       size_inside = dinside;
  for (int64_t n = 0; n < r.c.samples; ++n) {
    ASSERT_NO_FATAL_FAILURE(check_forward(r, n));
    const std::vector<double> dz = check_backward(r, n);
    for (int64_t i = 0; i < r.c.steps; ++i) {
      const double* now = dz.data() + i * gh;
      for (int64_t k = 0; i > 0 && k < gh; ++k) {
        for (int64_t q = 0; q < h; ++q) {
          const double term = now[k] * value(r.y[r.row(n, i - 1) * h + q]);
          dw[static_cast<size_t>(k * h + q)] += term;
          size[static_cast<size_t>(k * h + q)] += std::fabs(term);
        }
      }
      for (int64_t j = 0; r.c.gru && j < h; ++j) {
        dinside[static_cast<size_t>(j)] += now[2 * h + j];
        size_inside[static_cast<size_t>(j)] += std::fabs(now[2 * h + j]);
      }
    }
  }
  for (int64_t i = 0; i < gh * h; ++i) {
    const auto at = static_cast<size_t>(i);
    const double rounded = r.c.gru && i >= 2 * h * h ? kRounding : 0;  // of din
    ASSERT_NEAR(value(r.dw[i]), dw[at], (kFloats + rounded) * (1 + size[at])) << "dw " << i;
  }
  for (int64_t j = 0; r.c.gru && j < h; ++j) {
    const auto at = static_cast<size_t>(j);
    ASSERT_NEAR(value(r.dinside[j]), dinside[at], (kFloats + kRounding) * (1 + size_inside[at])) << "dinside " << j;
  }
}

TEST_P(Bf16RecurrentOf, GivesEqualBitsForAnyNumberOfThreadsAndInPlace) {
  FREIGHT_NEEDS_BF16();
  const auto bits = [](const auto& take) {
    for_any_threads([&] {
      RecurrentRun r(GetParam());
      r.forward();
      r.backward();
      return take(r).copied();
    });
  };
  bits([](const RecurrentRun& r) -> const auto& { return r.y; });
  bits([](const RecurrentRun& r) -> const auto& { return r.gates; });
  bits([](const RecurrentRun& r) -> const auto& { return r.dx; });
  bits([](const RecurrentRun& r) -> const auto& { return r.dw; });
  RecurrentRun apart(GetParam()), over(GetParam(), InPlace::yes);
  for (RecurrentRun* r : {&apart, &over}) {
    r->forward();
    r->backward();
  }
  EXPECT_EQ(std::memcmp(apart.dx.data(), over.x.data(), over.x.bytes()), 0);
  EXPECT_EQ(std::memcmp(apart.dw.data(), over.dw.data(), over.dw.bytes()), 0);
}

std::vector<RecurrentCase> recurrent_cases() {
  std::vector<RecurrentCase> all;
  // Panels of 32 samples, blocks of 32 numbers in two vectors, stretches of 512 steps. Up to 8 samples of 128 numbers
  // or more are shared by threads.
  for (const auto& [n, t, h] : {std::array<int64_t, 3>{1, 1, 1},
                                {3, 2, 5},
                                {33, 4, 17},
                                {2, 7, 33},
                                {70, 9, 64},
                                {5, 131, 40},
                                {9, 3, 130},
                                {1, 3, 128},
                                {7, 2, 129}}) {
    for (int i = 0; i < 8; ++i) all.push_back({n, t, h, i / 4 == 1, i / 2 % 2 == 1, i % 2 == 1});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Sizes, Bf16RecurrentOf, testing::ValuesIn(recurrent_cases()),
                         [](const auto& each) { return print(each.param); });

// A gate that keeps nearly all of its state through many steps: what it loses is stored to 8 bits.
TEST(Bf16Recurrent, AGateNearOneLetsGradientsFadeAsTheStatesDo) {
  FREIGHT_NEEDS_BF16();
  constexpr int64_t kSteps = 400;
  RecurrentRun r({1, kSteps, 1});
  std::fill_n(r.w.data(), r.w.size(), 0.0f);
  std::fill_n(r.dy.data(), r.dy.size(), narrow(0));
  for (int64_t t = 0; t < kSteps; ++t) {
    const double x[] = {0, 6, t == 0 ? 1.0 : 0.0, 0};
    for (int64_t k = 0; k < 4; ++k) r.x[t * 4 + k] = narrow(x[k]);
  }
  r.dy[kSteps - 1] = narrow(1);
  r.forward();
  r.backward();
  const double kept = std::pow(sigmoid(6), kSteps - 1), last = 0.5 * std::tanh(1.0) * kept;  // 0.37 of the first cell
  EXPECT_NEAR(value(r.inner[kSteps - 1]), last, 0.004 * last);
  const double squashed = std::tanh(last), first = 0.5 * (1 - squashed * squashed) * kept;
  const double slope = 1 - std::tanh(1.0) * std::tanh(1.0);
  EXPECT_NEAR(value(r.dx[2]), first * 0.5 * slope, 0.01 * first * 0.5 * slope);
}

TEST(Bf16Recurrent, ASampleThatIsNoNumberSpoilsItselfAlone) {
  FREIGHT_NEEDS_BF16();
  for (const bool gru : {false, true}) {
    RecurrentRun r({40, 5, 20, gru});
    r.x[(35 * 5 + 1) * r.gh() + 3] = narrow(NAN);
    r.x[(7 * 5 + 1) * r.gh() + 3] = narrow(INFINITY);
    r.forward();
    for (int64_t row = 0; row < r.rows(); ++row) {
      bool none = false;
      for (int64_t j = 0; j < 20; ++j) none = none || std::isnan(value(r.y[row * 20 + j]));
      EXPECT_EQ(none, row / 5 == 35 && row % 5 >= 1) << row;
    }
  }
}

}  // namespace
}  // namespace freight::cpu
