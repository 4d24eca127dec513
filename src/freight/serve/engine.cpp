// See engine.h.
#include "freight/serve/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <thread>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/serve/model.h"

namespace freight::serve {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kWaitingBatches = 64;
// A full batch of fewer FLOPs than this, a few milliseconds of one core, runs on one thread. On all cores, the threads
// of such short steps would wait for each other at every kernel as soon as the connections' threads need a core, too:
// at 80 % of its capacity a small network on two cores was measured to respond to an eighth of the requests, on one
// thread to all of them.
constexpr double kSmallBatch = 2e8;

// The samples of a request, and the thread that waits for their results.
class PendingRequest {
 public:
  std::vector<Array> samples;
  Array results;
  std::exception_ptr error;
  Clock::time_point arrived;

  // A condition variable wakes the thread: the library's semaphore would spin first, which does not pay off for the
  // length of a batch.
  void finish(std::exception_ptr e) {
    {
      const std::lock_guard lock(mutex_);
      error = std::move(e);
      done_ = true;
    }
    finished_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_; });
  }

  int64_t count() const { return static_cast<int64_t>(samples.size()); }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
};

struct Queue {
  ServedModel* model = nullptr;
  std::deque<std::shared_ptr<PendingRequest>> requests;
  int64_t samples = 0;
  int threads = 1;     // compute threads, at most
  bool merges = true;  // requests run together

  int64_t max_batch() const { return model->predictor().options().batch_size; }
};

}  // namespace

struct Engine::State {
  EngineOptions options;
  std::vector<Queue> queues;
  std::mutex mutex;
  std::condition_variable filled;
  bool stopping = false, hurrying = false;
  size_t turn = 0;  // the queue that is checked first
  std::thread thread;

  // Completes all waiting requests and ends the thread.
  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    filled.notify_one();
    thread.join();
  }

  void warm(const Warmed& warmed) {
    for (Queue& q : queues) {
      deploy::Predictor& predictor = q.model->predictor();
      const bool small = predictor.flops() * static_cast<double>(q.max_batch()) < kSmallBatch;
      q.threads = small ? 1 : thread_count();
      q.merges = q.max_batch() == 1 || predictor.keeps_samples_apart();
      const ThreadLimit limit(q.threads);
      if (!predictor.warm_all([&](int64_t done, int64_t all) { return warmed(*q.model, done, all); })) return;
    }
  }

  // The next queue, in turn, that need not wait any longer; null if there is none, and then `until` is the time to
  // sleep until.
  Queue* ready(Clock::time_point& until) {
    const auto delay =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.max_delay_seconds));
    until = Clock::time_point::max();
    for (size_t i = 0; i < queues.size(); ++i) {
      Queue& q = queues[(turn + i) % queues.size()];
      if (q.requests.empty()) continue;
      const Clock::time_point due = q.requests.front()->arrived + delay;
      if (stopping || hurrying || q.samples >= q.max_batch() || due <= Clock::now()) {
        turn = (turn + i + 1) % queues.size();
        return &q;
      }
      until = std::min(until, due);
    }
    return nullptr;
  }

  void loop() {
    std::vector<std::shared_ptr<PendingRequest>> batch;
    std::unique_lock lock(mutex);
    for (;;) {
      Clock::time_point until;
      Queue* q = ready(until);
      if (!q) {
        if (until != Clock::time_point::max()) {
          filled.wait_until(lock, until);
        } else if (stopping) {
          return;
        } else {
          filled.wait(lock);
        }
        continue;
      }
      int64_t count = 0;
      const auto takes = [&](int64_t more) { return count == 0 || (q->merges && count + more <= q->max_batch()); };
      while (!q->requests.empty() && takes(q->requests.front()->count())) {
        count += q->requests.front()->count();
        batch.push_back(std::move(q->requests.front()));
        q->requests.pop_front();
      }
      q->samples -= count;
      q->model->metrics().waiting.store(q->samples, std::memory_order_relaxed);
      lock.unlock();
      answer(*q, batch);
      batch.clear();
      lock.lock();
    }
  }

  void answer(const Queue& queue, const std::vector<std::shared_ptr<PendingRequest>>& batch) {
    ServedModel& model = *queue.model;
    const ThreadLimit limit(queue.threads);
    std::exception_ptr error;
    try {
      for (const auto& request : batch) model.metrics().queue_seconds.add(seconds_since(request->arrived));
      run(model, batch);
    } catch (...) {
      error = std::current_exception();
    }
    for (const auto& request : batch) request->finish(error);
  }

  void run(ServedModel& model, const std::vector<std::shared_ptr<PendingRequest>>& batch) {
    std::vector<Array> samples;
    for (const auto& request : batch) samples.insert(samples.end(), request->samples.begin(), request->samples.end());
    ModelMetrics& metrics = model.metrics();
    const auto ran = [&](int64_t count, double seconds) {
      metrics.compute_seconds.add(seconds);
      metrics.batch_size.add(static_cast<double>(count));
      ++metrics.batches;
    };
    const Array y = model.predictor().run(samples, {.values_checked = true, .ran = ran});  // (samples, K)
    const float* row = y.data<float>();
    for (const auto& request : batch) {
      request->results = Array(DType::f32, {request->count(), y.shape()[1]});
      std::copy_n(row, request->results.numel(), request->results.data<float>());
      row += request->results.numel();
    }
  }
};

Engine::Engine(std::vector<ServedModel*> models, const EngineOptions& options, const Warmed& warmed)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.options = options;
  for (ServedModel* model : models) s.queues.push_back({.model = model, .requests = {}, .samples = 0});
  release_pool();  // with which the models were read
  std::promise<void> warm;
  std::future<void> warmed_all = warm.get_future();
  s.thread = std::thread([this, &warmed, warm = std::move(warm)]() mutable {
    try {
      state_->warm(warmed);
      warm.set_value();
    } catch (...) {
      warm.set_exception(std::current_exception());
    }
    state_->loop();
  });
  try {
    warmed_all.get();
  } catch (...) {
    s.stop();
    throw;
  }
}

Engine::~Engine() { state_->stop(); }

void Engine::hurry() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->hurrying = true;
  }
  state_->filled.notify_one();
}

Array Engine::run(ServedModel& model, std::vector<Array> samples) {
  State& s = *state_;
  const auto request = std::make_shared<PendingRequest>();
  request->samples = std::move(samples);
  {
    const std::lock_guard lock(s.mutex);
    const auto q = std::find_if(s.queues.begin(), s.queues.end(), [&](const Queue& x) { return x.model == &model; });
    FREIGHT_CHECK(q != s.queues.end(), "model ", model.name(), " is not of this engine");
    if (q->samples > 0 && q->samples + request->count() > kWaitingBatches * q->max_batch()) throw Busy();
    request->arrived = Clock::now();
    q->samples += request->count();
    model.metrics().waiting.store(q->samples, std::memory_order_relaxed);
    q->requests.push_back(request);
  }
  s.filled.notify_one();
  request->wait();
  if (request->error) std::rethrow_exception(request->error);
  return request->results;
}

}  // namespace freight::serve
