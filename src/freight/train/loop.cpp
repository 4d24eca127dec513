// See loop_internal.h.
#include "freight/base/clock.h"
#include "freight/base/usage.h"
#include "freight/train/loop_internal.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/finetune/layers.h"
#include "freight/job/signals.h"
#include "freight/models/loss.h"

namespace freight::train {

namespace {

// A learning rate as the step computes with it.
double rounded(double rate) { return static_cast<double>(static_cast<float>(rate)); }

}  // namespace

Loop::Loop(NetRun& run, RunRecorder& record, Observer& observer)
    : run_(run), record_(record), observer_(observer), steps_(run), place_(run.start.place()) {
  if (place_.step > 0) {
    rate_ = rounded(rate_of(run_, place_, place_.step - 1));
    run_.net->optimizer->set_lr(rate_);
  }
  result_.parameters = finetune::count_parameters(*run_.net->model.net);
  result_.test = place_.test;
  result_.measured = run_.evaluated_part();
  result_.train_loss = place_.last_loss;
  result_.train_seconds = place_.train_seconds;
  result_.steps = place_.step;
  result_.epochs = place_.epoch - 1;
}

void Loop::run() {
  if (complete()) result_.ended = Ended::nothing_left;
  if (unfinished() && !compute_features()) stopped();
  while (unfinished()) run_epoch();
  if (result_.ended == Ended::complete && run_.stops_early(place_)) result_.ended = Ended::early;
  store();
}

// Computes what frozen layers make of the samples, where that is kept; false where a signal or the observer stops it.
bool Loop::compute_features() {
  if (!run_.features) return true;
  const auto began = Clock::now();
  const bool done = run_.features->fill([&](int64_t samples, int64_t all) {
    const AfterStep asked =
        observer_.on_comparison(cat("frozen layers  ", with_commas(samples), "/", with_commas(all)));
    asked_.stop = asked_.stop || asked.stop;
    if (run_.ranks && asked.stop) run_.ranks->request({.stop = 1});
    return !stop_asked();
  });
  place_.train_seconds += seconds_since(began);
  return done;
}

// Ranks stop together, at the step after which all know of it.
bool Loop::stop_asked() const {
  if (run_.ranks) return run_.ranks->agreed().any_stop();
  return asked_.stop || signals::stop_requested();
}

// True where a signal or the time since the last checkpoint asks for one. Ranks save together, after the step at which
// all know of it; the first says when the time is over.
bool Loop::save_asked() {
  const double every = run_.config.save_seconds;
  const bool due = every > 0 && (!run_.ranks || run_.ranks->first()) && seconds_since(saved_at_) >= every;
  if (due) saved_at_ = Clock::now();
  if (!run_.ranks) return signals::take_save_request() || due;
  if (due) run_.ranks->request({.saves = 1});
  return run_.ranks->take_save();
}

void Loop::stopped() {
  const bool by_signal =
      run_.ranks ? run_.ranks->agreed().interrupts + run_.ranks->agreed().terminations > 0 : signals::stop_requested();
  result_.ended = by_signal ? Ended::by_signal : Ended::by_observer;
}

// Trains what is left of the running epoch.
void Loop::run_epoch() {
  begin_epoch();
  bool save = false;
  while (place_.batch < epoch_.steps && !result_.interrupted()) {
    // A request waits until all that a device was given is known: till then it is given no more. An epoch has
    // a step before it is stopped, since its means are over the steps done.
    const bool settle = save || asked_.lr || (stop_asked() && place_.batch > 0);
    const int64_t before = place_.step;
    if (!step(settle ? place_.batch : next_pause())) break;
    record_.check_written();
    save = save || (place_.step > before && run_.config.save_every > 0 && place_.step % run_.config.save_every == 0);
    save = save_asked() || save;
    if (!steps_.settled()) continue;
    if (run_.ranks) asked_.lr = run_.ranks->take_rate();
    if (asked_.lr) change_rate();
    if (stop_asked()) stopped();
    if (save && !result_.interrupted()) checkpoint();
    save = false;
  }
  if (place_.batch == 0) gather_left_out();
  if (place_.batch == 0) fail(ErrorKind::data, run_.config.data, "no sample of the train split can be read");
  close_epoch();
}

void Loop::begin_epoch() {
  epoch_ = {.number = place_.epoch,
            .steps = run_.length.steps_of(place_.epoch),
            .batch_before = place_.batch,
            .seen_before = place_.seen,
            .began = Clock::now(),
            .waited_before = run_.feed->wait_seconds()};
  run_.level_ranks();
  if (run_.ranks) epoch_.ranks.emplace(run_.ranks->comm());
  steps_.start_epoch(place_, epoch_.steps);
  place_.closed = false;
}

// Tells the batch before which a device must have finished, since a checkpoint is due then or the epoch is over.
int64_t Loop::next_pause() const {
  const int64_t every = run_.config.save_every;
  const int64_t to_save = every > 0 ? every - place_.step % every : epoch_.steps;
  return std::min(epoch_.steps, place_.batch + to_save);
}

// Does a step on a batch of the feed, or takes in a block of steps of a device, which is given no batch from number
// `limit` on. Returns false where the epoch has no more batches.
bool Loop::step(int64_t limit) {
  const std::vector<BatchSteps::Done> done = steps_.next(place_, limit);
  if (steps_.used_up()) return false;
  take_in(done);
  return true;
}

void Loop::take_in(const std::vector<BatchSteps::Done>& done) {
  for (const BatchSteps::Done& one : done) account(one);
  const auto count = static_cast<int64_t>(done.size());
  if (trained_.steps == 0) {
    trained_.first_steps = count;
    trained_.first_seconds = seconds_since(epoch_.began);
    trained_.first_waited = run_.feed->wait_seconds() - epoch_.waited_before;
  }
  trained_.steps += count;
}

// Counts a step that was done, and tells the observer.
void Loop::account(const BatchSteps::Done& done) {
  const double loss = done.outcome.loss;
  rate_ = rounded(rate_of(run_, place_, place_.step));
  if (!std::isfinite(loss)) diverged(loss);
  ++place_.step;
  ++place_.batch;
  place_.last_loss = result_.train_loss = loss;
  place_.loss_sum += loss;
  place_.right += done.outcome.right;
  place_.seen += done.samples;
  if (!observer_.wants_step()) return;
  const AfterStep asked = observer_.on_step(report());
  if (asked.lr) need_at_least("Observer::on_step", "lr", *asked.lr, 0);
  if (run_.ranks) {
    run_.ranks->request({.stop = asked.stop ? 1 : 0, .lr = run_.ranks->first() ? asked.lr : std::nullopt});
    return;
  }
  asked_.stop = asked_.stop || asked.stop;
  if (asked.lr) asked_.lr = asked.lr;
}

void Loop::change_rate() {
  place_.lr = asked_.lr;
  asked_.lr.reset();
  steps_.change_rate(place_, epoch_.steps);
}

StepReport Loop::report() const {
  const double elapsed = std::max(seconds_since(epoch_.began), 1e-9);
  const auto done = static_cast<double>(std::max<int64_t>(place_.batch - epoch_.batch_before, 1));
  StepReport r{.epoch = place_.epoch,
               .epochs = run_.length.epochs,
               .step = place_.batch,
               .steps = epoch_.steps,
               .total_step = place_.step,
               .loss = place_.last_loss,
               .mean_loss = place_.loss_sum / static_cast<double>(place_.batch),
               .top1 = {},
               .metric = {},
               .lr = rate_,
               .samples_per_s = static_cast<double>(place_.seen - epoch_.seen_before) / elapsed,
               .data_percent = 100.0 * (run_.feed->wait_seconds() - epoch_.waited_before) / elapsed,
               .eta_s = static_cast<double>(run_.length.steps - place_.step) * elapsed / done};
  const models::Model& model = run_.net->model;
  const double right_mean = place_.right / static_cast<double>(place_.seen);
  if (model.own.metric) r.metric = right_mean;
  if (models::has_accuracy(model)) r.top1 = 100.0 * right_mean;
  return r;
}

// Does what follows an epoch's last step, or the step after which the run is stopped: figures, evaluation, checkpoint.
void Loop::close_epoch() {
  const double seconds = seconds_since(epoch_.began);
  const int64_t batches = place_.batch - epoch_.batch_before;
  place_.train_seconds += seconds;
  trained_.seconds += seconds;
  trained_.waited += run_.feed->wait_seconds() - epoch_.waited_before;
  trained_.samples += place_.seen - epoch_.seen_before;
  result_.train_seconds = place_.train_seconds;
  result_.steps = place_.step;
  if (!result_.interrupted()) result_.epochs = place_.epoch;

  EpochReport e{.train = report(), .test = {}, .best = false, .seconds = seconds};
  if (epoch_.ranks) {
    e.slow = epoch_.ranks->since_last(run_.ranks->comm(), batches, run_.sharding.unequal_work());
  }
  if (!e.slow.empty()) record_.note_heard(e.slow);
  // Nothing was trained here where the run went on with the evaluation alone: then the row is there already.
  if (e.train.samples_per_s > 0) record_.trained(e.train, batches, seconds);
  const bool last = place_.epoch == run_.length.epochs;
  if (!result_.interrupted() && run_.task->test_count() > 0 && (last || place_.epoch % run_.config.eval_every == 0)) {
    need_finite();
    e.test = evaluate();
  }
  if (e.test) {
    judge(e);
    record_.tested(e.train, *e.test);
  }
  gather_left_out();
  record_.epoch(e);
  place_.closed = !result_.interrupted();
  // The epoch is over, also for a run that is made longer, where the feed is used up, or all steps that fit an epoch
  // are done. An epoch that the run's last step cuts short goes on then.
  const bool whole = place_.batch < epoch_.steps || epoch_.steps == run_.length.steps_per_epoch;
  if (place_.closed && whole) {
    ++place_.epoch;
    place_.batch = place_.seen = 0;
    place_.loss_sum = place_.right = 0;
  }
  need_finite();
  show_checkpoint();
  observer_.on_epoch(e);
  const AfterStep asked = after_epoch();
  if (asked.lr) place_.lr = asked.lr;
  finite_at_ = -1;  // the observer may have changed weights
  need_finite();
  save_checkpoint(e.best);
  if (unfinished() && asked.stop) stopped();
}

// Ranks end together, and have the same rates: all of them ask after each epoch.
AfterStep Loop::after_epoch() {
  const AfterStep asked = observer_.after_epoch();
  if (asked.lr) need_at_least("Observer::after_epoch", "lr", *asked.lr, 0);
  return run_.ranks ? run_.ranks->gather(asked)[0] : asked;
}

// Compares the evaluation with those before: the best, the patience of early stopping, and the plateau schedule.
void Loop::judge(EpochReport& e) {
  const Config& c = run_.config;
  const double score = run_.score(*e.test);
  e.best = place_.improves(score);
  if (e.best) {
    place_.best_step = place_.step;
    place_.best_epoch = place_.epoch;
    place_.best_test = *e.test;
  }
  place_.count(score, c.min_improvement);
  if (c.lr_scheduler != "plateau" || place_.plateau < std::max<int64_t>(1, c.lr_patience)) return;
  place_.lr_factor *= c.lr_gamma;
  record_.note(cat("the learning rate is scaled by ", place_.lr_factor, " from here on: ", place_.plateau,
                   place_.plateau == 1 ? " evaluation" : " evaluations", " without improvement"));
  place_.plateau = 0;
}

std::optional<Evaluation> Loop::evaluate() {
  const std::optional<Evaluation> e = run_.net->with_averages([&] { return measure(*run_.net->evaluation.evaluator); });
  if (e) place_.test = result_.test = *e;
  return e;
}

// Returns nothing where a signal stops it: the figures of a part of the set would be no result.
std::optional<Evaluation> Loop::measure(Evaluator& evaluator) {
  const auto feed = run_.task->test_feed(run_.net->evaluation.batch, share_of_batches(run_.ranks));
  const auto poll = [&](int64_t done, int64_t all) {
    observer_.on_evaluation_progress(done, all);
    return !signals::stop_requested();
  };
  Evaluation e = evaluator.run(*feed, cat(run_.config.data, ", ", result_.measured), poll, run_.ranks);
  if (run_.ranks ? stop_asked() : signals::stop_requested()) {
    stopped();
    return std::nullopt;
  }
  run_.add_figures(e, evaluator.predictions());
  const auto& evaluated = run_.net->model.own.evaluated;
  if (const std::optional<double> metric = evaluated ? evaluated() : std::nullopt) e.metric = metric;
  return e;
}

// A rank finds the samples that cannot be read in its own part of the batches. The first lists those of all, once each.
void Loop::gather_left_out() {
  if (!run_.ranks || run_.config.on_bad_sample == "error") return;
  const std::vector<data::BadSample>& mine = run_.left_out.samples();
  std::string text;  // a path cannot hold a zero byte, and a reason does not
  for (size_t i = gathered_; i < mine.size(); ++i) text += mine[i].path + '\0' + mine[i].reason + '\0';
  for (const std::string& of_rank : run_.ranks->from_all(text)) {
    const std::vector<std::string> words = split(of_rank, '\0');
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
      if (run_.ranks->first()) run_.left_out.add({words[i], words[i + 1]});
    }
  }
  gathered_ = mine.size();
}

