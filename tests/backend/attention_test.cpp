// Attention in f32 (kernels/attention.h) and its gradient against the formulas in double, where the causal mask cuts
// through blocks of queries and keys and sizes are no multiple of these, by each instruction set. Before each run the
// threads' scratch memory is full of NaN, which must not reach a result.
#include "freight/backend/cpu/kernels/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "tests/support/simd_targets.h"

namespace freight::cpu {
namespace {

struct Sizes {
  int64_t queries, keys, width;
  bool causal, masked = false;
  int64_t length = 0;  // of the second sample; 0: all keys
};

// One head of `samples` samples; rows are not dense.
class Case {
 public:
  explicit Case(const Sizes& s) : s_(s), row_(s.width + 3) {
    PhiloxStream random(7, 0, static_cast<uint64_t>(s.queries * 1000 + s.keys));
    for (auto* v : {&q_, &dy_}) fill(*v, s.queries, random);
    for (auto* v : {&k_, &v_}) fill(*v, s.keys, random);
    for (auto* v : {&y_, &dq_}) v->assign(q_.size(), 0);
    for (auto* v : {&dk_, &dv_}) v->assign(k_.size(), 0);
    for (int64_t i = 0; i < s.queries * s.keys; ++i) mask_.push_back(random.uniform(0, 1) > 0.3f);
    lengths_ = {static_cast<int32_t>(s.keys), static_cast<int32_t>(s.length > 0 ? s.length : s.keys)};
    lse_.assign(static_cast<size_t>(kSamples * s.queries), 0);
  }

  void run() {
    const AttentionProblem p{.samples = kSamples,
                             .heads = 1,
                             .queries = s_.queries,
                             .keys = s_.keys,
                             .width = s_.width,
                             .causal = s_.causal,
                             .scale = kScale};
    AttentionOperands o;
    o.q = heads(q_, s_.queries), o.k = heads(k_, s_.keys), o.v = heads(v_, s_.keys), o.y = heads(y_, s_.queries);
    o.dy = heads(dy_, s_.queries), o.dq = heads(dq_, s_.queries);
    o.dk = heads(dk_, s_.keys), o.dv = heads(dv_, s_.keys);
    if (s_.length > 0) o.lengths = lengths_.data();
    if (s_.masked) o.mask = {.data = mask_.data(), .row = s_.keys};
    o.lse = lse_.data();
    Attention(p, false).forward(o);
    Attention(p, true).backward(o);
  }

  void poison() {
    for (auto* v : {&q_, &k_, &v_, &dy_}) {
      for (float& x : *v) x = std::numeric_limits<float>::quiet_NaN();
    }
    run();
  }

  void check() {
    const size_t keys = static_cast<size_t>(s_.keys), d = static_cast<size_t>(s_.width);
    for (int64_t b = 0; b < kSamples; ++b) {
      std::vector<double> dk(keys * d), dv(keys * d);
      for (int64_t i = 0; i < s_.queries; ++i) {
        const float *q = at(q_, b, i, s_.queries), *dy = at(dy_, b, i, s_.queries);
        std::vector<double> p(keys), y(d), dq(d);
        double sum = 0, mean = 0;
        for (int64_t j = 0; j < s_.keys; ++j) {
          if (!sees(b, i, j)) continue;
          sum += p[static_cast<size_t>(j)] = std::exp(double{kScale} * dot(q, at(k_, b, j, s_.keys)));
        }
        for (int64_t j = 0; j < s_.keys && sum > 0; ++j) {
          double& weight = p[static_cast<size_t>(j)];
          weight /= sum;
          mean += weight * dot(dy, at(v_, b, j, s_.keys));
          for (size_t c = 0; c < d; ++c) y[c] += weight * double{at(v_, b, j, s_.keys)[c]};
        }
        for (size_t j = 0; j < keys && sum > 0; ++j) {
          const auto key = static_cast<int64_t>(j);
          const double ds = double{kScale} * p[j] * (dot(dy, at(v_, b, key, s_.keys)) - mean);
          for (size_t c = 0; c < d; ++c) {
            dq[c] += ds * double{at(k_, b, key, s_.keys)[c]};
            dk[j * d + c] += ds * double{q[c]};
            dv[j * d + c] += p[j] * double{dy[c]};
          }
        }
        expect(y, at(y_, b, i, s_.queries), "y", i);
        expect(dq, at(dq_, b, i, s_.queries), "dq", i);
        const double lse = double{lse_[static_cast<size_t>(b * s_.queries + i)]};
        EXPECT_NEAR(lse, sum > 0 ? std::log(sum) : 0, 1e-5);
      }
      for (int64_t j = 0; j < s_.keys; ++j) {
        const auto from = static_cast<std::ptrdiff_t>(static_cast<size_t>(j) * d);
        expect({dk.begin() + from, dk.begin() + from + s_.width}, at(dk_, b, j, s_.keys), "dk", j);
        expect({dv.begin() + from, dv.begin() + from + s_.width}, at(dv_, b, j, s_.keys), "dv", j);
      }
    }
  }

 private:
  static constexpr int64_t kSamples = 2;
  static constexpr float kScale = 0.3f;

  void fill(std::vector<float>& v, int64_t rows, PhiloxStream& random) const {
    for (int64_t i = 0; i < kSamples * rows * row_; ++i) v.push_back(random.uniform(-1, 1));
  }
  Heads heads(std::vector<float>& v, int64_t rows) const { return {v.data(), rows * row_, 0, row_}; }
  const float* at(const std::vector<float>& v, int64_t b, int64_t i, int64_t rows) const {
    return v.data() + (b * rows + i) * row_;
  }
  double dot(const float* a, const float* b) const {
    double sum = 0;
    for (int64_t c = 0; c < s_.width; ++c) sum += double{a[c]} * double{b[c]};
    return sum;
  }
  bool sees(int64_t b, int64_t i, int64_t j) const {
    return (!s_.causal || j <= i) && j < lengths_[static_cast<size_t>(b)] &&
           (!s_.masked || mask_[static_cast<size_t>(i * s_.keys + j)] != 0);
  }
  static void expect(const std::vector<double>& wanted, const float* got, const char* name, int64_t row) {
    for (size_t c = 0; c < wanted.size(); ++c)
      ASSERT_NEAR(double{got[c]}, wanted[c], 3e-6 * (1 + std::fabs(wanted[c]))) << name << " " << row << ", " << c;
  }

  const Sizes s_;
  const int64_t row_;
  std::vector<float> q_, k_, v_, y_, dy_, dq_, dk_, dv_, lse_;
  std::vector<int32_t> lengths_;
  std::vector<uint8_t> mask_;
};

TEST(Attention, AgreesWithTheFormulasWhereverItsMasksCutThroughBlocks) {
  const Sizes all[] = {{1, 1, 8, true},
                       {5, 5, 16, true},
                       {49, 64, 24, true},
                       {61, 61, 64, true},
                       {64, 130, 20, true},
                       {130, 64, 20, true},
                       {197, 197, 64, true},
                       {300, 300, 32, true},
                       {600, 600, 16, true},
                       {197, 197, 64, false},
                       {50, 70, 9, false},
                       {300, 300, 16, true, false, 100},
                       {130, 130, 16, true, true},
                       {130, 130, 16, false, true, 77}};
  test::for_each_simd_target([&] {
    for (const Sizes& s : all) {
      SCOPED_TRACE(cat(s.queries, " x ", s.keys, " x ", s.width, s.causal ? " causal" : "", s.masked ? " masked" : ""));
      Case(s).poison();
      Case c(s);
      c.run();
      c.check();
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

}  // namespace
}  // namespace freight::cpu
