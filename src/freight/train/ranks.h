// Ranks: the processes that train one run together, each on its share of every batch. A run knows them by this; how
// bytes travel is comm's business. Rank 0 has the run's directory and its terminal; the others begin with its values.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/comm/comm.h"
#include "freight/nn/module.h"
#include "freight/train/sharding.h"

namespace freight::train {

// Something that a rank wants and all must do at the same step.
struct Wish {
  int64_t interrupts = 0, terminations = 0;  // signals: SIGINT, SIGTERM
  int64_t stop = 0;                          // by the observer
  std::optional<double> lr = {};             // the learning rate in place of the schedule's; of rank 0 alone
  bool any_stop() const { return interrupts > 0 || terminations > 0 || stop > 0; }
};

// Whether sums of gradients are made beside the backward half: where its plan says that it pays, or always, or never.
enum class Overlap : uint8_t { automatic, yes, no };
// "auto", "yes", "no". Throws Error(usage) for another word.
Overlap parse_overlap(const std::string& word);

// Where a library with collectives of its own lets the ranks meet, and how long they wait for each other.
struct RankMeeting {
  // The numeric address of rank 0, which alone asks. It may throw Error(usage) where there is none.
  std::function<std::string()> address = [] { return std::string("127.0.0.1"); };
  double timeout = 120;  // seconds
};

class Ranks {
 public:
  explicit Ranks(std::unique_ptr<comm::Comm> comm, Overlap overlap = Overlap::automatic, RankMeeting meeting = {});

  int rank() const { return comm_->rank(); }
  int world() const { return comm_->world(); }
  bool first() const { return rank() == 0; }
  comm::Comm& comm() { return *comm_; }
  Overlap overlap() const { return overlap_; }
  const RankMeeting& meeting() const { return meeting_; }
  Deal deal(int64_t shards) const { return {shards, rank(), world()}; }

  // Rank 0's text, on all. What the others give is not looked at.
  std::string from_first(const std::string& text);
  // Throws Error(usage) on all ranks that names the first whose text is not rank 0's, and both: "rank 1 has seed 3,
  // rank 0 has seed 0".
  void need_equal(const std::string& what, const std::string& mine);
  // Rank 0's elements, on all.
  void broadcast(const std::vector<nn::NamedVariable>& variables);
  void broadcast(void* data, size_t bytes);
  // The sum over all ranks, of few numbers.
  void sum(std::vector<double>& numbers);
  // Returns when all ranks called it. Throws Error(peer_lost) that names the rank which is lost or gave up: what
  // another library's collective only knows as a closed connection.
  void wait_for_all() { comm_->barrier(); }
  // Everybody's numbers, by rank; each brings as many.
  std::vector<double> gather(const std::vector<double>& mine);

  // The wishes of this rank, as of now: what was said by wish() and by signals. They are taken: the next call has those
  // that came since.
  Wish take_wish();
  void wish(const Wish& also);
  // Takes in what all ranks want together, the same on each; a stop holds from then on (signals.h).
  void agree(const Wish& all);
  const Wish& agreed() const { return agreed_; }
  // The learning rate that was agreed on, once.
  std::optional<double> take_rate();

 private:
  std::unique_ptr<comm::Comm> comm_;
  Overlap overlap_;
  RankMeeting meeting_;
  Wish mine_, agreed_;
};

// A wish as numbers that can be added, and back.
constexpr size_t kWishNumbers = 5;
void put(const Wish& wish, double* numbers);
Wish wish_of(const double* numbers);

}  // namespace freight::train
