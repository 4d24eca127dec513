// Work that rank 0 calls the other ranks to, piece by piece. The ranks of a net all run its steps; a run of a table is
// rank 0's alone, which reads, decides and stores, and only some fits are done by all (RowLearner::help). Between them
// the others wait here.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "freight/job/ranks.h"
#include "freight/train/config.h"

namespace freight::tables {

// Rank 0's end. While nothing is shared a thread of its own tells the others now and then that rank 0 lives, so that
// reading a table, or a fit of its own, may take longer than they wait for one that is lost. The ranks' collectives are
// free within a piece alone.
class RankWork {
 public:
  explicit RankWork(job::Ranks& ranks);
  ~RankWork();
  RankWork(const RankWork&) = delete;
  RankWork& operator=(const RankWork&) = delete;

  job::Ranks& ranks() { return ranks_; }
  // True once a piece ended without done(): the others are somewhere within it, and nothing more can be shared.
  bool failed() const { return failed_; }

  // While it lives, all ranks do one piece of work, and until done() says that the others are through with it.
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
  // Says that nothing more comes: follow() returns on the others. `stopped`: by a signal.
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
  std::exception_ptr fault_;  // of the thread: a rank that is lost
};

// The end of the others: does the pieces that rank 0 calls them to, until none comes. True where a signal stopped the
// run.
bool follow(const train::Config& config, job::Ranks& ranks);

}  // namespace freight::tables
