// Share: which batches of an epoch, or which pieces of every batch, one of several readers makes.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace freight::data {

// The part of an epoch that one of several readers makes: of numbers that go round from 0 to `of` - 1 those from
// `first` to `end` - 1. They number the batches, or, with `cut`, the pieces that every batch is cut into. Piece i of n
// samples is [i n / of, (i + 1) n / of), so that pieces differ by a sample at most; pieces for readers that are not
// alike have `bounds`.
struct Share {
  int64_t of = 1;     // readers' numbers go round from 0 to this - 1
  int64_t first = 0;  // the first number of this reader
  int64_t end = 1;    // one beyond its last
  bool cut = false;   // the numbers are those of a batch's pieces, not of whole batches
  // With `cut`, of + 1 numbers from 0 on that rise: piece i of n samples is [bounds[i] n / L, bounds[i + 1] n / L), L
  // the last of them. Empty: all pieces are alike.
  std::vector<int64_t> bounds = {};

  int64_t width() const { return end - first; }  // how many numbers the reader has
  // The number of batches or pieces of an epoch of so many batches that are in this share.
  int64_t count(int64_t batches) const;
  // The number among all of the epoch of this share's k-th batch or piece.
  int64_t number(int64_t k) const { return k / width() * of + first + k % width(); }
  // Samples [begin, begin + count) of a batch of n: those of piece number `piece`.
  std::pair<int64_t, int64_t> rows(int64_t piece, int64_t n) const;
  // No piece of this reader has more samples, in batches of at most n.
  int64_t most_rows(int64_t n) const;
};

}  // namespace freight::data
