// Attention in bf16 and its gradient against plain loops in double: odd sizes, masks and lengths, numbers that are not
// finite, equal bits for any number of threads.
#include "freight/backend/cpu/kernels/bf16/attention.h"

#include <vector>

#include "tests/backend/bf16_kernels.h"

namespace freight::cpu {
namespace {

// bf16 keeps 8 bits: a rounded number is off by 2^-8 of itself at most. Weights, dL/ds and results are each rounded
// once; sums of f32, exp and the statistics add far less, and what they add is part of the second bound.
constexpr double kRounding = 0x1p-8, kFloats = 2e-5;

struct AttentionCase {
  int64_t queries, keys, width;
  bool causal;
  enum class Lengths : uint8_t { none, i32, i64 } lengths = Lengths::none;
  bool dlse = false;
  int64_t samples = 3, heads = 2;  // 3 at most
  // Keys of each sample that a bool shows, or a number per sample, query and key or per head, query and key, in part
  // minus infinity.
  enum class Mask : uint8_t { none, keys, samples, heads } mask = Mask::none;
  bool in_one() const { return queries == keys; }  // q, k and v as parts of one buffer
};

std::string print(const AttentionCase& c) {
  constexpr const char* kLengths[] = {"", "i32", "i64"};
  constexpr const char* kMasks[] = {"", "maskkeys", "masksamples", "maskheads"};
  return cat("t", c.queries, "s", c.keys, "d", c.width, c.causal ? "causal" : "", kLengths[static_cast<int>(c.lengths)],
             c.dlse ? "dlse" : "", kMasks[static_cast<int>(c.mask)]);
}

// (B, rows, parts, H, D), and part `part` as heads.
Heads heads(const Guarded<Bf16>& buffer, const AttentionCase& c, int64_t rows, int64_t parts, int64_t part) {
  const int64_t row = parts * c.heads * c.width;
  return {buffer.data() + part * c.heads * c.width, rows * row, c.width, row};
}

double at(const Heads& x, int64_t b, int64_t h, int64_t row, int64_t j) {
  return value(x.at<Bf16>(b, h)[row * x.row + j]);
}

double dot(const Heads& x, int64_t i, const Heads& y, int64_t j, int64_t b, int64_t h, int64_t width) {
  double v = 0;
  for (int64_t d = 0; d < width; ++d) v += at(x, b, h, i, d) * at(y, b, h, j, d);
  return v;
}

struct AttentionRun {
  explicit AttentionRun(const AttentionCase& which)
      : c(which),
        qkv(c.in_one() ? c.samples * c.queries * 3 * hidden() : 0),
        q(c.in_one() ? 0 : c.samples * c.queries * hidden()),
        kv(c.in_one() ? 0 : c.samples * c.keys * 2 * hidden()),
        dqkv(qkv.size()),
        dq(q.size()),
        dkv(kv.size()),
        y(c.samples * c.queries * 2 * hidden()),
        dy(c.samples * c.queries * hidden()),
        lse(c.samples * c.heads * c.queries),
        dlse(lse.size()),
        shown(c.samples * c.keys),
        added(c.samples * c.queries * c.keys) {
    fill_uniform(qkv.data(), qkv.size(), 1);
    fill_uniform(q.data(), q.size(), 1);
    fill_uniform(kv.data(), kv.size(), 2);
    fill_uniform(dy.data(), dy.size(), 3);
    PhiloxStream r(4, 0, 1);
    for (int64_t i = 0; i < dlse.size(); ++i) dlse[i] = r.uniform(-1, 1);
    const auto part = [&](const Guarded<Bf16>& one, const Guarded<Bf16>& alone, const Guarded<Bf16>& pair, int i) {
      if (c.in_one()) return heads(one, c, c.queries, 3, i);
      return i == 0 ? heads(alone, c, c.queries, 1, 0) : heads(pair, c, c.keys, 2, i - 1);
    };
    o.q = part(qkv, q, kv, 0);
    o.k = part(qkv, q, kv, 1);
    o.v = part(qkv, q, kv, 2);
    o.dq = part(dqkv, dq, dkv, 0);
    o.dk = part(dqkv, dq, dkv, 1);
    o.dv = part(dqkv, dq, dkv, 2);
    o.y = heads(y, c, c.queries, 2, 1);
    o.dy = heads(dy, c, c.queries, 1, 0);
    o.lse = lse.data();
    o.dlse = c.dlse ? dlse.data() : nullptr;
    if (c.mask == AttentionCase::Mask::keys) {
      for (int64_t i = 0; i < shown.size(); ++i) shown[i] = i / c.keys == 0 || i % 3 != 0 || i % c.keys > 90;
      o.mask = {.data = shown.data(), .batch = c.keys};
    } else if (c.mask != AttentionCase::Mask::none) {
      fill_mask();
      o.mask = {.data = added.data(), .added = true, .row = c.keys};
      (c.mask == AttentionCase::Mask::samples ? o.mask.batch : o.mask.head) = c.queries * c.keys;
    }
    lengths = {0, c.keys / 2 + 1, c.keys + 5};  // none counts as one
    short_lengths.assign(lengths.begin(), lengths.end());
    if (c.lengths == AttentionCase::Lengths::i32) o.lengths = short_lengths.data();
    if (c.lengths == AttentionCase::Lengths::i64) o.lengths = lengths.data();
    problem = {.samples = c.samples,
               .heads = c.heads,
               .queries = c.queries,
               .keys = c.keys,
               .width = c.width,
               .causal = c.causal,
               .wide_lengths = c.lengths == AttentionCase::Lengths::i64,
               .scale = 0.5f};
    for (int64_t b = 0; b < c.samples; ++b) {  // what lies behind a sample's end must not matter
      for (int64_t j = problem.keys_of(o.lengths, b); j < c.keys; ++j) {
        for (int64_t i = 0; i < c.heads * c.width; ++i)
          o.k.at<Bf16>(b, 0)[j * o.k.row + i] = o.v.at<Bf16>(b, 0)[j * o.v.row + i] = narrow(NAN);
      }
    }
  }
  int64_t hidden() const { return c.heads * c.width; }
  // Some queries see no key, the others a window and what is far behind it.
  void fill_mask() {
    PhiloxStream r(5, 0, 1);
    for (int64_t at = 0; at < added.size(); ++at) {
      const int64_t i = at / c.keys % c.queries, j = at % c.keys;
      added[at] = i % 13 != 5 && (std::abs(i - j) < 20 || j - i > 120) ? r.uniform(-1, 1) : -INFINITY;
    }
  }
  // The summand of a score; minus infinity where the key is hidden.
  double mask(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!o.mask.data) return 0;
    const int64_t at = b * o.mask.batch + h * o.mask.head + i * o.mask.row + j;
    return o.mask.added ? added[at] : shown[at] ? 0 : -INFINITY;
  }
  int64_t seen(int64_t b, int64_t query) const {
    const int64_t keys = problem.keys_of(o.lengths, b);
    return c.causal ? std::min(keys, query + 1) : keys;
  }
  void forward() {
    const Bf16Attention attention(problem, false);
    poison_thread_scratch();
    attention.forward(o);
  }
  void backward() {
    const Bf16Attention attention(problem, true);
    poison_thread_scratch();
    attention.backward(o);
  }

