// Treelite's JSON (Model.dump_as_json of the PyPI package treelite), into which it turns the forests of scikit-learn,
// of cuML and of others. scikit-learn's own files are pickles: they run as programs, and only Python reads them.
#pragma once
#include <string>
#include <string_view>

#include "freight/tables/other_forest.h"

namespace freight::tables {

// True of a text that begins as such a file does.
bool begins_as_treelite(std::string_view text);

// Throws Error(data) that begins with `path` where the text is damaged, Error(usage) for what is not taken: several
// targets, isolation forests, thresholds of f32, answers that are made otherwise than by a sum, exp, a sigmoid or
// softmax.
OtherForest read_treelite(std::string_view text, const std::string& path);

}  // namespace freight::tables
