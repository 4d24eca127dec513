// The parts of the page, which page.cpp puts together.
#pragma once
#include <string>

#include "freight/report/page.h"
#include "freight/report/plot.h"

namespace freight::report {

// "A", "B", ... "Z", "27": how a run is called in charts and tables where there are several.
std::string run_letter(size_t number);
// Loss, accuracy, learning rate, throughput and data wait of all runs; a <div> of figures.
std::string charts(const std::vector<ReportedRun>& runs);
// ROC, precision and recall, calibration of classes; residuals of values; "" where there are none.
std::string curve_section(const Examination& examination);
// Importance of columns, partial dependence, the rows that were told worst.
std::string table_section(const TableExamination& table);
// Learners and settings that were compared, as run.json has them; "" where there were none.
std::string leaderboard_section(const Leaderboard& board);
// Draws when rank 0 computed and summed in a step over several; "" of a run on one device. `of`: " of A" where there
// are more runs.
std::string timeline_section(const StepTimes& times, const std::string& of);
// Confusions, figures per class and the most certain mistakes, or the errors of values.
std::string examination_section(const Examination& examination);

}  // namespace freight::report
