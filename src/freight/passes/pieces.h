// How sums over ranks are cut into pieces, each of which travels as one beside the steps that make the later ones.
#pragma once
#include <cstddef>
#include <vector>

#include "freight/passes/options.h"

namespace freight {

// A tensor that is summed over ranks.
struct Summand {
  double ready = 0;  // seconds since the step's beginning when its rank has it; not before the one in front of it
  double bytes = 0;
};

struct Pieces {
  std::vector<size_t> ends;  // of each piece: the number of the summand behind its last one
  double done = 0;           // seconds when all is summed
};

// Summands in the order in which they are ready. One piece travels at a time, in order, and begins when its last
// summand is ready and the piece before it is done. These are the pieces that are done first: with D(i) the time at
// which the first i summands are summed, D(j) is the least of max(D(i), ready of j - 1) + cost(bytes of i to j - 1)
// over all i < j.
Pieces cut_pieces(const std::vector<Summand>& summands, const SumCost& cost);

// True where a step that takes `beside` seconds with sums beside it gains enough over one of `behind` seconds, whose
// sum is made behind it. The thread that sums takes processor time that no fit knows of: on two ranks of one host 8 %
// that were foreseen became a loss.
bool pays_beside(double beside, double behind);

}  // namespace freight
