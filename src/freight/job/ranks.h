// Ranks: the processes that train one run together, each on its share of every batch. A run knows them by this; how
// bytes travel is comm's business. Rank 0 has the run's directory and its terminal; the others begin with its values.
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

// Something that a rank wants and all must do at the same step.
struct StepRequest {
  int64_t interrupts = 0, terminations = 0;  // signals: SIGINT, SIGTERM
  int64_t stop = 0;                          // by the observer
  int64_t saves = 0;                         // SIGUSR1
  std::optional<double> lr = {};             // the learning rate in place of the schedule's; of rank 0 alone
  bool any_stop() const { return interrupts > 0 || terminations > 0 || stop > 0; }
};

// The requests of several ranks as one; a learning rate is that of the first who names one.
StepRequest merged(const std::vector<StepRequest>& by_rank);

// Whether sums of gradients are made beside the backward half: where its plan says that it pays, or always, or never.
enum class Overlap : uint8_t { automatic, yes, no };
// "auto", "yes", "no". Throws Error(usage) for another word.
Overlap parse_overlap(const std::string& word);

// The place at which libraries with collectives of their own (XGBoost) find the ranks, and how long ranks wait.
struct RankRendezvous {
  // The numeric address of rank 0, which alone asks. It may throw Error(usage) where there is none.
  std::function<std::string()> address = [] { return std::string("127.0.0.1"); };
  double timeout = 120;  // seconds
};
// Says who gets how much of a batch, as --device-weights has it.
struct DeviceWeights {
  // usual: evenly for devices that are alike, else automatic: as measured steps say.
  enum class Kind : uint8_t { usual, automatic, given } kind = Kind::usual;
  std::vector<double> given = {};  // by rank
};
// "" (usual), "auto", or a number above 0 for each of `world` ranks: "4,1". Throws Error(usage).
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

  // The flag values, which preparing a run turns into weights.
  void ask(const DeviceWeights& asked) { asked_ = asked; }
  const DeviceWeights& asked() const { return asked_; }
  // The shares of a batch for ranks that are not alike (Sharding::deal), the same on all; empty: evenly.
  const std::vector<double>& weights() const { return weights_; }
  void set_weights(std::vector<double> weights) { weights_ = std::move(weights); }
  // Each rank keeps a part of the optimizer's states (state_shares.h).
  bool shares_states() const { return shares_states_; }
  void share_states() { shares_states_ = true; }
  // True where devices are of several kinds: the same sums then lead to weights that differ by rounding, and rank 0's
  // are taken over by the others now and then.
  bool unlike() const { return unlike_; }
  // Somebody's device has memory of its own: sums are made in the host's, behind the step.
  bool beside_host() const { return beside_host_; }
  // Says both, of what this rank computes on; all call it together.
  void exchange_devices(const std::string& description, bool own_memory);
  // Devices of all ranks that sum among themselves; null: sums are made in memory of the host.
  DeviceCollectives* devices() const { return devices_.get(); }
  // The same on all ranks. They are left before the ranks are.
  void use(std::unique_ptr<DeviceCollectives> devices) { devices_ = std::move(devices); }
  // Says how devices sum, in words for whoever starts the run; "" where there is nothing to say.
  const std::string& note() const { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }

  // Rank 0's text, on all. What the others give is not looked at.
  std::string from_first(const std::string& text) { return from(0, text); }
  // The text of rank `root`, on all; the texts of all, by rank.
  std::string from(int root, const std::string& text);
  std::vector<std::string> from_all(const std::string& mine);
  // Throws Error(usage) on all ranks that names the first whose text is not rank 0's, and both: "rank 1 has seed 3,
  // rank 0 has seed 0".
  void need_equal(const std::string& what, const std::string& mine);
  // Elements of rank `root`, on all.
  void broadcast(const std::vector<nn::NamedVariable>& variables, int root = 0);
  void broadcast(void* data, size_t bytes, int root = 0);
  // The sum over all ranks, of few numbers.
  void sum(std::vector<double>& numbers);
  // Everybody's value, by rank. T is sent as its bytes, so all ranks must run the same build on the same architecture.
  template <class T>
  std::vector<T> gather(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T>, "ranks exchange bytes");
    return gather(std::vector<T>{mine});
  }
  // The same for several values; all ranks give as many. Those of rank r begin at r * mine.size().
  template <class T>
  std::vector<T> gather(const std::vector<T>& mine) {
    static_assert(std::is_trivially_copyable_v<T>, "ranks exchange bytes");
    std::vector<T> all(mine.size() * static_cast<size_t>(world()));
    gather_bytes(mine.data(), all.data(), mine.size() * sizeof(T));
    return all;
  }
  // Returns when all ranks called it. Throws Error(peer_lost) that names the rank which is lost or gave up: what
  // another library's collective only knows as a closed connection.
  void wait_for_all() { comm_->barrier(); }

  // The requests of this rank, as of now: those of request() and of signals. They are taken: the next call has those
  // that came since.
  StepRequest take_request();
  void request(const StepRequest& also);
  // Takes in the requests of all ranks, by rank and the same on each; a stop holds from then on (signals.h).
  void agree(const std::vector<StepRequest>& by_rank);
  const StepRequest& agreed() const { return agreed_; }
  // True once where somebody was asked to save.
  bool take_save();
  // The learning rate that was agreed on, once.
  std::optional<double> take_rate();

 private:
  void gather_bytes(const void* mine, void* all, size_t bytes);

  std::unique_ptr<comm::Comm> comm_;
  Overlap overlap_;
  RankRendezvous rendezvous_;
  DeviceWeights asked_;
  std::vector<double> weights_;
  bool unlike_ = false, beside_host_ = false;
  bool shares_states_ = false;
  StepRequest mine_, agreed_;
  std::string note_ = {};
  std::unique_ptr<DeviceCollectives> devices_ = {};  // the last member: it asks comm_ who is lost
};

}  // namespace freight::job