// Loss scaling skips a step whose gradients are not finite and halves its factor. Where it was halved as often as there
// were steps, none of them changed the model.
void Loop::need_some_step() const {
  const optim::LossScale* const scale = run_.net->step->loss_scale();
  if (!scale || place_.step == 0) return;
  const double factor = scale->factor();
  const auto halvings = static_cast<int>(std::min<int64_t>(place_.step, 1000));
  if (factor > std::ldexp(scale->initial(), -halvings)) return;
  fail(ErrorKind::diverged, "train", place_.step == 1 ? "the only step" : cat("none of the ", place_.step, " steps"),
       place_.step == 1 ? " did not change the model" : " changed the model", ": NaN or infinite gradients in fp16 ",
       "at any loss scale from ", scale->initial(), " down to ", factor * 2,
       "; try --precision bf16 or fp32, or smaller inputs");
}

double Loop::Trained::step_seconds() const {
  if (steps <= first_steps) return 0;
  return (seconds - waited - (first_seconds - first_waited)) / static_cast<double>(steps - first_steps);
}

void Loop::store() {
  if (!result_.interrupted()) need_some_step();
  result_.samples_per_second = static_cast<double>(trained_.samples) / std::max(trained_.seconds, 1e-9);
  result_.step_seconds = trained_.step_seconds();
  result_.output_dir = run_.config.output_dir;
  if (const job::StepTimeline* timeline = run_.net->step->timeline()) result_.timeline = *timeline;
  const models::Model& model = run_.net->model;
  if (model.own.reports() && result_.test.count > 0 && std::isinf(place_.best_score)) {
    const std::string line = cat("no checkpoint is the best one: the metric '", model.own.metric_name,
                                 "' was NaN or infinite in every evaluation");
    record_.note_heard(line);
    logging::warn(line);
  }
  record_.settle();
  const bool best = take_best();
  RunPosition stored = place_;
  if (best) {
    stored.step = place_.best_step;
    stored.test = place_.best_test;
  }
  if (run_.stores_best()) {
    result_.best_epoch = place_.best_epoch;
    result_.best_by = run_.judged_by();
  }
  const auto decide_and_store = [&] {
    if (!result_.interrupted() && run_.decides()) {
      run_.decide([&](Evaluator& evaluator) { return measure(evaluator); }, stored.test, result_.decisions);
    } else if (!result_.interrupted()) {
      keep_predictions(best);
    }
    for (const std::string& line : result_.decisions) record_.note(line);
    if (run_.keeps_predictions && !result_.interrupted()) keep_predictions();
    return record_.store_model(stored);
  };
  result_.model_path = best ? decide_and_store() : run_.net->with_averages(decide_and_store);
  result_.test = stored.test;
  result_.metric_name = run_.metric_name();
  if (run_.records() && !result_.interrupted()) result_.scores = run_.scores();
  result_.comparison = run_.comparison;
  result_.bad_samples = run_.left_out.samples();
  result_.total_seconds = seconds_since(run_.began);
}

