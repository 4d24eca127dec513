// PieceOrder tracks which pieces of a step's summands are complete. Pieces are summed in order, so that all ranks sum
// the same piece at the same time.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace freight::job {

class PieceOrder {
 public:
  // Sets the pieces: each ends before the summand with that index. Is called between steps.
  void cut(std::vector<size_t> ends) { ends_ = std::move(ends); }
  size_t count() const { return ends_.size(); }
  size_t begin_of(size_t piece) const { return piece == 0 ? 0 : ends_[piece - 1]; }
  size_t end_of(size_t piece) const { return ends_[piece]; }

  void start() {
    missing_.clear();
    piece_of_.clear();
    for (size_t p = 0; p < ends_.size(); ++p) {
      missing_.push_back(end_of(p) - begin_of(p));
      piece_of_.insert(piece_of_.end(), missing_.back(), p);
    }
    ready_.assign(piece_of_.size(), false);
    complete_ = 0;
  }
  bool is_ready(size_t summand) const { return ready_[summand]; }
  // Marks a summand as ready. True if that completes at least one more piece.
  bool mark(size_t summand) {
    ready_[summand] = true;
    --missing_[piece_of_[summand]];
    const size_t before = complete_;
    while (complete_ < missing_.size() && missing_[complete_] == 0) ++complete_;
    return complete_ > before;
  }
  // The number of complete pieces, counted from the first.
  size_t complete() const { return complete_; }

 private:
  std::vector<size_t> ends_, missing_, piece_of_;
  std::vector<bool> ready_;
  size_t complete_ = 0;
};

}  // namespace freight::job
