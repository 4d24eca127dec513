// The input of the network of --model mlp, and what the network knows of the columns of numbers before it is trained:
// mean, deviation and the bins of a piecewise linear encoding (Gorishniy et al. 2022, arXiv:2203.05556).
#pragma once
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/tables/tree_columns.h"

namespace freight::tables {

// F columns of numbers and C of words become one row of 2 F + C numbers: the numbers, 0 where a cell is missing; 1 for
// each of them that is there; and for each column of words the row of the table of embeddings.
class MlpColumns {
 public:
  // Categories and origins are those of the training rows.
  MlpColumns(const std::vector<store::Column>& columns, const store::Rows& rows)
      : MlpColumns(columns, TreeColumns(columns, rows)) {}
  MlpColumns(const std::vector<store::Column>& columns, TreeColumns features);
  const TreeColumns& features() const { return features_; }

  const std::vector<int64_t>& numbers() const { return numbers_; }  // columns of numbers, F of them
  const std::vector<int64_t>& words() const { return words_; }      // columns of words, C of them
  int64_t embeddings() const { return embeddings_; }                // rows of the table of embeddings
  int64_t width() const { return static_cast<int64_t>(2 * numbers_.size() + words_.size()); }

  // Rows [begin, end) of f64 (N, columns), and behind them as many rows of zeros as make `count`: f32 (count, width).
  Array encode(const Array& rows, int64_t begin, int64_t end, int64_t count) const;
  Array encode(const Array& rows) const { return encode(rows, 0, rows.shape()[0], rows.shape()[0]); }

 private:
  TreeColumns features_;
  std::vector<int64_t> numbers_, words_;
  std::vector<int64_t> first_;  // by column of words: its embedding of missing, unknown and rare words
  int64_t embeddings_ = 0;
};

// Deviations from a column's mean; numbers beyond count as that far.
inline constexpr float kMlpFarthest = 1e6f;

// All f32, for F columns of numbers with B bins at most. A number x counts as (x - mean) * slope.
struct MlpBins {
  Array mean, slope;           // (F); a column that never changes has the slope 0
  Array bin_start, bin_slope;  // (F, B); the bins that a column lacks have the slope 0

  int64_t count() const { return bin_start.shape()[1]; }  // B
};
// By the encoded training rows. Throws Error(data) naming a column with numbers beyond f32.
MlpBins mlp_bins(const MlpColumns& columns, const std::vector<store::Column>& named, const Array& encoded,
                 const store::Rows& rows);

}  // namespace freight::tables
