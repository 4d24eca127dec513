// Blocks of bf16 products, with each table that the processor can run: all ways to pack, sums added to others, all
// ways to finish, against plain loops. Operands, panels and results are Guarded: nothing is read or written outside.
#include "freight/backend/cpu/kernels/bf16/blocks.h"

#include <array>

#include "tests/backend/bf16_kernels.h"
#include "tests/support/emulated_bf16.h"

namespace freight::cpu {
namespace {

// Those of the processor, and AMX in plain loops.
std::vector<const Bf16Table*> all_block_tables() {
  std::vector<const Bf16Table*> all = all_tables();
  all.push_back(&emulated::table());
  return all;
}

constexpr int64_t kSide = Bf16Table::kSide, kPiece = Bf16Table::kPiece, kBlock = Bf16Table::kBlock;

// How the lines of an operand lie in memory.
enum class Way : uint8_t { along_steps, along_lines, steps_in_no_order };
constexpr std::array kWays{Way::along_steps, Way::along_lines, Way::steps_in_no_order};

// An operand of one panel: `lines` lines of `steps` steps.
class Operand {
 public:
  Operand(Way way, int64_t lines, int64_t steps, uint64_t seed)
      : value_(static_cast<size_t>(steps * kSide)), memory_(length(way, lines, steps)) {
    const bool along_steps = way == Way::along_steps;
    lines_ = {.from = memory_.data(), .steps = steps, .lines = lines};
    (along_steps ? lines_.line_stride : lines_.step_stride) = (along_steps ? steps : lines) + kGap;
    std::vector<Bf16> bits(static_cast<size_t>(lines * steps));
    fill_exact(bits.data(), lines * steps, seed);
    for (int64_t s = 0; s < steps; ++s) {
      if (way == Way::steps_in_no_order)  // no count of steps here is a multiple of 7
        steps_at_.push_back(static_cast<int32_t>(s * 7 % steps * (lines + kGap)));
      for (int64_t i = 0; i < lines; ++i) {
        const Bf16 b = bits[static_cast<size_t>(s * lines + i)];
        memory_[steps_at_.empty() ? s * lines_.step_stride + i * lines_.line_stride : steps_at_.back() + i] = b;
        value_[static_cast<size_t>(s * kSide + i)] = value(b);
      }
    }
  }
  Bf16Lines lines() const {
    Bf16Lines l = lines_;
    if (!steps_at_.empty()) l.steps_at = steps_at_.data();
    return l;
  }
  // 0 where there is no line.
  double at(int64_t step, int64_t line) const { return value_[static_cast<size_t>(step * kSide + line)]; }
  // Of lines along the steps.
  void set(int64_t step, int64_t line, float v) {
    memory_[line * (lines_.steps + kGap) + step] = narrow(static_cast<double>(v));
    value_[static_cast<size_t>(step * kSide + line)] = static_cast<double>(v);
  }

 private:
  static constexpr int64_t kGap = 3;
  static int64_t length(Way way, int64_t lines, int64_t steps) {
    return way == Way::along_steps ? (lines - 1) * (steps + kGap) + steps : (steps - 1) * (lines + kGap) + lines;
  }

