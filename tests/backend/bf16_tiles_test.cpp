// Tiles of bf16 products whose operands move along each other, with each table that the processor can run, against
// plain loops. Operands, tiles and results are Guarded: nothing is read or written outside.
#include "freight/backend/cpu/kernels/bf16/tiles.h"

#include "tests/backend/bf16_kernels.h"

namespace freight::cpu {
namespace {

constexpr int64_t kSide = Bf16Table::kSide, kSteps = Bf16Table::kSteps, kLanes = kSide / 2;
constexpr int64_t kSums = Bf16Tiles::kSums, kTile = Bf16Table::kPiece / 2;
constexpr int64_t kMoves = 6;  // 0 to 5 steps

// `lines` lines of a panel behind others, whose steps lie in no order.
class Sequence {
 public:
  Sequence(int64_t lines, int64_t steps, uint64_t seed) : lines_(lines), memory_(steps * pitch()) {
    std::vector<Bf16> bits(static_cast<size_t>(steps * lines));
    fill_exact(bits.data(), steps * lines, seed);
    for (int64_t s = 0; s < steps; ++s) {
      at_.push_back(memory_.data() + s * 7 % steps * pitch());
      for (int64_t i = 0; i < lines; ++i)
        memory_[at_.back() - memory_.data() + kBefore + i] = bits[static_cast<size_t>(s * lines + i)];
    }
    at_.insert(at_.end(), kSteps + 1, zeros_.data());
  }
  Bf16Sequence from(int64_t step, int64_t steps) const {
    return {.steps_at = at_.data() + step, .first = kBefore, .steps = steps, .lines = lines_};
  }
  int64_t tiles() const { return lines_ > kLanes ? 2 : 1; }
  // Row i of a tile.
  double at(int64_t step, int64_t tile, int64_t i) const {
    const int64_t line = tiles() == 2 ? Bf16TileTable::line(tile, i) : i;
    return line < lines_ ? value(at_[static_cast<size_t>(step)][kBefore + line]) : 0;
  }

 private:
  static constexpr int64_t kBefore = 5;
  int64_t pitch() const { return kBefore + lines_; }
  int64_t lines_;
  Guarded<Bf16> memory_;
  std::vector<Bf16> zeros_ = std::vector<Bf16>(kBefore + kSide);
  std::vector<const Bf16*> at_;
};

// The tiles of both operands: `pieces` pieces of rows, columns that can move.
struct Packed {
  Packed(const Bf16TileTable& table, const Sequence& left, const Sequence& right, int64_t pieces)
      : length(pieces * kTile), stream(length + kMoves * kLanes), a(left.tiles() * length), b(4 * stream) {
    for (int64_t i = 0; i < pieces; ++i) {
      Bf16Sequence s = left.from(i * kSteps, kSteps);
      s.second = length;
      table.pack(a.data() + i * kTile, s, Bf16Table::Operand::left);
    }
    Bf16Sequence s = right.from(0, pieces * kSteps + kMoves);
    s.second = stream;
    s.odd = 2 * stream;
    table.pack(b.data(), s, Bf16Table::Operand::right);
  }
  const Bf16* columns(int64_t tile, int64_t move) const {
    return b.data() + (move % 2 * 2 + tile) * stream + move / 2 * kSide;
  }
  int64_t length, stream;
  Guarded<Bf16> a, b;
};

void expect_sums(const float* sums, const Sequence& left, int64_t row_tile, const Sequence& right, int64_t column_tile,
                 int64_t move, int64_t steps, int times) {
  for (int64_t i = 0; i < kSums; ++i) {
    double v = 0;
    for (int64_t s = 0; s < steps; ++s)
      v += left.at(s, row_tile, i / kLanes) * right.at(s + move, column_tile, i % kLanes);
    ASSERT_EQ(value(sums[i]), v * times) << "tiles " << row_tile << " " << column_tile << " moved by " << move
                                         << " row " << i / kLanes << " column " << i % kLanes;
  }
}

// `count` tiles of columns, each moved by another step, by one tile of rows or two.
void check_products(const Bf16Table& table, const Sequence& left, const Sequence& right, int64_t pieces, int count,
                    bool two) {
  const Packed packed(*table.tiles, left, right, pieces);
  const Guarded<float> sums(count * kSums), sums2(two ? count * kSums : 0);
  Bf16Tiles t{.a = packed.a.data(), .count = count, .sums = sums.data(), .sums2 = sums2.data()};
  if (two) t.a2 = t.a + packed.length;
  const auto tile = [&](int64_t k) { return k % right.tiles(); };
  const auto move = [&](int64_t k) { return (k * 5 + count) % kMoves; };
  for (int k = 0; k < count; ++k) t.b[k] = packed.columns(tile(k), move(k));
  table.begin();
  table.tiles->multiply(t, pieces, false);
  table.tiles->multiply(t, pieces, true);
  table.end();
  for (int64_t k = 0; k < count; ++k) {
    expect_sums(sums.data() + k * kSums, left, 0, right, tile(k), move(k), pieces * kSteps, 2);
    if (two) expect_sums(sums2.data() + k * kSums, left, 1, right, tile(k), move(k), pieces * kSteps, 2);
  }
}

TEST(Bf16Tiles, HoldTheProductsOfOperandsMovedByAnyStep) {
  FREIGHT_NEEDS_BF16();
  for (const Bf16Table* table : all_tables()) {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {1, 32}, {7, 16}, {16, 31}, {17, 7}, {31, 17}, {32, 32}}) {
      for (const int64_t pieces : {1, 3}) {
        const Sequence left(rows, pieces * kSteps, 1), right(columns, pieces * kSteps + kMoves, 99);
        for (int count = 1; count <= Bf16Tiles::kMost; ++count) {
          SCOPED_TRACE(cat(table->name, " ", rows, "x", columns, " pieces ", pieces, " count ", count));
          check_products(*table, left, right, pieces, count, false);
          if (left.tiles() == 2 && count <= Bf16Tiles::kMost / 2)
            check_products(*table, left, right, pieces, count, true);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Bf16Tiles, FinishRoundsColumnsAndWritesNothingElse) {
  FREIGHT_NEEDS_BF16();
  for (const Bf16Table* table : all_tables()) {
    std::vector<Bf16> bits(kSums);
    fill_uniform(bits.data(), kSums, 1);
    const Guarded<float> sums(kSums);
    for (int64_t i = 0; i < kSums; ++i)
      sums[i] = static_cast<float>(value(bits[static_cast<size_t>(i)]) * (1 + 0x1p-9));
    sums[3] = INFINITY;
    sums[kLanes + 5] = NAN;
    const float* rows[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) rows[i] = sums.data() + i * 3 % kLanes * kLanes;
    for (const int64_t n : {1, 9, 16}) {
      SCOPED_TRACE(cat(table->name, " ", n));
      const int64_t pitch = n + 2;
      const Guarded<Bf16> y((kLanes - 1) * pitch + n);
      int32_t at[kLanes];
      for (int64_t j = 0; j < kLanes; ++j) at[j] = j % 5 == 2 ? -1 : static_cast<int32_t>(j * pitch);
      table->tiles->finish(rows, n, y.data(), at);
      for (int64_t i = 0; i < y.size(); ++i) {
        const int64_t j = i / pitch, k = i % pitch;
        if (k >= n || at[j] < 0) {
          ASSERT_EQ(y[i], 0xffff) << "written outside: column " << j << " number " << k;
        } else {
          ASSERT_TRUE(same(value(y[i]), value(narrow(value(rows[k][j]))))) << "column " << j << " number " << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace freight::cpu
