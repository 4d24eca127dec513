// The learners of tables, which programs register before they train or use them: names for --model and for saved
// models.
#pragma once

namespace freight::tables {

// Registers the learners with train (train/learner.h) and with saved models (store/row_model.h). A second call does
// nothing.
void register_learners();

}  // namespace freight::tables
