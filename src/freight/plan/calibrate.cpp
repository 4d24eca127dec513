// The measurement behind `freight calibrate`: training steps of small nets that are made for it are timed step by step.
// In a whole training step every kernel meets the operands and the caches that it meets in earnest, which a kernel run
// by itself does not. See rates.h.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <numeric>
#include <thread>
#include <tuple>

#include "freight/base/clock.h"
#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/median.h"
#include "freight/base/philox.h"
#include "freight/base/threads.h"
#include "freight/base/version.h"
#include "freight/models/loss.h"
#include "freight/ops/linalg.h"
#include "freight/optim/create.h"
#include "freight/plan/rates.h"
#include "freight/plan/reference_step.h"
#include "freight/run/executable.h"
#include "freight/run/plan.h"
#include "freight/trace/compile.h"

namespace freight::plan {

namespace {

using Clock = std::chrono::steady_clock;

// Passes over all nets, apart in time: a shared host is slow for seconds at a time.
constexpr size_t kRounds = 3;

// Waits while a barrier of the threads takes much longer than it can. A shared host that moves one of the cores to
// where it shares no cache with the others makes short kernels two to three times as slow, for seconds to minutes.
class Quiet {
 public:
  bool now() {
    const double last = barrier_seconds();
    return last <= kSlow * best_;
  }
  // Waits for at most this many seconds.
  bool wait(double seconds) {
    bool quiet = now();
    const double most = std::min(kPatience, waited_ + kShare * seconds);
    for (; !quiet && waited_ < most; quiet = now()) {
      std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
      waited_ += kPause;
    }
    return quiet;
  }

 private:
  static constexpr double kSlow = 1.6, kPause = 0.25, kPatience = 40;  // seconds
  static constexpr double kShare = 0.1;                                // of the remaining time, before each measurement
  // The median time of a fork and join, in seconds.
  double barrier_seconds() {
    std::vector<double> times(300);
    for (double& t : times) {
      const auto start = Clock::now();
      parallel_for(thread_count(), [](int64_t) {});
      t = seconds_since(start);
    }
    const double middle = median(std::move(times));
    best_ = std::min(best_, middle);
    return middle;
  }
  double best_ = 1e9, waited_ = 0;
};

// Time that is divided evenly among the remaining measurements.
class Budget {
 public:
  Budget(Clock::time_point end, size_t shares) : end_(end), shares_(shares) {}
  double left() const { return std::chrono::duration<double>(end_ - Clock::now()).count(); }
  // The seconds of the next measurement. A measurement that takes longer leaves less for those after it.
  double next() {
    const double share = std::max(left(), 0.0) / static_cast<double>(std::max<size_t>(shares_, 1));
    if (shares_ > 0) --shares_;
    return share;
  }

