// Finds within three seconds which rank of a job is lost: each rank sends a heartbeat a second, with its step and
// collective, to rank 0, and rank 0 sends one to each. The first fault that rank 0 finds or learns of is the job's
// fault, and all ranks get it.
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

// The last known state of a rank.
struct RankState {
  uint32_t calls = 0;   // collectives that it has entered
  uint64_t call = 0;    // the last collective, packed
  int64_t step = 0;     // the step of that collective
  bool inside = false;  // it is still in that collective
};

class Watchdog {
 public:
  // Takes the connections of the rendezvous and starts. `on_fault` is called once, from another thread, when the job is
  // over.
  Watchdog(int rank, NetworkRendezvous& rendezvous, std::function<void()> on_fault);
  // Informs the others that this rank leaves in good order, unless the job is over.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void publish(const RankState& own);            // sets what the next heartbeats say
  void saw(int other, const RankState& theirs);  // records a state that came by another way than a heartbeat

  bool is_over() const { return over_.load(std::memory_order_acquire); }
  // The job's fault if it is over, or will be within `seconds`.
  std::optional<JobFault> fault_within(double seconds);
  // Ends the job for this rank at once, and tells rank 0.
  void end(const JobFault& fault) noexcept;
  // Reports a fault to rank 0 and returns the job's fault, which may be another one that came first.
  JobFault settle(const JobFault& fault);

  const std::string& host(int rank) const { return peers_[static_cast<size_t>(rank)].host; }
  // Describes a rank's process: "its process 12 on host b".
  std::string process_of(int rank) const;
  // Describes a rank's last position: "rank 2 was last in barrier at step 7".
  std::string last_seen(int rank) const;

 private:
  struct Connection;  // a connection to another rank
  struct Message;

  void propose(const JobFault& fault);
  void watch();
  void tick();
  void read_all();
  void handle_message(int other, const Message& message);
  void beat();
  void look_for_slow_ranks();
  void declare_lost(int other, const std::string& how);
  bool adopt(const JobFault& fault);
  void send(const Message& message, int to);
  Message message_of(const JobFault& fault) const;
  int rank_of(size_t connection) const { return rank_ == 0 ? static_cast<int>(connection) : 0; }

  const int rank_;
  const std::vector<NetworkPeer> peers_;
  const std::function<void()> on_fault_;
  // Rank 0 has one to each rank, by rank (its own is unused); each other rank has one, to rank 0.
  std::vector<Connection> connections_;
  std::mutex sending_;
  mutable std::mutex guard_;
  std::condition_variable changed_;
  std::vector<RankState> states_;  // by rank
  std::optional<JobFault> fault_;
  std::atomic<bool> over_ = false, stop_ = false;
  // Seconds that ranks have waited for a slow one, and how many of these were reported.
  double stalled_ = 0, reported_ = 0;
  uint32_t stalled_call_ = 0;
  int ticks_ = 0;
  Descriptor wake_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace freight::comm
