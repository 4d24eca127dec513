// The parts of the page, which page.cpp combines.
#pragma once
#include <string>

#include "freight/report/page.h"
#include "freight/report/plot.h"

namespace freight::report {

// The name of a run in charts and tables of several runs: "A", "B", ... "Z", "27".
std::string run_letter(size_t number);
// Loss, accuracy, learning rate, throughput and data wait of all runs, as a <div> of figures.
std::string charts(const std::vector<ReportedRun>& runs);
// ROC, precision and recall, and calibration for classes; residuals for a regression; "" if there are none.
std::string curve_section(const Examination& examination);
// Importance of columns, partial dependence, and the worst predictions.
std::string table_section(const TableExamination& table);
// The learners and settings that were compared, from run.json; "" if there were none.
std::string leaderboard_section(const train::Leaderboard& board);
// Draws when rank 0 computed and summed in a step of several ranks; "" for a run on one device. `of`: " of A" if there
// are several runs.
std::string timeline_section(const StepTimes& times, const std::string& of);
// The confusion matrix, figures per class and the most confident errors, or the errors of a regression.
std::string examination_section(const Examination& examination);

}  // namespace freight::report