 private:
  Clock::time_point end_;
  size_t shares_;
};

struct Net {
  std::string name, spec;
  std::vector<int64_t> batches;
  const char* optimizer = "sgd";
};

std::string spec(const std::string& name, const std::string& input, const std::string& layers) {
  return cat(R"({"format":"freight-model-1","name":")", name, R"(","input":)", input, R"(,"net":[)", layers, "]}");
}
std::string tokens(const std::string& name, int64_t length, const std::string& layers) {
  return cat(R"({"format":"freight-model-1","name":")", name, R"(","input":[)", length,
             R"(],"input_dtype":"i32","net":[)", layers, "]}");
}
std::string conv(int64_t out, int kernel, int stride, int padding) {
  return cat(R"({"type":"Conv2d","out":)", out, R"(,"kernel":)", kernel, R"(,"stride":)", stride, R"(,"padding":)",
             padding, R"(,"bias":false},)");
}
std::string conv_bn(int64_t out, int kernel, int stride, int padding) {
  return conv(out, kernel, stride, padding) + R"({"type":"BatchNorm2d"},{"type":"ReLU"},)";
}
const char* const kPool = R"({"type":"MaxPool2d","kernel":2},)";
const char* const kHead = R"({"type":"AdaptiveAvgPool2d","output":1},{"type":"Flatten"},{"type":"Linear","out":12})";

// A stem, then for each width two 3x3 convolutions with a shortcut, halving the image between widths.
std::string residual_net(const std::vector<int64_t>& widths) {
  std::string layers = conv_bn(widths[0], 3, 1, 1);
  for (size_t i = 0; i < widths.size(); ++i) {
    if (i > 0) layers += conv_bn(widths[i], 3, 2, 1);
    layers += cat(R"({"type":"Residual","main":[)", conv_bn(widths[i], 3, 1, 1), conv(widths[i], 3, 1, 1),
                  R"({"type":"BatchNorm2d"}],"activation":{"type":"ReLU"}},)");
  }
  return layers + kHead;
}
// Bottlenecks: 1x1, 3x3, 1x1 at a quarter of the width.
std::string bottleneck_net(const std::vector<int64_t>& widths) {
  std::string layers = conv_bn(32, 7, 2, 3) + R"({"type":"MaxPool2d","kernel":3,"stride":2,"padding":1},)";
  for (size_t i = 0; i < widths.size(); ++i) {
    layers += conv_bn(widths[i], 1, i == 0 ? 1 : 2, 0);
    layers += cat(R"({"type":"Residual","main":[)", conv_bn(widths[i] / 4, 1, 1, 0), conv_bn(widths[i] / 4, 3, 1, 1),
                  conv(widths[i], 1, 1, 0), R"({"type":"BatchNorm2d"}],"activation":{"type":"ReLU"}},)");
  }
  return layers + kHead;
}
// Parallel branches of 1x1, 3x3 and 5x5 convolutions and a pool.
std::string branches_net() {
  std::string layers = conv_bn(48, 7, 2, 3) + kPool;
  for (const int64_t w : {24, 40, 56}) {
    const auto branch = [](std::string list) {
      list.pop_back();  // removes the last comma
      return cat("[", list, "]");
    };
    layers += cat(R"({"type":"Concat","branches":[)", branch(conv_bn(2 * w, 1, 1, 0)), ",",
                  branch(conv_bn(2 * w, 1, 1, 0) + conv_bn(4 * w, 3, 1, 1)), ",",
                  branch(conv_bn(w / 2, 1, 1, 0) + conv_bn(w, 5, 1, 2)), ",",
                  branch(R"({"type":"MaxPool2d","kernel":3,"stride":1,"padding":1},)" + conv_bn(w, 1, 1, 0)), "]},");
    if (w < 56) layers += kPool;
  }
  return layers + kHead;
}
// Convolutions with bias and pooling, then large linear layers.
std::string plain_net(const std::vector<int64_t>& widths, int64_t hidden) {
  std::string layers;
  for (const int64_t w : widths) {
    for (int i = 0; i < 2; ++i) {
      layers += cat(R"({"type":"Conv2d","out":)", w, R"(,"kernel":3,"padding":1},{"type":"ReLU"},)");
    }
    layers += kPool;
  }
  return cat(layers, R"({"type":"Flatten"},{"type":"Linear","out":)", hidden,
             R"(},{"type":"ReLU"},{"type":"Dropout"},{"type":"Linear","out":)", hidden,
             R"(},{"type":"ReLU"},{"type":"Linear","out":200})");
}

std::vector<Net> nets() {
  const auto mlp = [](int64_t a, int64_t b) {
    return cat(R"({"type":"Flatten"},{"type":"Linear","out":)", a, R"(},{"type":"ReLU"},{"type":"Linear","out":)", b,
               R"(},{"type":"ReLU"},{"type":"Linear","out":11})");
  };
  const auto recurrent = [](const char* type, int64_t rows, int64_t width) {
    return cat(R"({"type":"Embedding","rows":)", rows, R"(,"width":)", width, R"(,"padding_idx":0},{"type":")", type,
               R"(","hidden":)", width, R"(,"last":true},{"type":"Linear","out":5})");
  };
  const auto transformer = [](int64_t width, int64_t heads, int64_t length) {
    std::string blocks;
    for (int i = 0; i < 2; ++i) {
      blocks +=
          cat(R"({"type":"TransformerBlock","width":)", width, R"(,"heads":)", heads, R"(,"causal":true,"depth":2},)");
    }
    return cat(R"({"type":"Embedding","rows":90,"width":)", width, R"(},{"type":"PositionEmbedding","length":)", length,
               R"(,"width":)", width, "},", blocks, R"({"type":"LayerNorm"},{"type":"Linear","out":90})");
  };
  return {
      {"perceptron 96", spec("perceptron-96", "[1,24,24]", mlp(96, 160)), {1, 12, 48, 192}},
      {"perceptron 120", spec("perceptron-120", "[1,27,28]", mlp(120, 24)), {1, 12, 48, 192}},
      {"perceptron 144", spec("perceptron-144", "[1,25,25]", mlp(144, 72)), {1, 12, 48, 192}},
      {"perceptron 152", spec("perceptron-152", "[1,23,30]", mlp(152, 20)), {1, 12, 48, 192}},
      {"perceptron 200", spec("perceptron-200", "[1,26,26]", mlp(200, 40)), {1, 12, 48, 192}},
      {"perceptron 768", spec("perceptron-768", "[1,30,30]", mlp(768, 1536)), {1, 12, 48, 192}},
      {"small convolutions",
       spec("small-convolutions", "[1,32,32]",
            cat(R"({"type":"Conv2d","out":8,"kernel":5,"padding":2},{"type":"ReLU"},)", kPool,
                R"({"type":"Conv2d","out":16,"kernel":5},{"type":"ReLU"},)", kPool,
                R"({"type":"Flatten"},{"type":"Linear","out":96},{"type":"ReLU"},{"type":"Linear","out":10})")),
       {1, 12, 48, 192}},
      // Few channels, whose numbers are no multiples of eight: the kernels cannot fill their vectors.
      {"narrow strides",
       spec("narrow-strides", "[1,26,26]", conv_bn(10, 5, 2, 2) + conv_bn(20, 3, 2, 1) + conv_bn(40, 3, 1, 1) + kHead),
       {1, 12, 48, 192}},
      {"narrow pools",
       spec(
           "narrow-pools", "[1,24,24]",
           cat(R"({"type":"Conv2d","out":5,"kernel":5,"padding":2},{"type":"ReLU"},)", kPool,
               R"({"type":"Conv2d","out":14,"kernel":5},{"type":"ReLU"},)", kPool,
               R"({"type":"Flatten"},{"type":"Linear","out":100},{"type":"ReLU"},{"type":"Linear","out":60},{"type":"ReLU"},{"type":"Linear","out":9})")),
       {1, 12, 48, 192}},
      // More channels, whose numbers are no multiples of sixteen.
      {"uneven 24-104",
       spec("uneven-24", "[3,36,36]",
            conv_bn(24, 3, 1, 1) + conv_bn(48, 3, 1, 1) + kPool + conv_bn(56, 3, 1, 1) + conv_bn(56, 3, 1, 1) + kPool +
                conv_bn(104, 3, 1, 1) + conv_bn(80, 3, 1, 1) + kHead),
       {1, 12, 48, 128}},
      {"residual 16-64", spec("residual-16", "[3,36,36]", residual_net({16, 32, 64})), {1, 12, 48, 160}},
      {"residual 48-192", spec("residual-48", "[3,36,36]", residual_net({48, 96, 192})), {1, 12, 48, 128}},
      {"residual 64-512", spec("residual-64", "[3,52,52]", residual_net({64, 128, 256, 512})), {1, 6, 24}},
      {"bottleneck 256-2048", spec("bottleneck", "[3,208,208]", bottleneck_net({256, 512, 1024, 2048})), {1, 6, 24}},
      {"plain 64-512", spec("plain", "[3,104,104]", plain_net({64, 128, 256, 512}, 3000)), {1, 6, 20}},
      {"wide stem",
       spec(
           "wide-stem", "[3,208,208]",
           cat(R"({"type":"Conv2d","out":64,"kernel":11,"stride":4,"padding":2},{"type":"ReLU"},{"type":"MaxPool2d","kernel":3,"stride":2},)",
               R"({"type":"Conv2d","out":160,"kernel":5,"padding":2},{"type":"ReLU"},{"type":"MaxPool2d","kernel":3,"stride":2},)",
               kHead)),
       {1, 12, 64}},
      {"branches", spec("branches", "[3,112,112]", branches_net()), {1, 6, 24}},
      {"lstm 96", tokens("lstm-96", 60, recurrent("LSTM", 6000, 96)), {1, 6, 12, 48, 128}, "adam"},
      {"gru 192", tokens("gru-192", 40, recurrent("GRU", 16000, 192)), {1, 6, 12, 48, 128}, "adam"},
      {"transformer 256", tokens("transformer-256", 192, transformer(256, 4, 192)), {1, 6, 24, 64}, "adamw"},
  };
}

