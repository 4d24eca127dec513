// Ranks are the processes that train one run together, each on its part of every batch. This is all that a run knows of
// them; comm transports the bytes. Rank 0 owns the run directory and the terminal; the others start from its values.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "freight/base/device_collectives.h"
#include "freight/comm/comm.h"
#include "freight/job/parts.h"
#include "freight/nn/module.h"

namespace freight::job {

// Requests of a rank that all ranks must act on at the same step.
struct StepRequest {
  int64_t interrupts = 0, terminations = 0;  // signals: SIGINT, SIGTERM
  int64_t stop = 0;                          // by the observer
  int64_t saves = 0;                         // SIGUSR1
  std::optional<double> lr = {};             // a learning rate instead of the schedule's; only rank 0 sets it
  bool any_stop() const { return interrupts > 0 || terminations > 0 || stop > 0; }
};

// Merges the requests of several ranks; the learning rate is that of the first rank that sets one.
StepRequest merged(const std::vector<StepRequest>& by_rank);

// When the all-reduce overlaps with the backward pass. automatic: with NCCL, or over a network if that saves 10 %.
enum class Overlap : uint8_t { automatic, yes, no };  // yes: wherever possible
// Parses "auto", "yes" or "no". Throws Error(usage) for another word.
Overlap parse_overlap(const std::string& word);

// The address at which libraries with their own collectives (XGBoost) find the ranks, and the time that ranks wait.
struct RankRendezvous {
  // Returns the numeric address of rank 0. Only rank 0 calls it; it may throw Error(usage) if there is none.
  std::function<std::string()> address = [] { return std::string("127.0.0.1"); };
  double timeout = 120;  // seconds
};
// The fraction of a batch that each rank gets (--device-weights).
struct DeviceWeights {
  // usual: even for devices of one kind, else automatic, which follows measured step times.
  enum class Kind : uint8_t { usual, automatic, given } kind = Kind::usual;
  std::vector<double> given = {};  // by rank
};
// Parses "" (usual), "auto", or a number above 0 for each of `world` ranks: "4,1". Throws Error(usage).
DeviceWeights parse_device_weights(const std::string& text, int world);

class Ranks {
 public:
  explicit Ranks(std::unique_ptr<comm::Comm> comm, Overlap overlap = Overlap::automatic,
                 RankRendezvous rendezvous = {});

  int rank() const { return comm_->rank(); }
  int world() const { return comm_->world(); }
  bool first() const { return rank() == 0; }
  comm::Comm& comm() { return *comm_; }
  Overlap overlap() const { return overlap_; }
  const RankRendezvous& rendezvous() const { return rendezvous_; }

  // Stores the flag's value, which preparing a run turns into weights.
  void ask(const DeviceWeights& asked) { asked_ = asked; }
  const DeviceWeights& asked() const { return asked_; }
  // The relative parts of a batch for heterogeneous ranks (Sharding::deal), the same on all ranks; empty: even.
  const std::vector<double>& weights() const { return weights_; }
  void set_weights(std::vector<double> weights) { weights_ = std::move(weights); }
  // True if each rank keeps only a part of the optimizer state (state_shares.h).
  bool shares_states() const { return shares_states_; }
  void share_states() { shares_states_ = true; }
  // True if the devices are of several kinds. Equal sums then lead to weights that differ by rounding, so the others
  // copy rank 0's weights at the start of each epoch (NetRun::level_ranks).
  bool unlike() const { return unlike_; }
  // True if some rank's device has its own memory: without NCCL, sums are made after the backward pass, on the host.
  bool any_device_memory() const { return any_device_memory_; }
  // Sets both from the device of each rank. A collective: all ranks call it.
  void exchange_devices(const std::string& description, bool own_memory);
  // The collectives of devices that sum among themselves; null: sums are made in host memory.
  DeviceCollectives* devices() const { return devices_.get(); }
  // Sets them, the same on all ranks. They are destroyed before comm().
  void use(std::unique_ptr<DeviceCollectives> devices) { devices_ = std::move(devices); }
  // A note for the user on how devices sum; "" if there is none.
  const std::string& note() const { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }

  // Returns rank 0's text on all ranks; the texts of the others are ignored.
  std::string from_first(const std::string& text) { return from(0, text); }
  // Return the text of rank `root`, and the texts of all ranks by rank, on all ranks.
  std::string from(int root, const std::string& text);
  std::vector<std::string> from_all(const std::string& mine);
  // Throws Error(usage) on all ranks that names the first whose text is not rank 0's, and both: "rank 1 has seed 3,
  // rank 0 has seed 0".
  void need_equal(const std::string& what, const std::string& mine);
  // Copies the elements of rank `root` to all ranks.
  void broadcast(const std::vector<nn::NamedVariable>& variables, int root = 0);
  void broadcast(void* data, size_t bytes, int root = 0);
  // Returns the values of all ranks, by rank. T is sent as bytes, so all ranks must run the same build.
  template <class T>
  std::vector<T> gather(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T>, "ranks exchange bytes");
    return gather(std::vector<T>{mine});
  }
  // The same for several values, as many on each rank. Those of rank r begin at r * mine.size().
  template <class T>
  std::vector<T> gather(const std::vector<T>& mine) {
    static_assert(std::is_trivially_copyable_v<T>, "ranks exchange bytes");
    std::vector<T> all(mine.size() * static_cast<size_t>(world()));
    gather_bytes(mine.data(), all.data(), mine.size() * sizeof(T));
    return all;
  }
  // Returns when all ranks have called it. Throws Error(peer_lost) that names the rank that failed, which a collective
  // of another library only reports as a closed connection.
  void wait_for_all() { comm_->barrier(); }

  // Takes the requests of this rank that came since the last call, by request() or by signals.
  StepRequest take_request();
  void request(const StepRequest& also);
  // Applies the requests of all ranks, given by rank and equal on all; a stop stays in effect (signals.h).
  void agree(const std::vector<StepRequest>& by_rank);
  const StepRequest& agreed() const { return agreed_; }
  // True once after a rank was asked to save.
  bool take_save();
  // Takes the learning rate that was agreed on; empty if there is none.
  std::optional<double> take_rate();

 private:
  void gather_bytes(const void* mine, void* all, size_t bytes);

  std::unique_ptr<comm::Comm> comm_;
  Overlap overlap_;
  RankRendezvous rendezvous_;
  DeviceWeights asked_;
  std::vector<double> weights_;
  bool unlike_ = false, any_device_memory_ = false;
  bool shares_states_ = false;
  StepRequest mine_, agreed_;
  std::string note_ = {};
  std::unique_ptr<DeviceCollectives> devices_ = {};  // the last member, since it asks comm_ which rank failed
};

}  // namespace freight::job
