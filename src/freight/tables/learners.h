// The learners of tables, for programs that train or use them: names for --model and for stored models.
#pragma once

namespace freight::tables {

// Makes them known to train (train/learner.h) and to stored models (store/row_model.h). A second call does nothing.
void register_learners();

}  // namespace freight::tables