// A training step like the trainer's, which counts correct predictions, too.
struct CalibrationStep {
  const models::Model* model;
  optim::Optimizer* optimizer;
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& y) const {
    const auto [outputs, loss] = models::score(*model, x, y);
    optimizer->step(loss);
    return {loss, models::right_count(*model, outputs, y)};
  }
};

// Random inputs and targets within the network's ranges.
std::pair<Array, Array> batch_of(const models::Model& model, int64_t n) {
  PhiloxStream rng(1, 0, 1);
  const Type type = model.batch_type(n);
  Array x(type.dtype, type.shape);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (model.reads_tokens()) {
      x.data<int32_t>()[i] = static_cast<int32_t>(1 + rng.below(static_cast<uint32_t>(model.vocabulary() - 1)));
    } else {
      x.data<float>()[i] = rng.normal();
    }
  }
  if (model.language_model()) return {x, x};
  Array y(DType::i64, {n});
  for (int64_t i = 0; i < n; ++i) y.data<int64_t>()[i] = rng.below(static_cast<uint32_t>(model.classes()));
  return {x, y};
}

// A training step of a network that can be run with a timer around each step of its plan.
class TimedStep {
 public:
  TimedStep(const Net& net, int64_t batch, DType compute)
      : model_(models::from_spec(net.spec, net.name)),
        optimizer_(optim::create(net.optimizer, *model_.net, {.lr = 1e-4})),
        step_(CalibrationStep{&model_, optimizer_.get()}, {.compute = compute}) {
    model_.net->train();
    std::tie(x_, y_) = batch_of(model_, batch);
    run_ = &step_.executable(x_, y_);
    work_ = work_of(run_->plan());
  }
  TimedStep(const TimedStep&) = delete;
  TimedStep& operator=(const TimedStep&) = delete;

