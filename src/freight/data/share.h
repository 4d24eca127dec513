// Share: the batches of an epoch, or the pieces of every batch, that one of several readers makes.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace freight::data {

// The part of an epoch that one of several readers makes. Batches, or with `cut` the pieces of every batch, are
// numbered from 0 to `of` - 1 in turn, and the reader makes those with numbers from `first` to `end` - 1. Piece i of n
// samples is [i n / of, (i + 1) n / of), so that pieces differ by at most one sample; heterogeneous readers have
// `bounds`.
struct Share {
  int64_t of = 1;     // numbers repeat after this many
  int64_t first = 0;  // the first number of this reader
  int64_t end = 1;    // one beyond its last
  bool cut = false;   // numbers are for pieces of a batch, not for whole batches
  // With `cut`, of + 1 ascending numbers from 0: piece i of n samples is [bounds[i] n / L, bounds[i + 1] n / L), where
  // L is the last of them. Empty: all pieces are equal.
  std::vector<int64_t> bounds = {};

  int64_t width() const { return end - first; }  // the count of the reader's numbers
  // The number of batches or pieces in this share, for an epoch of `batches` batches.
  int64_t count(int64_t batches) const;
  // The index in the epoch of this share's k-th batch or piece.
  int64_t number(int64_t k) const { return k / width() * of + first + k % width(); }
  // {begin, count} of the samples of a piece in a batch of n.
  std::pair<int64_t, int64_t> rows(int64_t piece, int64_t n) const;
  // The largest number of samples of this reader's pieces, for batches of at most n.
  int64_t most_rows(int64_t n) const;
};

}  // namespace freight::data
