// One graph for every batch: a function of tensors is traced for several batch sizes N (and lengths T of text), and
// what differs between the traces is told as a formula of N and T. ONNX files are written from the result.
#pragma once
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "freight/ir/graph.h"

namespace freight::deploy::onnx {

// fixed + n N + t T + nt N T
struct Formula {
  int64_t fixed = 0, n = 0, t = 0, nt = 0;
  bool constant() const { return n == 0 && t == 0 && nt == 0; }
  int64_t at(int64_t batch, int64_t length) const { return fixed + n * batch + t * length + nt * batch * length; }
  friend bool operator==(const Formula&, const Formula&) = default;
  friend bool operator<(const Formula& a, const Formula& b) {
    return std::tie(a.fixed, a.n, a.t, a.nt) < std::tie(b.fixed, b.n, b.t, b.nt);
  }
};

// A number that is a formula, or 1 / it: the mean over samples has a factor 1 / N.
struct Count {
  Formula formula;
  bool inverse = false;
};

// A trace for one batch size and length.
struct Probe {
  int64_t batch = 0, length = 0;
  Graph graph;
};

class Family {
 public:
  // Two traces of one length with different batches, or four of two lengths, each with the same two batches, in the
  // order (N0, T0), (N1, T0), (N0, T1), (N1, T1), and any more to check the formulas against. Empty where the traces
  // differ in more than extents that follow such formulas; `why` then says where.
  static std::optional<Family> of(std::vector<Probe> probes, std::string& why);

  // The first trace: its ops, wiring and all attributes that are no extents hold for all.
  const Graph& graph() const { return probes_[0].graph; }
  const std::vector<Formula>& extents(Value v) const { return extents_[v]; }
  // The number of constant number i, where it is an integer, or 1 / it.
  std::optional<Count> count(size_t i) const;
  // The extent `pick(node)` of node number i of the graph.
  template <class F>
  Formula of_node(size_t i, F pick) const {
    std::vector<int64_t> seen;
    for (const Probe& p : probes_) seen.push_back(pick(p.graph.nodes[i]));
    return *fit(seen);  // checked by `of`
  }

 private:
  explicit Family(std::vector<Probe> probes) : probes_(std::move(probes)) {}
  std::optional<Formula> fit(const std::vector<int64_t>& seen) const;
  bool alike(size_t node) const;
  std::vector<Probe> probes_;
  ByValue<std::vector<Formula>> extents_;  // by axis
};

}  // namespace freight::deploy::onnx