  const std::vector<Work>& work() const { return work_; }
  // The seconds of each step of the plan.
  std::vector<double> run() { return run_->run_timed({x_, y_}, {loss_, right_}); }

 private:
  models::Model model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Compiled<CalibrationStep> step_;
  Array x_, y_, loss_{DType::f32, {}}, right_{DType::f32, {}};
  Executable* run_ = nullptr;
  std::vector<Work> work_;
};

// Measures each plan step of a training step: the median of its times within `seconds`, which include planning.
std::vector<Point> measure(const Net& net, int64_t batch, DType compute, double seconds) {
  const auto start = Clock::now();
  TimedStep step(net, batch, compute);
  std::vector<Point> points;
  for (const Work& w : step.work()) points.push_back({w, 0});
  constexpr int kLeast = 3, kMost = 1000;
  std::vector<std::vector<double>> times(points.size());
  for (int i = 0; i < kMost && (i < kLeast || seconds_since(start) < seconds); ++i) {
    const std::vector<double> once = step.run();
    for (size_t s = 0; s < times.size(); ++s) times[s].push_back(once[s]);
  }
  for (size_t s = 0; s < times.size(); ++s) points[s].seconds = median(std::move(times[s]));
  return points;
}

// Measures matmuls in f64, which no network has, and factorizations in both types: the median of some runs of each.
// Small sizes come first, and the smallest is always measured, so that each kind has a point.
std::vector<Point> measure_matrices(double seconds) {
  struct Matrices {
    std::vector<Tensor> (*run)(const Tensor& x);
    std::vector<int64_t> extents;
  };
  // Spectral factorizations take about ten times as long as the others.
  const Matrices all[] = {
      {[](const Tensor& x) { return std::vector<Tensor>{matmul(x, x)}; }, {24, 96, 320, 1000}},
      {[](const Tensor& x) { return std::vector<Tensor>{lu_factor(x).lu}; }, {24, 96, 320, 1000}},
      {[](const Tensor& x) { return std::vector<Tensor>{cholesky(x)}; }, {24, 96, 320, 1000}},
      {[](const Tensor& x) { return std::vector<Tensor>{solve_triangular(x, x)}; }, {24, 96, 320, 1000}},
      {[](const Tensor& x) { return std::vector<Tensor>{qr(x).q}; }, {24, 96, 320}},
      {[](const Tensor& x) { return std::vector<Tensor>{eigh(x).vectors}; }, {24, 96, 192}},
      {[](const Tensor& x) { return std::vector<Tensor>{svd(x).u}; }, {24, 96, 192}},
      {[](const Tensor& x) { return std::vector<Tensor>{eig(x).vectors_re}; }, {24, 96}},
  };
  size_t count = 0, most = 0;
  for (const Matrices& m : all) {
    count += 2 * m.extents.size();
    most = std::max(most, m.extents.size());
  }
  const auto begin = Clock::now();
  Budget budget(begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)), count);
  std::vector<Point> points;
  for (size_t size = 0; size < most; ++size) {
    for (const Matrices& m : all) {
      for (const DType dtype : {DType::f64, DType::f32}) {
        if (size >= m.extents.size() || (size > 0 && budget.left() <= 0)) continue;
        const int64_t n = m.extents[size];
        const double share = budget.next();
        const auto start = Clock::now();
        // A large diagonal makes it positive definite; the other entries differ, so that singular values do.
        Array x(DType::f64, {n, n});
        PhiloxStream rng(1, 0, 2);
        for (int64_t i = 0; i < x.numel(); ++i) {
          const int64_t row = i / n, column = i % n;
          x.data<double>()[i] = row == column ? static_cast<double>(n + row) : static_cast<double>(rng.normal());
        }
        x = x.cast(dtype);
        Compiled<decltype(m.run)> step(m.run, {});
        Executable& run = step.executable(x);
        const std::vector<Work> work = work_of(run.plan());
        const Array y(dtype, {n, n});
        constexpr int kLeast = 3, kMost = 100;
        std::vector<std::vector<double>> times(work.size());
        for (int i = 0; i < kMost && (i < kLeast || seconds_since(start) < share); ++i) {
          const std::vector<double> once = run.run_timed({x}, {y});
          for (size_t s = 0; s < times.size(); ++s) times[s].push_back(once[s]);
        }
        for (size_t s = 0; s < work.size(); ++s) {
          if (work[s].product()) points.push_back({work[s], median(std::move(times[s]))});
        }
      }
    }
  }
  return points;
}

