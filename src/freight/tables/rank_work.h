// Work that rank 0 shares with the other ranks in pieces. All ranks of a network run its steps; a run on a table
// belongs to rank 0, which reads, decides and saves, and only some fits are made by all ranks
// (RowLearner::fit_with_rank_zero). Between these the other ranks wait here.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "freight/job/ranks.h"
#include "freight/train/config.h"

namespace freight::tables {

// Rank 0's side. While no work is shared, a thread regularly signals to the other ranks that rank 0 is alive, so that
// reading a table or fitting alone may take longer than --comm-timeout. The ranks' collectives may only be used within
// a piece.
class RankWork {
 public:
  explicit RankWork(job::Ranks& ranks);
  ~RankWork();
  RankWork(const RankWork&) = delete;
  RankWork& operator=(const RankWork&) = delete;

  job::Ranks& ranks() { return ranks_; }
  // True after a piece ended without done(): the other ranks are in the middle of it, and nothing more can be shared.
  bool failed() const { return failed_; }

  // While it exists, all ranks do one piece of work; done() says that the others have completed it.
  class Piece {
   public:
    Piece(RankWork& work, const std::string& learner) : work_(work) { work_.begin(learner); }
    ~Piece() {
      if (done_) {
        work_.rest();
      } else {
        work_.failed_ = true;
      }
    }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    void done() { done_ = true; }

   private:
    RankWork& work_;
    bool done_ = false;
  };
  // Ends the sharing, so that follow() returns on the other ranks. `stopped`: by a signal.
  void finish(bool stopped);

 private:
  friend class Piece;
  void begin(const std::string& learner);
  void rest();
  void tell_life();
  void end_signs();

  job::Ranks& ranks_;
  std::thread signs_;
  std::mutex guard_;
  std::condition_variable changed_;
  bool resting_ = false, failed_ = false;
  std::exception_ptr fault_;  // the thread's error: a rank that failed
};

// The other ranks' side: does the pieces of work that rank 0 shares, until it ends the sharing. True if a signal
// stopped the run.
bool follow(const train::Config& config, job::Ranks& ranks);

}  // namespace freight::tables
