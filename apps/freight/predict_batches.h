// Batches of inputs as `freight predict` answers them, and the ranks of a job that answer them in turn: batch b is rank
// b % W's. All go through the same inputs by name, read their own, and get what became of the others'.
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

// The outcome of a batch.
struct BatchAnswer {
  struct Note {
    enum class Of : uint8_t { left_out, range } of;  // an input that cannot be read; values beyond those of training
    std::string text;
  };
  std::vector<Note> notes;        // in the order of the inputs; of ranges the first alone
  std::optional<Error> fault;     // of an input that ends everything; the answers are those before it
  std::vector<int64_t> answered;  // numbers of the inputs with answers
  Array rows;                     // f32 (answered, outputs); undefined where there are none
  double seconds = 0, planning_s = 0;
};
// `stop_at_bad`: an input that cannot be read ends the batch.
BatchAnswer answer(deploy::Predictor& predictor, const std::vector<Input>& batch, bool stop_at_bad);

// A batch for each rank, or for this process alone.
struct Round {
  std::vector<std::vector<Input>> batches;  // the last may be short, or empty: that is the end
  std::optional<Error> fault;               // by which reading ended behind them
};
Round next_round(InputStream& inputs, const Turns& turns);

// Hands round what ranks made of their batches. `signal`: what this rank was asked to stop by; 0: nothing. Returns null
// where any was asked, and puts that into `signal` on all. Throws Error(data) where ranks see other inputs.
std::optional<std::vector<BatchAnswer>> exchange(comm::Comm& comm, const Round& round, const BatchAnswer& mine,
                                                 int& signal);

}  // namespace freight::app