double total(const std::vector<Point>& points) {
  return std::accumulate(points.begin(), points.end(), 0.0, [](double sum, const Point& p) { return sum + p.seconds; });
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

// Steps of equal kind and size are the same work if their memory was last used about as long ago.
bool same_work(const Work& a, const Work& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.m == b.m && a.n == b.n && a.k == b.k && a.whole == b.whole &&
         a.flops == b.flops && a.bytes == b.bytes && std::fabs(std::log2((a.distance + 1) / (b.distance + 1))) < 0.5;
}

void add_distinct(Rates& rates, const std::vector<Point>& points) {
  std::vector<const Point*> taken;
  for (const Point& p : points) {
    if (std::any_of(taken.begin(), taken.end(), [&](const Point* t) { return same_work(t->work, p.work); })) continue;
    taken.push_back(&p);
    rates.add(p);
  }
}

}  // namespace

struct ReferenceStep::State {
  // Its activations are larger than a core's private caches, as in networks that are worth training on several devices.
  static constexpr const char* kNet = "residual 16-64";
  static constexpr int64_t kBatch = 48;
  static Net net() {
    const std::vector<Net> all = nets();
    return *std::find_if(all.begin(), all.end(), [](const Net& n) { return n.name == kNet; });
  }
  TimedStep step{net(), kBatch, DType::f32};
};

ReferenceStep::ReferenceStep() : state_(std::make_unique<State>()) {}
ReferenceStep::~ReferenceStep() = default;

