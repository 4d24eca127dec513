// The report: one HTML text that includes its style sheet, charts and images, without scripts and without anything from
// the network. It is readable without color, in light and dark mode, on paper and on a phone.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/report/examine.h"
#include "freight/report/run_record.h"

namespace freight::report {

// A run in the report, with the examination of its model.
struct ReportedRun {
  RunRecord run;
  std::optional<Examination> examination = {};
  std::string not_examined = {};  // the reason if there is no examination
};

std::string to_html(const std::vector<ReportedRun>& runs);

}  // namespace freight::report
