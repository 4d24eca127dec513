// Shapes of one graph share what the passes made of it. The passes look at extents in a few ways: whether two are
// equal, whether one is 1, and on which side of a bound a product of them lies. So where three shapes became the same
// graph but for numbers, each of which is a formula of one extent that changes, a shape between them becomes that graph
// too, with the numbers that the formulas give. Other shapes go through the passes.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "freight/ir/graph.h"

namespace freight::passes {

// Keeps what the passes made of shapes of graphs. Any number of threads may ask.
class ShapeFamilies {
 public:
  using Lower = std::function<Graph(const Graph&)>;
  struct Stats {
    int64_t derived = 0;  // graphs that were made by formulas
    int64_t lowered = 0;  // that went through the passes
  };

  // Returns what `lower` makes of the graph, and not of it alone but of `circumstances` too: the device, and what else
  // it depends on. Throws what `lower` throws.
  Graph lowered(const Graph& source, const std::string& circumstances, const Lower& lower);
  Stats stats() const;
  void clear();

 private:
  struct Family;
  struct StructureGroup {  // graphs of one structure
    std::shared_ptr<const Graph> source;
    std::string circumstances;
    std::list<std::shared_ptr<const Family>> families;  // the one that was of use last first
  };
  StructureGroup* find(uint64_t key, const Graph& source, const std::string& circumstances);
  void add(uint64_t key, const Graph& source, const std::string& circumstances, const Graph& lowered);

  mutable std::mutex mutex_;
  std::unordered_multimap<uint64_t, StructureGroup> known_;
  size_t nodes_ = 0;  // of all that is kept
  Stats stats_;
};

// The families of the process, which run_pipeline() asks.
ShapeFamilies& shape_families();

}  // namespace freight::passes
