// The report: one HTML text with style sheet, charts and images in it, without scripts and without anything from the
// net. Readable without colour, by light and dark, on paper and at a phone's width.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "freight/report/examine.h"
#include "freight/report/run_record.h"

namespace freight::report {

// A run in the report, with what became of examining its model.
struct ReportedRun {
  RunRecord run;
  std::optional<Examination> examination = {};
  std::string not_examined = {};  // why there is none
};

std::string to_html(const std::vector<ReportedRun>& runs);

}  // namespace freight::report
