// The settings of a job that all its meetings over a network have in common.
#pragma once
#include <string>

#include "freight/comm/join.h"
#include "freight/comm/network_meeting.h"

namespace freight::comm {

// The secret of the job. Throws Error(usage) where nothing says it, and what reading its file throws.
std::string token_of(const Launch& launch, const JobOptions& options);
// The port at which the ranks meet, as the launcher says. Throws Error(usage) where nothing says it.
int port_of(const Launch& launch);
// All but the port and the token.
NetworkPlan network_plan(const Launch& launch, const JobOptions& options);

}  // namespace freight::comm