// Keeps the predictions of the stored model, whose evaluation is the last one unless another epoch is the `best`.
void Loop::keep_predictions(bool best) {
  Evaluator& evaluator = *run_.net->evaluation.evaluator;
  if (run_.net->keep != Evaluator::Keep::predictions || !run_.recorded) return;
  if (best && !measure(evaluator)) return;
  run_.stored_predictions = evaluator.predictions();
}

// Keeps what the model, as it is stored, predicts for the held-out samples.
void Loop::keep_predictions() {
  const std::unique_ptr<Evaluator> evaluator = run_.net->make_evaluator();  // at the temperature that was decided
  if (!measure(*evaluator)) return;
  result_.held_out = evaluator->predictions();
  const std::vector<int64_t> order = run_.task->test_order();
  if (order.empty()) return;
  std::vector<int64_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  result_.held_out = {.outputs = data::selected_rows(result_.held_out.outputs, place),
                      .targets = data::selected_rows(result_.held_out.targets, place)};
}

// Gives the net the weights of the best epoch, where those are to be stored and the newest are others. Averages are no
// part of it from here on: what was saved has them in the weights' place.
bool Loop::take_best() {
  if (!run_.stores_best() || place_.best_step == 0 || place_.best_step == place_.step) return false;
  models::Model& model = run_.net->model;
  if (run_.records()) {
    const std::string path = run_.best_model(place_.best_step);
    if (path.empty()) {
      fail(ErrorKind::checkpoint, run_.config.output_dir, "the weights of the best epoch, checkpoints/step-",
           place_.best_step, ", are gone; the newest are in ", run_.config.output_dir, "/last");
    }
    store::load_weights(model, path);
  }
  if (run_.ranks) run_.ranks->broadcast(model.net->state_dict());
  observer_.on_checkpoint(model);
  return true;
}