ReferenceStep::Seconds ReferenceStep::run() {
  const std::vector<double> seconds = state_->step.run();
  Seconds s;
  for (size_t i = 0; i < seconds.size(); ++i) (state_->step.work()[i].product() ? s.products : s.rest) += seconds[i];
  return s;
}

Rates calibrate(const CalibrationOptions& options, CalibrationProgress& progress) {
  struct Measured {
    size_t net;
    bool quiet = false;  // whether the machine was quiet before and after
    double seconds = 0;  // of the measurement, including its plan
    std::vector<Point> points = {};
  };
  constexpr double kOfMatrices = 0.1;  // fraction of the time
  const std::vector<Net> all = nets();
  size_t items = 0, most = 0;
  for (const Net& n : all) {
    items += n.batches.size();
    most = std::max(most, n.batches.size());
  }
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>((1 - kOfMatrices) * options.seconds));
  Budget budget(end, items * options.types.size() * kRounds);
  std::map<std::tuple<size_t, size_t, size_t>, Measured> measured;  // by network, batch and type
  Quiet quiet;
  // Measures an item unless it would take more time than is left. The smallest batches are always measured, so that
  // each kind of step has a point.
  const auto measure_one = [&](size_t net, size_t b, size_t type) {
    const double share = budget.next();
    const std::vector<int64_t>& batches = all[net].batches;
    const auto known = measured.find({net, b, type});
    const auto smaller = b > 0 ? measured.find({net, b - 1, type}) : measured.end();
    if (known == measured.end() && b > 0) {
      if (smaller == measured.end()) return;  // the smaller batch already took too long
      const double growth = static_cast<double>(batches[b]) / static_cast<double>(batches[b - 1]);
      if (growth * smaller->second.seconds > budget.left()) return;
    }
    if (known != measured.end() && known->second.seconds > budget.left()) return;
    const bool before = quiet.wait(budget.left());
    const auto start = Clock::now();
    Measured m{.net = net, .points = measure(all[net], batches[b], options.types[type], share)};
    m.seconds = seconds_since(start);
    m.quiet = quiet.now() && before;
    // Takes the quietest pass as a whole: the minimum over the passes of each step would be less than any pass takes.
    if (known == measured.end()) {
      measured.emplace(std::tuple(net, b, type), std::move(m));
    } else if (std::pair(!m.quiet, total(m.points)) < std::pair(!known->second.quiet, total(known->second.points))) {
      known->second = std::move(m);
    }
  };
  bool whole = true;
  size_t number = 0;
  for (size_t r = 0; r < kRounds; ++r) {
    for (size_t b = 0; b < most; ++b) {
      for (size_t net = 0; net < all.size() && whole; ++net) {
        if (b >= all[net].batches.size()) continue;
        ++number;
        if ((r > 0 || b > 0) && budget.left() <= 0) continue;
        whole = progress.next(number, kRounds * items, cat(all[net].name, ", batch ", all[net].batches[b]));
        for (size_t type = 0; type < options.types.size() && whole; ++type) measure_one(net, b, type);
      }
    }
  }
  Rates rates;
  rates.device = cpu_info().model;
  rates.threads = thread_count();
  rates.version = version();
  rates.date = today();
  for (const auto& [item, m] : measured) add_distinct(rates, m.points);
  if (whole) add_distinct(rates, measure_matrices(budget.left() + kOfMatrices * options.seconds));
  // Predicts each network from the points of the others.
  std::vector<double> errors;
  for (size_t i = 0; i < all.size(); ++i) {
    Rates others;
    for (const auto& [item, m] : measured) {
      if (m.net != i) add_distinct(others, m.points);
    }
    for (const auto& [item, m] : measured) {
      if (m.net != i || others.size() == 0) continue;
      double predicted = 0, took = 0;
      for (const Point& p : m.points) {
        predicted += others.seconds(p.work);
        took += p.seconds;
      }
      errors.push_back(std::fabs(predicted / took - 1));
    }
  }
  std::sort(errors.begin(), errors.end());
  if (!errors.empty()) {
    rates.median_error = errors[errors.size() / 2];
    rates.p90_error = errors[errors.size() * 9 / 10];
  }
  return rates;
}

}  // namespace freight::plan
