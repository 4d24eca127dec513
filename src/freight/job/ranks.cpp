// See ranks.h.
#include "freight/job/ranks.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/job/signals.h"

namespace freight::job {

StepRequest merged(const std::vector<StepRequest>& by_rank) {
  StepRequest sum;
  for (const StepRequest& r : by_rank) {
    sum.interrupts += r.interrupts;
    sum.terminations += r.terminations;
    sum.stop += r.stop;
    sum.saves += r.saves;
    if (!sum.lr) sum.lr = r.lr;
  }
  return sum;
}

Overlap parse_overlap(const std::string& word) {
  if (word == "auto") return Overlap::automatic;
  need_name("--overlap", word, {"auto", "yes", "no"});
  return word == "yes" ? Overlap::yes : Overlap::no;
}

Ranks::Ranks(std::unique_ptr<comm::Comm> comm, Overlap overlap, RankRendezvous rendezvous)
    : comm_(std::move(comm)), overlap_(overlap), rendezvous_(std::move(rendezvous)) {}

DeviceWeights parse_device_weights(const std::string& text, int world) {
  if (text.empty()) return {};
  if (text == "auto") return {.kind = DeviceWeights::Kind::automatic};
  DeviceWeights w{.kind = DeviceWeights::Kind::given};
  for (const std::string& part : split(text, ',')) {
    const double v = parse_number<double>(part).value_or(0);
    if (!(v > 0 && v <= 1e6)) refuse_text("--device-weights", "auto, or numbers above 0 like 4,1", text);
    w.given.push_back(v);
  }
  need_count("--device-weights", cat("numbers for ", world, " devices"), w.given.size(), static_cast<size_t>(world));
  return w;
}

void Ranks::exchange_devices(const std::string& description, bool own_memory) {
  const std::vector<std::string> all = from_all(cat(own_memory ? 1 : 0, description));
  unlike_ = std::any_of(all.begin(), all.end(), [&](const std::string& d) { return d != all[0]; });
  any_device_memory_ = std::any_of(all.begin(), all.end(), [](const std::string& d) { return d[0] == '1'; });
}

std::string Ranks::from(int root, const std::string& text) {
  auto size = static_cast<int64_t>(text.size());
  comm_->broadcast(&size, 1, DType::i64, root);
  std::string out = text;
  out.resize(static_cast<size_t>(size));
  if (size > 0) comm_->broadcast(out.data(), size, DType::u8, root);
  return out;
}

std::vector<std::string> Ranks::from_all(const std::string& mine) {
  std::vector<std::string> all;
  for (int r = 0; r < world(); ++r) all.push_back(from(r, mine));
  return all;
}

namespace {
// The part of `text` from the word on in which it differs from `other`, with the word before unless it is a flag
// itself: texts that begin alike for a line would else look the same in a message.
std::string where_it_differs(const std::string& text, const std::string& other) {
  constexpr size_t kLong = 40, kShown = 20;  // of a word, in which a path may differ late
  const auto at =
      static_cast<size_t>(std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first - text.begin());
  const auto ends = [&](const std::string& t) { return at >= t.size() || t[at] == ' '; };
  const bool words_more = at > 0 && ends(text) && ends(other);
  if (words_more) return at >= text.size() ? "... (no more)" : "... " + text.substr(at + 1);
  size_t from = at == 0 ? 0 : text.rfind(' ', at - 1) + 1;
  if (at - from > kLong) return "..." + text.substr(at - kShown);
  if (from > 1 && text[from] != '-') from = text.rfind(' ', from - 2) + 1;
  return from == 0 ? text : "... " + text.substr(from);
}
}  // namespace

void Ranks::need_equal(const std::string& what, const std::string& mine) {
  const std::string theirs = from_first(mine);
  struct Comparison {
    bool equal;
  };
  const std::vector<Comparison> all = gather(Comparison{mine == theirs});
  const auto odd = std::find_if(all.begin(), all.end(), [](const Comparison& c) { return !c.equal; });
  if (odd == all.end()) return;
  const auto who = static_cast<int>(odd - all.begin());
  const std::string text = from(who, mine);  // known to it alone
  fail(ErrorKind::usage, "ranks", "rank ", who, " has ", what, " ", excerpt(where_it_differs(text, theirs)),
       ", rank 0 has ", excerpt(where_it_differs(theirs, text)),
       ": all ranks of a job must be started with the same arguments");
}

void Ranks::broadcast(const std::vector<nn::NamedVariable>& variables, int root) {
  for (const nn::NamedVariable& v : variables) {
    const Array a = v.variable.array();
    if (rank() == root) {
      broadcast(a.raw(), a.bytes(), root);
      continue;
    }
    const Array fresh(a.dtype(), a.shape());
    broadcast(fresh.raw(), fresh.bytes(), root);
    v.variable.set(fresh);
  }
}

void Ranks::broadcast(void* data, size_t bytes, int root) {
  if (bytes > 0) comm_->broadcast(data, static_cast<int64_t>(bytes), DType::u8, root);
}

void Ranks::gather_bytes(const void* mine, void* all, size_t bytes) {
  if (bytes > 0) comm_->all_gather(mine, all, static_cast<int64_t>(bytes), DType::u8);
}

StepRequest Ranks::take_request() {
  StepRequest w = std::exchange(mine_, {});
  if (signals::own_signal() == SIGINT) ++w.interrupts;
  if (signals::own_signal() == SIGTERM) ++w.terminations;
  if (signals::take_save_request()) ++w.saves;
  return w;
}

void Ranks::request(const StepRequest& also) {
  mine_.stop += also.stop;
  mine_.saves += also.saves;
  if (also.lr) mine_.lr = also.lr;
}

void Ranks::agree(const std::vector<StepRequest>& by_rank) {
  const StepRequest now = merged(by_rank);
  agreed_ = merged({now, agreed_});  // a new learning rate replaces one that was not taken yet
  if (now.terminations > 0) signals::agree(SIGTERM);
  if (now.interrupts > 0) signals::agree(SIGINT);
}

bool Ranks::take_save() { return std::exchange(agreed_.saves, 0) > 0; }

std::optional<double> Ranks::take_rate() {
  const std::optional<double> lr = agreed_.lr;
  agreed_.lr.reset();
  return lr;
}

}  // namespace freight::job