void Loop::checkpoint() {
  need_finite();
  show_checkpoint();
  save_checkpoint(false);
}

// The checkpoint's model has the averages, with which it was evaluated.
void Loop::show_checkpoint() {
  run_.net->with_averages([&] { observer_.on_checkpoint(run_.net->model); });
}

void Loop::save_checkpoint(bool best) {
  record_.drop_given();
  const WholeStates states = run_.whole_states();
  run_.net->with_averages([&] { record_.checkpoint(place_, states, best); });
  saved_at_ = Clock::now();
}

// Weights, averages and optimizer states that are not finite are neither measured nor stored. Checks once per step at
// which something is stored; other steps pay nothing.
void Loop::need_finite() {
  if (finite_at_ == place_.step) return;
  const std::string at = run_.first_nonfinite();
  if (at.empty()) {
    finite_at_ = place_.step;
    return;
  }
  record_.settle();
  fail(ErrorKind::diverged, "train", "after step ", place_.step, " (epoch ", place_.epoch, ", lr ", rate_, ", loss ",
       result_.train_loss, ") ", at, "; ", record_.saved_weights("the last saved weights"),
       "; try a smaller --lr or --clip-grad-norm 1");
}

// The bad step has left the weights as they were: they are saved, unless an earlier step had spoilt them already.
void Loop::diverged(double loss) {
  std::string layer;
  try {
    layer = steps_.first_nonfinite(place_);
  } catch (const Error& e) {
    layer = cat("(the first bad layer could not be found: ", e.what(), ")");
  }
  record_.diverged(place_, loss, rate_);
  const bool finite = run_.first_nonfinite().empty();
  if (finite) checkpoint();
  record_.settle();
  fail(ErrorKind::diverged, "train", "the loss is ", loss, " at step ", place_.step + 1, " (epoch ", place_.epoch,
       ", lr ", rate_, "); first NaN or infinity: ", layer.empty() ? "the loss alone" : layer, "; ",
       record_.saved_weights(finite ? "the weights before that step" : "the last saved weights"),
       "; try a smaller --lr or --clip-grad-norm 1");
}

}  // namespace freight::train
