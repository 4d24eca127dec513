// The input of the network of --model mlp, and the statistics of numeric columns that it needs before training: mean,
// standard deviation and the bins of a piecewise linear encoding (Gorishniy et al. 2022, arXiv:2203.05556).
#pragma once
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/tables/tree_columns.h"

namespace freight::tables {

// Encodes F numeric and C categorical columns as rows of 2 F + C numbers: the numbers, 0 for missing ones; 1 for each
// number that is present; and for each categorical column the index of its embedding.
class MlpColumns {
 public:
  // Takes categories and origins from the training rows.
  MlpColumns(const std::vector<store::Column>& columns, const store::Rows& rows)
      : MlpColumns(columns, TreeColumns(columns, rows)) {}
  MlpColumns(const std::vector<store::Column>& columns, TreeColumns features);
  const TreeColumns& features() const { return features_; }

  const std::vector<int64_t>& numbers() const { return numbers_; }  // numeric columns (F)
  const std::vector<int64_t>& words() const { return words_; }      // categorical columns (C)
  int64_t embeddings() const { return embeddings_; }                // number of embeddings
  int64_t width() const { return static_cast<int64_t>(2 * numbers_.size() + words_.size()); }

  // Encodes rows [begin, end) of f64 (N, columns), followed by rows of zeros, as f32 (count, width).
  Array encode(const store::RowValues& rows, int64_t begin, int64_t end, int64_t count) const;
  Array encode(const store::RowValues& rows) const { return encode(rows, 0, rows.count(), rows.count()); }

 private:
  TreeColumns features_;
  std::vector<int64_t> numbers_, words_;
  std::vector<int64_t> first_;  // by categorical column: the embedding of missing, unknown and rare categories
  int64_t embeddings_ = 0;
};

// The largest distance from a column's mean, in standard deviations; numbers beyond are clipped.
inline constexpr float kMlpFarthest = 1e6f;

// The statistics of F numeric columns with at most B bins, all f32. A number x is encoded as (x - mean) * slope.
struct MlpBins {
  Array mean, slope;           // (F); the slope of a constant column is 0
  Array bin_start, bin_slope;  // (F, B); the slope of unused bins is 0

  int64_t count() const { return bin_start.shape()[1]; }  // B
};
// Computes them from the encoded training rows. Throws Error(data) that names a column with numbers beyond f32.
MlpBins mlp_bins(const MlpColumns& columns, const std::vector<store::Column>& named, const Array& encoded,
                 const store::Rows& rows);

}  // namespace freight::tables
