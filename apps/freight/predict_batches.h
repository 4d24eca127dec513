// Batches of inputs for `freight predict`, and the ranks of a job that predict them in turn: batch b belongs to rank b
// % W. All ranks list the same inputs by name, read only their own, and get the others' results.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "freight/base/array.h"
#include "freight/base/error.h"
#include "freight/comm/comm.h"
#include "freight/deploy/predictor.h"
#include "predict_inputs.h"

namespace freight::app {

// The predictions of a batch.
struct BatchPrediction {
  struct Note {
    // An input that cannot be read; values outside the range of training.
    enum class Of : uint8_t { left_out, range } of;
    std::string text;
  };
  std::vector<Note> notes;     // in the order of the inputs; of ranges only the first
  std::optional<Error> fault;  // of an input that ends everything; the predictions are those of the inputs before it
  std::vector<int64_t> predicted;  // numbers of the inputs with predictions
  Array rows;                      // f32 (predicted, outputs); undefined if there are none
  double seconds = 0, planning_s = 0;
};
// Predicts a batch. `stop_at_bad`: an input that cannot be read ends the batch.
BatchPrediction predict(deploy::Predictor& predictor, const std::vector<Input>& batch, bool stop_at_bad);

// A batch for each rank, or for this process alone.
struct Round {
  std::vector<std::vector<Input>> batches;  // the last one may be short, or empty at the end
  std::optional<Error> fault;               // the error by which reading ended after them
};
Round next_round(InputStream& inputs, const InputShard& shard);

// Exchanges the ranks' predictions. `signal`: the signal that asked this rank to stop; 0: none. If any rank was asked,
// returns null and sets `signal` on all. Throws Error(data) if ranks see different inputs.
std::optional<std::vector<BatchPrediction>> exchange(comm::Comm& comm, const Round& round, const BatchPrediction& mine,
                                                     int& signal);

}  // namespace freight::app
