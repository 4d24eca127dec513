// Runs what was prepared: the learner trains, the record writes, and a failure is recorded before it is passed on.
#include "freight/train/trainer.h"

#include <new>

#include "freight/base/error.h"
#include "freight/train/record_internal.h"

namespace freight::train {

namespace {

// Calls f; its failure becomes the run's, and is thrown on.
template <class F>
void recorded(RunRecorder& record, const Prepared& run, F f) {
  try {
    f();
  } catch (const Error& e) {
    record.fail_with(run.result(), e.what(), e.kind());
    throw;
  } catch (const std::bad_alloc& e) {
    record.fail_with(run.result(), e.what(), ErrorKind::capacity);
    throw;
  } catch (const std::exception& e) {
    record.fail_with(run.result(), e.what(), ErrorKind::runtime);
    throw;
  }
}

}  // namespace

Result PreparedRun::run(Observer& observer, const std::vector<std::string>& argv) {
  Prepared& p = *prepared_;
  if (p.ran) fail(ErrorKind::usage, "PreparedRun::run", "this run has run already: prepare another");
  p.ran = true;
  // The directory is free when the run is over, also for a run that goes on in it while this object lives.
  struct Released {
    Prepared& run;
    ~Released() {
      run.record.reset();
      run.start.lock.reset();
    }
  } released{p};
  if (!p.left_out.heard) {
    for (const data::BadSample& bad : p.left_out.samples()) observer.on_bad_sample(bad.path, bad.reason);
  }
  // The observer lives as long as this call, which may also end by an exception.
  struct Unheard {
    LeftOut& left_out;
    ~Unheard() { left_out.heard = {}; }
  } unheard{p.left_out};
  restore();
  p.record = std::make_unique<RunRecorder>(p, argv,
                                           observer.keeps_log());  // what fails before this leaves no directory behind
  RunRecorder& record = *p.record;
  recorded(record, p, [&] {
    record.left_out(0);
    const RunSummary s = summary();
    record.begin(s);
    p.left_out.heard = [&](const data::BadSample& bad) {
      record.left_out(p.left_out.samples().size() - 1);
      observer.on_bad_sample(bad.path, bad.reason);
    };
    observer.on_start(s);
    p.train(record, observer);
    record.end(p.result(), observer.figures(p.result()));
  });
  return p.result();
}

Result train(const Config& config, Observer& observer, PrepareOptions options, const std::vector<std::string>& argv) {
  if (!options.on_bad_sample) {
    options.on_bad_sample = [&](const data::BadSample& bad) { observer.on_bad_sample(bad.path, bad.reason); };
  }
  return prepare(config, std::move(options)).run(observer, argv);
}

}  // namespace freight::train
