// The functions that a step on parts is traced from (part_step.cpp): the forward and backward pass of a part, the
// update by the sums over all parts, and the averages if other ranks update some of the weights.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "freight/ir/attrs.h"
#include "freight/models/loss.h"
#include "freight/ops/ops.h"
#include "freight/trace/batch_statistics.h"
#include "freight/trace/tracer.h"
#include "freight/train/part_step.h"
#include "freight/train/step_internal.h"

namespace freight::train {

// A running statistic, which a forward pass may change, and the sum of its values over the parts. Tracing a part shows
// which of them change; the others stay bitwise the same.
struct Statistic {
  Variable running, sum;
  bool changes = false;
};

// True for values of one trace that are one.
inline bool is_same(const Tensor& a, const Tensor& b) {
  const trace::Session session;
  return session->value_of(a) == session->value_of(b);
}

// A part's summand of a sum over all ranks. The plan passes it to the run's Collectives when it is computed; without
// any it is copied, and the caller of the run adds over ranks afterwards, if there are any.
inline Tensor summed(const Tensor& part) { return trace::one(Op::all_reduce, PieceAttrs{}, {part}); }

// (x, y) of a part -> (loss, number of correct predictions). The loss is the sum over the part divided by the full
// batch's number of targets; class weights do not change that divisor.
struct PartGradients {
  const PartStep::Trained* trained;
  const std::vector<Variable>* gradients;
  std::vector<Statistic>* statistics;
  int64_t batch_size;
  bool tokens;  // targets are counted by tokens, not by samples
  bool shared_statistics;
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& y) const {
    std::vector<Tensor> before;
    for (const Statistic& s : *statistics) before.push_back(s.running.value());
    const models::Model& model = *trained->model;
    const trace::SharedStatistics over_all(shared_statistics);
    models::LossOptions summed_loss = trained->loss;
    summed_loss.reduction = Reduction::sum;
    const models::Scored scored = models::score(model, x, y, summed_loss);
    const auto full = static_cast<double>(batch_size * (tokens ? y.dim(1) : 1));
    const Tensor loss = scored.loss * (1.0 / full);
    const std::vector<Tensor> found = gradients_of(loss, *trained->optimizer, trained->scale, trained->unused);
    for (size_t i = 0; i < found.size(); ++i) (*gradients)[i].assign(summed(found[i]));
    const double share = static_cast<double>(x.dim(0)) / static_cast<double>(batch_size);
    for (size_t i = 0; i < statistics->size(); ++i) {
      Statistic& s = (*statistics)[i];
      s.changes = s.changes || !is_same(s.running.value(), before[i]);
      if (!s.changes) continue;
      s.sum.assign(summed(s.running.value() * share));
      s.running.assign(before[i]);  // every part begins with the value before the step
    }
    return {loss, right_of(model, scored.outputs, y)};
  }
};

// The update. Inputs: the batch's loss, and the factors that turn sums of gradients and of statistics into means.
struct ApplySums {
  const PartStep::Trained* trained;
  const std::vector<Variable>* gradients;
  const std::vector<Statistic>* statistics;
  void operator()(const Tensor& loss, const Tensor& by_count, const Tensor& by_samples) const {
    std::vector<Tensor> means;
    for (const Variable& g : *gradients) means.push_back(g.value() * by_count);
    for (const Statistic& s : *statistics) {
      if (s.changes) s.running.assign(s.sum.value() * by_samples);
    }
    update(*trained->optimizer, trained->shares ? nullptr : trained->ema, trained->scale, loss, means);
  }
};

// Updates the averages once the new weights of other ranks have arrived.
struct FollowWeights {
  const PartStep::Trained* trained;
  const std::vector<Variable>* gradients;
  void operator()(const Tensor& loss, const Tensor& by_count) const {
    trained->ema->update();
    Tensor sound = is_finite(loss);
    if (trained->scale) {
      std::vector<Tensor> means;
      for (const Variable& g : *gradients) means.push_back(g.value() * by_count);
      sound = logical_and(sound, optim::LossScale::all_finite(means));
    }
    assign_only_if(sound);
  }
};

}  // namespace freight::train
