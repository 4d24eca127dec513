// Says within three seconds who of a job is lost: each rank sends a heartbeat a second, with its step and collective,
// to rank 0, and rank 0 to each. The first fault that rank 0 finds or is told is the job's, and all ranks get it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "freight/base/error.h"
#include "freight/comm/network_rendezvous.h"

namespace freight::comm {

struct JobFault {
  ErrorKind kind = ErrorKind::peer_lost;
  std::string text;
};

// The last that is known of a rank.
struct RankState {
  uint32_t calls = 0;   // collectives that it entered
  uint64_t call = 0;    // the last one, packed
  int64_t step = 0;     // the step of it
  bool inside = false;  // it has not left that one
};

class Watchdog {
 public:
  // Takes the connections of the rendezvous and starts. `on_fault` is called once, from another thread, when the job is
  // over.
  Watchdog(int rank, NetworkRendezvous& rendezvous, std::function<void()> on_fault);
  // Tells the others that this rank leaves in good order, where the job is not over.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void publish(const RankState& own);            // what the next heartbeats say
  void saw(int other, const RankState& theirs);  // by another way than by heartbeats

  bool is_over() const { return over_.load(std::memory_order_acquire); }
  // The job's fault where it is over, or is within `seconds`.
  std::optional<JobFault> fault_within(double seconds);
  // Ends the job for this rank at once, and tells rank 0.
  void end(const JobFault& fault) noexcept;
  // Tells rank 0 and returns the job's fault, which may be another one that came first.
  JobFault settle(const JobFault& fault);

  const std::string& host(int rank) const { return peers_[static_cast<size_t>(rank)].host; }
  // "its process 12 on host b".
  std::string process_of(int rank) const;
  // "rank 2 was last in barrier at step 7".
  std::string last_seen(int rank) const;

 private:
  struct Line;  // a connection
  struct Message;

  void propose(const JobFault& fault);
  void watch();
  void tick();
  void read_all();
  void hear(int other, const Message& message);
  void beat();
  void look_for_slow_ranks();
  void lose(int other, const std::string& how);
  bool adopt(const JobFault& fault);
  void send(const Message& message, int to);
  Message message_of(const JobFault& fault) const;
  int rank_of(size_t line) const { return rank_ == 0 ? static_cast<int>(line) : 0; }

  const int rank_;
  const std::vector<NetworkPeer> peers_;
  const std::function<void()> on_fault_;
  std::vector<Line> lines_;  // rank 0's to all, by rank, its own unused; else one, to rank 0
  std::mutex sending_;
  mutable std::mutex guard_;
  std::condition_variable changed_;
  std::vector<RankState> states_;  // by rank
  std::optional<JobFault> fault_;
  std::atomic<bool> over_ = false, stop_ = false;
  double stalled_ = 0, told_ = 0;  // seconds that ranks wait for a slow one, and that were told of
  uint32_t stalled_call_ = 0;
  int ticks_ = 0;
  Descriptor wake_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace freight::comm