  const AttentionCase c;
  Guarded<Bf16> qkv, q, kv, dqkv, dq, dkv, y, dy;
  Guarded<float> lse, dlse;
  Guarded<uint8_t> shown;
  Guarded<float> added;
  std::vector<int64_t> lengths;
  std::vector<int32_t> short_lengths;
  AttentionProblem problem;
  AttentionOperands o;
};

// A sum of terms that were rounded, and what it may be off by.
struct Rounded {
  double sum = 0, magnitude = 0;
  void add(double term) {
    sum += term;
    magnitude += std::fabs(term);
  }
  void expect(double got, const std::string& what) const {
    ASSERT_NEAR(got, sum, kRounding * (magnitude + std::fabs(sum)) + kFloats * (1 + magnitude)) << what;
  }
};

// (B, H, T, S): softmax of the scaled scores; 0 for keys that are not seen.
std::vector<double> check_statistics(const AttentionRun& r) {
  const AttentionCase& c = r.c;
  std::vector<double> p(static_cast<size_t>(c.samples * c.heads * c.queries * c.keys));
  for (int64_t row = 0; row < c.samples * c.heads * c.queries; ++row) {
    const int64_t i = row % c.queries, h = row / c.queries % c.heads, b = row / c.queries / c.heads;
    double total = 0;
    double* weights = p.data() + row * c.keys;
    for (int64_t j = 0; j < r.seen(b, i); ++j)
      total += weights[j] = std::exp(0.5 * dot(r.o.q, i, r.o.k, j, b, h, c.width) + r.mask(b, h, i, j));
    if (total == 0) total = 1;  // no key is seen
    for (int64_t j = 0; j < c.keys; ++j) weights[j] /= total;
    EXPECT_NEAR(value(r.lse[row]), std::log(total), kFloats) << "row " << row;
  }
  return p;
}

class Bf16AttentionOf : public testing::TestWithParam<AttentionCase> {};

TEST_P(Bf16AttentionOf, GivesWhatPlainLoopsGive) {
  FREIGHT_NEEDS_BF16();
  const AttentionCase& c = GetParam();
  AttentionRun r(c);
  r.forward();
  const std::vector<double> p = check_statistics(r);
  r.backward();
  for (int64_t head = 0; head < c.samples * c.heads; ++head) {
    const int64_t b = head / c.heads, h = head % c.heads;
    const auto weight = [&](int64_t i, int64_t j) {
      return p[static_cast<size_t>((head * c.queries + i) * c.keys + j)];
    };
    std::vector<double> ds(static_cast<size_t>(c.queries * c.keys));
    for (int64_t i = 0; i < c.queries; ++i) {
      // y as it was stored: the gradient reads it.
      const double mean = dot(r.o.y, i, r.o.dy, i, b, h, c.width) - (c.dlse ? value(r.dlse[head * c.queries + i]) : 0);
      for (int64_t j = 0; j < r.seen(b, i); ++j)
        ds[static_cast<size_t>(i * c.keys + j)] = 0.5 * weight(i, j) * (dot(r.o.dy, i, r.o.v, j, b, h, c.width) - mean);
    }
    for (int64_t d = 0; d < c.width; ++d) {
      for (int64_t i = 0; i < c.queries; ++i) {
        Rounded y, dq;
        for (int64_t j = 0; j < r.seen(b, i); ++j) {
          y.add(weight(i, j) * at(r.o.v, b, h, j, d));
          dq.add(ds[static_cast<size_t>(i * c.keys + j)] * at(r.o.k, b, h, j, d));
        }
        const std::string where = cat("head ", head, " query ", i, " number ", d);
        ASSERT_NO_FATAL_FAILURE(y.expect(at(r.o.y, b, h, i, d), "y: " + where));
        ASSERT_NO_FATAL_FAILURE(dq.expect(at(r.o.dq, b, h, i, d), "dq: " + where));
      }
      for (int64_t j = 0; j < c.keys; ++j) {
        Rounded dk, dv;
        for (int64_t i = 0; i < c.queries; ++i) {
          if (j >= r.seen(b, i)) continue;
          dk.add(ds[static_cast<size_t>(i * c.keys + j)] * at(r.o.q, b, h, i, d));
          dv.add(weight(i, j) * at(r.o.dy, b, h, i, d));
        }
        const std::string where = cat("head ", head, " key ", j, " number ", d);
        ASSERT_NO_FATAL_FAILURE(dk.expect(at(r.o.dk, b, h, j, d), "dk: " + where));
        ASSERT_NO_FATAL_FAILURE(dv.expect(at(r.o.dv, b, h, j, d), "dv: " + where));
      }
    }
  }
  for (int64_t i = 0; i < r.y.size(); ++i) {  // between the rows of y nothing was written
    if (i / r.hidden() % 2 == 0) {
      ASSERT_EQ(r.y[i], 0xffff) << i;
    }
  }
}

TEST_P(Bf16AttentionOf, GivesEqualBitsForAnyNumberOfThreads) {
  FREIGHT_NEEDS_BF16();
  const auto bits = [](const auto& take) {
    for_any_threads([&] {
      AttentionRun r(GetParam());
      r.forward();
      r.backward();
      return take(r).copied();
    });
  };
  bits([](const AttentionRun& r) -> const auto& { return r.y; });
  bits([](const AttentionRun& r) -> const auto& { return r.lse; });
  bits([](const AttentionRun& r) -> const auto& { return r.c.in_one() ? r.dqkv : r.dkv; });
  bits([](const AttentionRun& r) -> const auto& { return r.c.in_one() ? r.dqkv : r.dq; });
}

// T, S, D; 530 queries are more than one task's.
constexpr AttentionCase::Lengths kNone{}, kShort = AttentionCase::Lengths::i32, kLong = AttentionCase::Lengths::i64;
constexpr AttentionCase::Mask kMaskedKeys = AttentionCase::Mask::keys, kMaskedSamples = AttentionCase::Mask::samples,
                              kMaskedHeads = AttentionCase::Mask::heads;
INSTANTIATE_TEST_SUITE_P(
    Sizes, Bf16AttentionOf,
    testing::Values(AttentionCase{1, 1, 8, false}, AttentionCase{1, 1, 1, true, kNone, true, 1, 1},
                    AttentionCase{5, 5, 40, true}, AttentionCase{33, 33, 64, true, kNone, true},
                    AttentionCase{33, 33, 100, false, kShort, true}, AttentionCase{70, 70, 8, true, kShort},
                    AttentionCase{200, 200, 64, true, kLong, true}, AttentionCase{200, 200, 40, false},
                    AttentionCase{1, 200, 64, false, kLong}, AttentionCase{200, 1, 8, false, kShort, true},
                    AttentionCase{5, 33, 100, true, kNone, true}, AttentionCase{33, 5, 64, true, kShort},
                    AttentionCase{70, 200, 40, false, kShort, true}, AttentionCase{200, 70, 100, true, kLong, true},
                    AttentionCase{70, 200, 64, true, kNone, false}, AttentionCase{128, 256, 32, false},
                    AttentionCase{530, 530, 8, true, kNone, true, 1, 1}, AttentionCase{530, 40, 8, false, kLong, true},
                    AttentionCase{33, 33, 64, true, kNone, true, 3, 2, kMaskedKeys},
                    AttentionCase{5, 33, 100, false, kNone, true, 3, 2, kMaskedKeys},
                    AttentionCase{200, 200, 64, false, kNone, true, 3, 2, kMaskedSamples},
                    AttentionCase{200, 70, 8, true, kLong, true, 3, 2, kMaskedSamples},
                    AttentionCase{70, 200, 40, false, kShort, false, 3, 2, kMaskedHeads}),
    [](const auto& each) { return print(each.param); });

TEST(Bf16Attention, AKeyAtMinusInfinityIsNotSeen) {
  FREIGHT_NEEDS_BF16();
  AttentionRun r({33, 33, 8, false, kNone, false, 1, 1});
  for (int64_t i = 0; i < 33; ++i) r.o.q.at<Bf16>(0, 0)[i * r.o.q.row] = narrow(1);
  for (const int64_t j : {0, 7, 32}) r.o.k.at<Bf16>(0, 0)[j * r.o.k.row] = narrow(-INFINITY);
  r.forward();
  const std::vector<double> p = check_statistics(r);
  for (int64_t i = 0; i < 33; ++i) {
    for (int64_t d = 0; d < 8; ++d) {
      Rounded y;
      for (int64_t j = 0; j < 33; ++j) y.add(p[static_cast<size_t>(i * 33 + j)] * at(r.o.v, 0, 0, j, d));
      ASSERT_NO_FATAL_FAILURE(y.expect(at(r.o.y, 0, 0, i, d), cat("query ", i, " number ", d)));
    }
  }
}

// The largest scaled score is the smallest one then: the exponentials of others must not overflow.
TEST(Bf16Attention, ANegativeScaleKeepsLargeScoresFinite) {
  FREIGHT_NEEDS_BF16();
  AttentionRun r({2, 2, 1, false, kNone, false, 1, 1});
  r.problem.scale = -0.5f;
  for (int64_t i = 0; i < 2; ++i) {
    *(r.o.q.at<Bf16>(0, 0) + i * r.o.q.row) = narrow(16);
    *(r.o.k.at<Bf16>(0, 0) + i * r.o.k.row) = narrow(i == 0 ? 16 : -16);
  }
  r.forward();
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(r.lse[i], 128.0f);
    EXPECT_EQ(at(r.o.y, 0, 0, i, 0), at(r.o.v, 0, 0, 1, 0));
  }
}

TEST(Bf16Attention, AQueryThatIsNoNumberSpoilsItsOwnRowAlone) {
  FREIGHT_NEEDS_BF16();
  AttentionRun r({40, 70, 8, false, kNone, false, 1, 1});
  r.o.q.at<Bf16>(0, 0)[35 * r.o.q.row + 3] = narrow(NAN);
  r.forward();
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::isnan(value(r.lse[i])), i == 35) << i;
    for (int64_t d = 0; d < 8; ++d) EXPECT_EQ(std::isnan(at(r.o.y, 0, 0, i, d)), i == 35) << i;
  }
}

}  // namespace
}  // namespace freight::cpu
