// Metrics of a ranking, for one query: how well their predictions order the rows of a group.
#pragma once
#include <cstdint>
#include <vector>

namespace freight::metrics {

// A row of a query.
struct RankedRow {
  float prediction = 0;  // rows of greater predictions come first
  float relevance = 0;   // at least 0; above 0 the row is relevant
};

// NDCG, the discounted gain of a query's rows by that of the best order: a row of relevance r that stands in place i
// gains (2^r - 1) / log2(i + 1) (Burges et al., Learning to rank using gradient descent, ICML 2005). `top`: the first
// so many places alone; 0: all. Of rows of equal predictions each counts as the mean over their orders (McSherry and
// Najork, Computing information retrieval performance measures efficiently in the presence of tied scores, ECIR 2008).
// A query without a relevant row has 1, as XGBoost counts it.
double query_ndcg(std::vector<RankedRow> rows, int64_t top = 0);

// Average precision: the mean over the relevant rows of the share of relevant rows down to each of them; with `top` the
// mean over as many as could stand there. Equal predictions and queries without a relevant row count as above.
double query_precision(std::vector<RankedRow> rows, int64_t top = 0);

}  // namespace freight::metrics
