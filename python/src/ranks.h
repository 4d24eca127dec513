// The job that this process is a rank of (ranks.cpp), for compiled functions and for fit.
#pragma once
#include <nanobind/nanobind.h>

#include "freight/job/ranks.h"
#include "freight/run/collectives.h"

namespace freight::python {

// Null in a process that is no rank, and in a forked child of one.
job::Ranks* current_ranks();
Collectives* current_sums();  // of compiled functions

void bind_ranks(nanobind::module_& m);

}  // namespace freight::python
