// Formats comparisons and studies as tables, JSON, a Chrome trace, and HTML pages without scripts.
#pragma once
#include <string>
#include <vector>

#include "freight/bench/classic.h"
#include "freight/bench/compare.h"

namespace freight::bench {

// A table for terminals and pages. A row of one cell is a note.
struct Listing {
  std::vector<std::string> header;
  std::vector<size_t> words;  // columns that contain texts, not numbers
  std::vector<std::vector<std::string>> rows;
};
std::string to_html(const Listing& listing);
// All batch sizes on all devices.
Listing figures_of(const Comparison& comparison);
// The `most` layers that take longest (0: all), in the order of the network.
Listing layer_listing(const Comparison& comparison, size_t most);

std::string to_json(const Comparison& comparison);
std::string to_html(const Comparison& comparison);
// One process per device, one event per plan step (Trace Event Format: ph X, microseconds).
std::string chrome_trace(const Comparison& comparison);

// Measured and published steps of every network, and the trainings.
Listing steps_of(const Study& study);
Listing trainings_of(const Study& study);
std::string to_json(const Study& study);
std::string to_html(const Study& study);

}  // namespace freight::bench
