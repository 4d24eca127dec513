// The numbers by which a row of a table enters the nets of --model mlp. A column of numbers is centred and scaled, and
// its range is cut at quantiles of the training rows, between which the net is linear in it (Gorishniy et al. 2022,
// arXiv:2203.05556, "piecewise linear encoding"). A column of words has a row of the table of embeddings for each word.
#pragma once
#include <string>
#include <vector>

#include "freight/base/array.h"
#include "freight/io/safetensors.h"
#include "freight/store/row_model.h"

namespace freight::tables {

class MlpColumns {
 public:
  // Takes scales, quantiles and words from the training rows, f64 (N, columns). A column that never changes is left
  // out. Throws Error(data) naming a column of numbers that are not finite, or whose squares are not.
  MlpColumns(const store::RowShape& shape, const store::Rows& rows);
  // Those that write() wrote. Throws Error(checkpoint) that names `path` where these are damaged.
  MlpColumns(const store::RowShape& shape, const io::SafeTensors& file, const std::string& path);
  void write(io::SafeTensors& file) const;

  int64_t numbers() const { return static_cast<int64_t>(numbers_.size()); }  // columns of numbers, F
  int64_t words() const { return static_cast<int64_t>(words_.size()); }      // columns of words, C
  int64_t embeddings() const { return embeddings_; }                         // rows of the table of embeddings
  int64_t bins() const { return bins_; }                                     // of the column that has most, B
  // Begins of bins, and 1 / their width, which is 0 of those that a column does not have: f32 (F, B) each.
  Array bin_starts() const;
  Array bin_slopes() const;

  // Rows [begin, end) of f64 (N, columns), and behind them as many empty ones as make `count`.
  struct Encoded {
    Array numbers;  // f32 (count, F); NaN where a cell is missing
    Array words;    // i32 (count, C): rows of the table of embeddings
  };
  Encoded encode(const Array& rows, int64_t begin, int64_t end, int64_t count) const;

 private:
  struct Number {
    int64_t column = 0;
    double mean = 0, scale = 1;
    std::vector<float> edges;  // rising, of the scaled numbers
  };
  // The first of its embeddings is that of missing cells, of words that training did not see, and of rare ones.
  struct Words {
    int64_t column = 0, first = 0;
    std::vector<int32_t> numbers;  // by level: 0, or which of the others
  };
  void add_number(const std::string& name, int64_t column, const store::Rows& rows);
  void add_words(const store::Column& from, int64_t column, const store::Rows& rows);
  void count();
  std::vector<Number> numbers_;
  std::vector<Words> words_;
  int64_t embeddings_ = 0, bins_ = 0;
};

}  // namespace freight::tables