  std::vector<double> value_;
  std::vector<int32_t> steps_at_;
  Guarded<Bf16> memory_;
  Bf16Lines lines_;
};

int64_t pieces(int64_t steps) { return (steps + Bf16Table::kSteps - 1) / Bf16Table::kSteps; }

// The sums of a block, in the panels' order, and what they are.
struct Product {
  Product(const Bf16Table& table, const Operand& left, const Operand& right, int times = 1)
      : expected(static_cast<size_t>(kBlock)) {
    const int64_t steps = left.lines().steps;
    const Guarded<Bf16> a(pieces(steps) * kPiece), b(pieces(steps) * kPiece);
    table.pack(a.data(), left.lines(), Bf16Table::Operand::left);
    table.pack(b.data(), right.lines(), Bf16Table::Operand::right);
    table.begin();
    for (int i = 0; i < times; ++i) table.block(a.data(), b.data(), pieces(steps), sums.data(), i > 0);
    table.end();
    for (int64_t i = 0; i < kBlock; ++i) {
      double v = 0;
      for (int64_t s = 0; s < steps; ++s) v += left.at(s, i / kSide) * right.at(s, i % kSide);
      expected[static_cast<size_t>(i)] = v * times;
    }
  }
  Guarded<float> sums{kBlock};
  std::vector<double> expected;
};

constexpr auto place = Bf16Table::place;

// Of all 32 x 32 sums as they are.
void expect_sums(const Product& p) {
  for (int64_t i = 0; i < kBlock; ++i) {
    const float got = p.sums[place(i / kSide) * kSide + place(i % kSide)];
    ASSERT_TRUE(same(value(got), p.expected[static_cast<size_t>(i)]))
        << "row " << i / kSide << " column " << i % kSide << ": " << got << ", need "
        << p.expected[static_cast<size_t>(i)];
  }
}

TEST(Bf16Blocks, HoldTheProductsOfOperandsPackedInAnyWay) {
  for (const Bf16Table* table : all_block_tables()) {
    for (const Way a : kWays) {
      for (const Way b : kWays) {
        for (const auto& [rows, columns] : {std::pair{1, 1}, {1, 32}, {7, 16}, {16, 31}, {17, 7}, {31, 17}, {32, 32}}) {
          for (const int steps : {1, 2, 31, 32, 33, 65}) {
            SCOPED_TRACE(cat(table->name, " ways ", static_cast<int>(a), " ", static_cast<int>(b), " ", rows, "x",
                             columns, "x", steps));
            const Operand left(a, rows, steps, 1), right(b, columns, steps, 99);
            expect_sums(Product(*table, left, right));
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Bf16Blocks, AddToTheSumsThatAreThere) {
  for (const Bf16Table* table : all_block_tables()) {
    SCOPED_TRACE(table->name);
    const Operand left(Way::along_steps, 17, 70, 1), right(Way::along_lines, 31, 70, 2);
    expect_sums(Product(*table, left, right, 3));
  }
}

TEST(Bf16Blocks, SumInOneOrderForAnyCutOfThePieces) {
  for (const Bf16Table* table : all_block_tables()) {
    Guarded<Bf16> a(4 * kPiece), b(4 * kPiece);
    fill_uniform(a.data(), a.size(), 1);
    fill_uniform(b.data(), b.size(), 2);
    Guarded<float> whole(kBlock), parts(kBlock);
    table->begin();
    table->block(a.data(), b.data(), 4, whole.data(), false);
    table->block(a.data(), b.data(), 1, parts.data(), false);
    table->block(a.data() + kPiece, b.data() + kPiece, 3, parts.data(), true);
    table->end();
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.bytes()), 0) << table->name;
  }
}

// --- results ---

struct Finish {
  bool turned, bias, residual, relu, stream, bounded;
};

// The result of `rows` x `columns` sums, with everything between and around its rows as it was.
void check_finish(const Bf16Table& table, const Product& p, const Finish& f, int64_t rows, int64_t columns) {
  SCOPED_TRACE(cat(table.name, f.turned ? " turned" : "", f.bias ? " bias" : "", f.residual ? " residual" : "",
                   f.relu ? " relu" : "", f.stream ? " stream" : "", f.bounded ? " bounded" : "", " ", rows, "x",
                   columns));
  // Lines of memory pass the caches by where rows begin with them.
  const int64_t row = f.stream ? 2 * kSide : columns + 3, length = f.stream ? rows * row : (rows - 1) * row + columns;
  const Guarded<Bf16> y(length), bias(columns), residual(length);
  fill_exact(bias.data(), bias.size(), 3);
  fill_exact(residual.data(), residual.size(), 4);
  constexpr float kMost = 3;
  table.finish(p.sums.data(), {.to = y.data(),
                               .row = row,
                               .rows = rows,
                               .columns = columns,
                               .turned = f.turned,
                               .relu = f.relu,
                               .stream = f.stream,
                               .most = f.bounded ? kMost : std::numeric_limits<float>::infinity(),
                               .bias = f.bias ? bias.data() : nullptr,
                               .residual = f.residual ? residual.data() : nullptr});
  for (int64_t at = 0; at < length; ++at) {
    const int64_t i = at / row, j = at % row;
    if (j >= columns) {
      ASSERT_EQ(y[at], 0xffff) << "written outside: row " << i << " column " << j;
      continue;
    }
    double v = p.expected[static_cast<size_t>(f.turned ? j * kSide + i : i * kSide + j)];
    if (f.bias) v += value(bias[j]);
    if (f.residual) v += value(residual[at]);
    if (f.relu && v < 0) v = 0;
    if (f.bounded && v > value(kMost)) v = value(kMost);
    const double got = value(y[at]), need = value(narrow(v));
    ASSERT_TRUE(same(got, need)) << "row " << i << " column " << j << ": " << got << ", need " << need;
  }
}

void check_all_ways_to_finish(const Bf16Table& table, const Product& p) {
  for (int bits = 0; bits < 64; ++bits) {
    const auto has = [&](int bit) { return (bits >> bit & 1) != 0; };
    const Finish f{has(0), has(1), has(2), has(3), has(4), has(5)};
    for (const int64_t rows : {1, 7, 16, 17, 31, 32}) {
      for (const int64_t columns : {1, 7, 16, 17, 31, 32}) {
        check_finish(table, p, f, rows, columns);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Bf16Blocks, FinishWritesTheResultAndNothingElse) {
  for (const Bf16Table* table : all_block_tables()) {
    const Operand left(Way::along_steps, 32, 33, 1), right(Way::along_steps, 32, 33, 2);
    check_all_ways_to_finish(*table, Product(*table, left, right));
  }
}

TEST(Bf16Blocks, InfinitiesAndWhatIsNoNumberSurvive) {
  for (const Bf16Table* table : all_block_tables()) {
    Operand left(Way::along_steps, 32, 33, 1), right(Way::along_steps, 32, 33, 2);
    left.set(5, 3, INFINITY);
    left.set(32, 8, -INFINITY);
    left.set(0, 30, NAN);
    right.set(2, 20, INFINITY);
    right.set(7, 1, NAN);
    check_all_ways_to_finish(*table, Product(*table, left, right));
  }
}

}  // namespace
}  // namespace freight::cpu
