// The processes of a run join XGBoost's own collective, too: a tracker at rank 0 lets them find each other,
// and from then on XGBoost sums the histograms of their rows in each level of a tree.
#pragma once
#include <functional>
#include <string>

#include "freight/tables/xgboost_library.h"
#include "freight/train/ranks.h"

namespace freight::tables {

// This process's part in it, of one thread: XGBoost keeps the connections by thread.
class XgboostJob {
 public:
  // Returns when all ranks are there. On one host the tracker listens on the loopback, else at the address of rank 0's
  // rendezvous. `device`: that of this rank; GPUs sum by NCCL. Throws Error(device) where XGBoost or NCCL is missing or
  // too old, Error(usage) where ranks have different versions of XGBoost.
  XgboostJob(const Xgboost& library, train::Ranks& ranks, const std::string& device);
  XgboostJob(const XgboostJob&) = delete;
  XgboostJob& operator=(const XgboostJob&) = delete;
  // Called by all ranks after the last collective. A job that failed is left without it.
  void leave();

 private:
  const Xgboost& library_;
  train::Ranks& ranks_;
  void* tracker_ = nullptr;  // of rank 0
};

// Throws where a call of XGBoost's did not return 0: Error(peer_lost) with the rank that is lost, where one is, else
// what Xgboost::check throws.
void check_together(const Xgboost& library, train::Ranks& ranks, int result, const std::string& what);

// Does the work on a thread of its own and waits for it; what it throws is thrown on. XGBoost takes leave of the others
// when a thread with connections ends, and waits for ranks that are lost: the thread of work that failed is therefore
// kept, idle, until the process ends.
void on_thread_of_job(const std::function<void()>& work);

}  // namespace freight::tables
