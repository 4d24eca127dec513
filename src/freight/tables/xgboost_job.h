// The processes of a run join XGBoost's own collective, too: a tracker at rank 0 lets them find each other,
// and from then on XGBoost sums the histograms of their rows in each level of a tree.
#pragma once
#include <functional>
#include <string>

#include "freight/job/ranks.h"
#include "freight/tables/xgboost_library.h"

namespace freight::tables {

// This process's part in the collective, for one thread: XGBoost's connections belong to a thread.
class XgboostJob {
 public:
  // Returns when all ranks have joined. On one host the tracker listens on the loopback address, else at the address of
  // rank 0's rendezvous. `device`: this rank's; GPUs sum by NCCL. Throws Error(device) if XGBoost or NCCL is missing or
  // too old, and Error(usage) if ranks have different versions of XGBoost.
  XgboostJob(const Xgboost& library, job::Ranks& ranks, const std::string& device);
  XgboostJob(const XgboostJob&) = delete;
  XgboostJob& operator=(const XgboostJob&) = delete;
  // All ranks call it after the last collective. It is not called for a job that failed.
  void leave();

 private:
  const Xgboost& library_;
  job::Ranks& ranks_;
  void* tracker_ = nullptr;  // on rank 0
};

// Throws if a call of XGBoost did not return 0: Error(peer_lost) with the lost rank if there is one, else the error of
// Xgboost::check.
void check_together(const Xgboost& library, job::Ranks& ranks, int result, const std::string& what);

// Runs the work on a separate thread and waits for it; its exceptions are passed on. When a thread with connections
// ends, XGBoost says goodbye to the other ranks, and waits for lost ones: so the thread of work that failed is kept,
// idle, until the process ends.
void on_thread_of_job(const std::function<void()>& work);

}  // namespace freight::tables
