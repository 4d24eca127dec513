// A comparison and a study become tables, JSON, a Chrome trace, pages of HTML without script.
#pragma once
#include <string>
#include <vector>

#include "freight/bench/classic.h"
#include "freight/bench/compare.h"

namespace freight::bench {

// For terminals and pages alike. A row of one cell is a note.
struct Listing {
  std::vector<std::string> header;
  std::vector<size_t> words;  // columns that do not hold numbers
  std::vector<std::vector<std::string>> rows;
};
std::string to_html(const Listing& listing);
// Every batch size on every device.
Listing figures_of(const Comparison& comparison);
// The layers that take longest, `most` of them (0: all), in the order of the net.
Listing layer_listing(const Comparison& comparison, size_t most);

std::string to_json(const Comparison& comparison);
std::string to_html(const Comparison& comparison);
// One process per device, one event per step of the plan (Trace Event Format: ph X, microseconds).
std::string chrome_trace(const Comparison& comparison);

// Measured and published steps of every net; the trainings.
Listing steps_of(const Study& study);
Listing trainings_of(const Study& study);
std::string to_json(const Study& study);
std::string to_html(const Study& study);

}  // namespace freight::bench
