// The caller of a rendezvous may cancel it: `plan.cancelled` is polled, on one host and over a network.
#pragma once

namespace freight::comm {

// Seconds between two polls.
inline constexpr double kCancelCheckSeconds = 0.02;
inline constexpr const char* kCancelled = "the rendezvous was cancelled";

template <class Plan>
bool is_cancelled(const Plan& plan) {
  return plan.cancelled && plan.cancelled();
}

}  // namespace freight::comm
