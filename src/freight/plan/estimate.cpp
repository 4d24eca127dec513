// See estimate.h. Formulas: a step takes max(FLOPs / (fraction x dense peak), bytes / (fraction x bandwidth)) plus what
// a kernel costs to start; a training step is their sum (Williams et al. 2009, "Roofline"; docs/tour/time.md), but for
// copies to the host and from it, each of which begins when its queue and its bytes allow (run/queues.cpp).
#include "freight/plan/estimate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "freight/base/cpu_info.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"
#include "freight/passes/pieces.h"

namespace freight::plan {

namespace {

// For devices without measured fractions in the catalog. Best: the median of those that have them, 0.80 of the peak and
// 0.80 of the bandwidth. Usual: what whole training steps of other software reached (docs/tour/time.md).
constexpr double kBestMatmul = 0.80, kUsualMatmul = 0.40, kBestBandwidth = 0.80, kUsualBandwidth = 0.55;
// Seconds of a kernel in a replayed graph, and of one that a framework launches from the host.
constexpr double kBestLaunch = 2e-6, kUsualLaunch = 8e-6;
// The fraction of a device's memory that its driver and libraries use.
constexpr double kReserved = 0.06;

// Host cores per device that read data, if no offer says how many there are.
constexpr double kCores = 8;
// The standard deviation of times between devices of one kind at the slow end of a range; at the fast end there is
// none. "8 % (max 22 %) average performance variation" over the GPUs of a cluster, taken as four standard deviations
// (Sinha et al., Not All GPUs Are Created Equal, SC22).
constexpr double kDeviation = 0.02;
// Below this fraction of a step nothing is reported as a limit.
constexpr double kLittle = 0.03;
// Assumed fractions of PCIe's rate between a device and pinned memory of its host.
constexpr double kBestHost = 0.85, kUsualHost = 0.6;
// A checkpoint is copied while the run waits, and written while it continues: assumed bytes per second.
constexpr double kBestCopy = 10e9, kUsualCopy = 2e9, kBestWrite = 2e9, kUsualWrite = 0.3e9;

struct Timed {
  double total = 0;
  ByBound by;                 // transfer: the time that kernels wait for copies
  std::vector<double> steps;  // by which each step delays the end of its queue of kernels
};
// Arithmetic outside of products runs on the plain units; if their rate is not known, only bytes count.
Speed speed(const Device& d, double matmul, double bandwidth, double launch, double host) {
  const auto products = [&](DType type) { return d.rate(type).first * 1e12 * matmul; };
  return {.f32 = products(DType::f32),
          .f64 = products(DType::f64),
          .bf16 = products(DType::bf16),
          .f16 = products(DType::f16),
          .plain = d.peak("fp32") * 1e12 * 0.5,
          .bytes = d.bandwidth_gb * 1e9 * bandwidth,
          .transfer = d.host_gb() * 1e9 * host,
          .launch = launch,
          .chained = d.kind == "cpu" ? 0 : launch};
}

Timed time_of(const std::vector<Work>& work, const Speed& speed) {
  Timed t;
  t.steps.reserve(work.size());
  std::array<double, kQueues> queues{};  // the time at which each queue is done
  std::vector<double> done;
  done.reserve(work.size());
  for (const Work& w : work) {
    Bound bound{};
    const double s = seconds_of(w, speed, &bound);
    // If the rate of a device's link is not known, its copies run in the queue of kernels.
    const Queue own = speed.transfer > 0 ? w.queue : Queue::kernels;
    double& queue = queues[static_cast<size_t>(own)];
    const double before = queue;
    for (const int32_t step : w.after) {
      if (step >= 0) queue = std::max(queue, done[static_cast<size_t>(step)]);
    }
    if (own == Queue::kernels) {
      t.by[Bound::transfer] += queue - before;
      t.by[bound] += s;
    }
    queue += s;
    done.push_back(queue);
    t.steps.push_back(own == Queue::kernels ? queue - before : 0);
  }
  t.total = *std::max_element(queues.begin(), queues.end());
  t.by[Bound::transfer] += t.total - queues[0];
  return t;
}

// The host that data pass: cores that read, and the link to the device in bytes per second (0: not known, or none).
struct Host {
  double cores = 0;
  Range bytes;
  bool computes = false;  // the same cores compute
};

// The time to read `samples` samples on the device's host and send them to it, at the pace of the slower of the two.
Range reading(const RunLength& length, double samples, const Host& host) {
  const double threads = length.workers > 0 ? std::min(length.workers, host.cores) : host.cores;
  Range r = length.load_seconds * (samples / std::max(threads, 1.0));
  const double bytes = length.sample_bytes * samples;
  if (host.bytes.low > 0) r = {std::max(r.low, bytes / host.bytes.high), std::max(r.high, bytes / host.bytes.low)};
  return r;
}

// Combines a computation and the reading of its data: one after the other if a CPU does both, else overlapping.
Range together(const Range& compute, const Range& data, const Host& host) {
  if (host.computes) return {compute.low + data.low, compute.high + data.high};
  return {std::max(compute.low, data.low), std::max(compute.high, data.high)};
}

// `compute`: the seconds of a step's computation; `evaluation`: of a sample's. `host`: the host's resources for each
// device.
void fill_run(Estimate& e, const StepPlan& d, const Range& compute, const Range& evaluation, const RunLength& length,
              const Host& host) {
  const double batch = static_cast<double>(d.options.batch), global = batch * static_cast<double>(e.devices);
  e.timed = true;
  e.data_seconds = reading(length, batch, host);
  e.step_seconds = together(compute, e.data_seconds, host);
  e.samples_per_second = {global / e.step_seconds.high, global / e.step_seconds.low};
  if (length.steps_per_epoch <= 0) return;
  e.epoch_hours = e.step_seconds * (length.steps_per_epoch / 3600);
  const double evaluated = length.evaluations * length.evaluation_samples / 3600;
  e.evaluation_hours = together(evaluation, reading(length, 1, host), host) * evaluated;
  const auto state = static_cast<double>(d.part(Part::weights) + d.part(Part::optimizer) + d.part(Part::averages));
  const auto saving = [&](double copy, double write, double epoch_hours) {
    if (length.saves_in_place) return (length.checkpoints + 1) * state / write / 3600;
    const double between = epoch_hours * 3600 * length.epochs / std::max(length.checkpoints, 1.0);
    // Waits for the previous checkpoint, which is still being written.
    const double late = std::max(0.0, state / write - between);
    return (length.checkpoints * (state / copy + late) + state / write) / 3600;
  };
  e.checkpoint_hours = {saving(kBestCopy, kBestWrite, e.epoch_hours.low),
                        saving(kUsualCopy, kUsualWrite, e.epoch_hours.high)};
  e.run_hours = e.epoch_hours * length.epochs;
  for (const Range& more : {e.evaluation_hours, e.checkpoint_hours}) {
    e.run_hours = {e.run_hours.low + more.low, e.run_hours.high + more.high};
  }
}

void fill_fit(Estimate& e, const std::vector<StepPlan>& step_plans, const StepPlan& running, double memory) {
  e.total_bytes = static_cast<double>(running.total());
  e.memory_bytes = memory;
  if (memory <= 0) return;
  e.largest_batch = formula(step_plans).largest(memory);
  e.fits = e.total_bytes <= memory;
  if (*e.fits) return;
  e.means = accumulation_for(step_plans, memory);
}

}  // namespace

double Range::middle() const { return std::sqrt(low * high); }

const char* to_string(Bound bound) {
  constexpr const char* kNames[kBounds] = {"compute", "memory", "launch", "transfer"};
  return kNames[static_cast<size_t>(bound)];
}

double ByBound::sum() const { return std::accumulate(at.begin(), at.end(), 0.0); }
Bound ByBound::largest() const { return static_cast<Bound>(std::max_element(at.begin(), at.end()) - at.begin()); }
void ByBound::add(const ByBound& other, double times) {
  for (size_t i = 0; i < kBounds; ++i) at[i] += times * other.at[i];
}
ByBound ByBound::shares() const {
  ByBound s;
  if (sum() > 0) s.add(*this, 1 / sum());
  return s;
}

Assumption assumption(const Device& d, DType compute) {
  Assumption a;
  const auto [peak, rate] = d.rate(compute);
  a.peak = cat(rate, " ", fixed(peak, peak < 10 ? 2 : 0), " TFLOP/s dense");
  const bool measured = d.matmul_fraction > 0, bandwidth = d.bandwidth_fraction > 0;
  a.best_matmul = measured ? d.matmul_fraction : kBestMatmul;
  a.best_bandwidth = bandwidth ? d.bandwidth_fraction : kBestBandwidth;
  a.usual_matmul = a.best_matmul * kUsualMatmul / kBestMatmul;
  a.usual_bandwidth = a.best_bandwidth * kUsualBandwidth / kBestBandwidth;
  const bool host = d.kind == "cpu";  // a CPU launches nothing: a kernel is a call
  a.best_launch = host ? 5e-7 : kBestLaunch;
  a.usual_launch = host ? 5e-6 : kUsualLaunch;
  a.matmul_source = measured ? "published for this device" : "the median of published ones";
  a.bandwidth_source = bandwidth ? "published for this device" : "the median of published ones";
  return a;
}

Speed best_speed(const Device& d, const Assumption& a) {
  return speed(d, a.best_matmul, a.best_bandwidth, a.best_launch, kBestHost);
}
Speed usual_speed(const Device& d, const Assumption& a) {
  return speed(d, a.usual_matmul, a.usual_bandwidth, a.usual_launch, kUsualHost);
}

namespace {

double product_rate(DType dtype, const Speed& s) {
  switch (dtype) {
    case DType::f64: return s.f64;
    case DType::bf16: return s.bf16;
    case DType::f16: return s.f16;
    default: return s.f32;
  }
}
// Devices have fewer units for f64 than for f32, in products and elsewhere alike.
double plain_rate(DType dtype, const Speed& s) {
  return dtype == DType::f64 && s.f32 > 0 ? s.plain * std::min(1.0, s.f64 / s.f32) : s.plain;
}

}  // namespace

double seconds_of(const Work& w, const Speed& s, Bound* bound) {
  if (w.kind == kTransfer && s.transfer > 0) {
    if (bound) *bound = Bound::transfer;
    return w.bytes / 2 / s.transfer + s.launch;  // each byte is read here and written there
  }
  const double rate = w.product() ? w.share * product_rate(w.dtype, s) : plain_rate(w.dtype, s);
  const double flops = rate > 0 ? w.flops / rate : 0, bytes = w.bytes / s.bytes;
  const double launch = s.launch + (w.launches - 1) * s.chained;
  if (bound) {
    *bound = launch > std::max(flops, bytes) ? Bound::launch : flops > bytes ? Bound::compute : Bound::memory;
  }
  return std::max(flops, bytes) + launch;
}

double seconds_of(const std::vector<Work>& work, const Speed& speed) { return time_of(work, speed).total; }

namespace {

// The mean length of a training text within its batch, as a fraction of the longest; 1 for other data.
double share_of_longest(const TrainingSetup& s) {
  double tokens = 0, documents = 0;
  for (const data::LengthCount& l : s.lengths.train) {
    tokens += static_cast<double>(l.length * l.documents);
    documents += static_cast<double>(l.documents);
  }
  return documents > 0 ? tokens / (documents * static_cast<double>(s.input.shape[0])) : 1;
}

// Each length has its own batches.
double steps_of_texts(const TrainingSetup& s) {
  int64_t steps = 0;
  for (const data::LengthCount& l : s.lengths.train) {
    steps += data::batches_of(l.documents, {.batch_size = s.config.batch_size, .drop_last = true});
  }
  return static_cast<double>(std::max<int64_t>(steps, 1));
}

}  // namespace

RunLength RunLength::of(const TrainingSetup& s, int64_t samples) {
  RunLength l;
  const auto values = static_cast<double>(s.input.numel());
  // The time to decode a photograph, per pixel of the sample, as measured for small images and photographs
  // (docs/tour/time.md). Other data is copied and scaled from memory: 4 and 1 GB/s of f32 on one core, assumed.
  if (s.images_in_files) {
    l.load_seconds = Range{7e-9, 18e-9} * (values / static_cast<double>(std::max<int64_t>(s.input.shape[0], 1)));
  } else {
    l.load_seconds = Range{1e-9, 4e-9} * values;
  }
  for (const Type& t : {s.batch_types(1).first, s.batch_types(1).second}) {
    l.sample_bytes += static_cast<double>(t.bytes());
  }
  const double padded = share_of_longest(s);
  l.load_seconds = l.load_seconds * padded;
  l.sample_bytes -= (1 - padded) * static_cast<double>(s.batch_types(1).first.bytes());
  l.saves_in_place = s.config.save_in_place;
  l.workers = static_cast<double>(std::max<int64_t>(s.config.workers, 0));
  const int64_t count = samples > 0 ? samples : s.train_count;
  if (count <= 0) return l;
  const train::Config& c = s.config;
  l.steps_per_epoch = std::max(1.0, std::floor(static_cast<double>(count) / static_cast<double>(c.batch_size)));
  if (samples <= 0 && !s.lengths.train.empty()) l.steps_per_epoch = steps_of_texts(s);
  l.epochs = static_cast<double>(c.epochs);
  if (c.max_steps > 0) {
    const double most = static_cast<double>(c.max_steps) / l.steps_per_epoch;
    l.epochs = c.epochs > 0 ? std::min(l.epochs, most) : most;
  }
  l.evaluations = std::ceil(l.epochs / static_cast<double>(c.eval_every));
  l.evaluation_samples = static_cast<double>(s.test_count);
  l.checkpoints = std::ceil(l.epochs);
  if (c.save_every > 0) l.checkpoints += std::floor(l.epochs * l.steps_per_epoch / static_cast<double>(c.save_every));
  return l;
}

std::string accumulation_for(const std::vector<StepPlan>& step_plans, double bytes) {
  const StepPlan& d = step_plans[0];
  const Formula line = formula(step_plans);
  const auto weights = static_cast<double>(d.parameters) * 4;
  const double more = d.options.parts > 1 ? 0 : weights;  // for accumulators
  for (int64_t parts = std::max<int64_t>(2, d.options.parts); parts <= d.options.batch; ++parts) {
    const int64_t part = (d.options.batch + parts - 1) / parts * d.options.parts;
    if (line.at(part) + more <= bytes) return cat("--grad-accum ", parts);
  }
  return {};
}

namespace {

// The seconds of a step's computation and of a sample's evaluation, on a `fleet` of the device.
struct Computed {
  Range step, sample, exposed, sums, waiting;
  ByBound by;  // at the slow end
};

std::vector<double> at_pace(std::vector<double> steps, double pace) {
  for (double& s : steps) s *= pace;
  return steps;
}

// The stage after which gradients are final: the last micro-batch, before the stage that applies them.
size_t last_stage_of_gradients(const StepPlan& d) { return d.stages.size() > 1 ? d.stages.size() - 2 : 0; }

// The mean over the lengths of texts in an epoch, and in the test.
template <class F>
Computed over_lengths(const StepPlan& d, F computed) {
  if (d.lengths.empty()) return computed(d);
  Computed mean;
  for (const StepPlanOfLength& l : d.lengths) {
    const Computed c = computed(l.step_plan);
    mean.step = mean.step + c.step * l.length.steps;
    mean.exposed = mean.exposed + c.exposed * l.length.steps;
    mean.sums = mean.sums + c.sums * l.length.steps;
    mean.waiting = mean.waiting + c.waiting * l.length.steps;
    mean.by.add(c.by, l.length.steps);
    mean.sample = mean.sample + c.sample * l.length.tested;
  }
  return mean;
}

Computed of_one_length(const StepPlan& d, const Device& device, const Assumption& a, const Fleet& fleet,
                       const Sums& sums) {
  Computed c;
  const Speed best_of = best_speed(device, a), usual_of = usual_speed(device, a);
  const Pace& pace = fleet.pace;
  const size_t last = last_stage_of_gradients(d);
  for (size_t i = 0; i < d.stages.size(); ++i) {
    const StepPlan::Stage& s = d.stages[i];
    const Timed best = time_of(s.work, best_of), usual = time_of(s.work, usual_of);
    c.step = c.step + Range{best.total * pace.best, usual.total * pace.usual} * s.times;
    c.by.add(usual.by, s.times);
    if (fleet.devices == 1 || i != last) continue;
    const double bytes = static_cast<double>(d.parameters) * 4;
    const Summing low = sum_gradients(s.work, at_pace(best.steps, pace.best), bytes, {sums.best, {}},
                                      fleet.piece_of_others),
                  high = sum_gradients(s.work, at_pace(usual.steps, pace.usual), bytes, {sums.usual, {}},
                                       fleet.piece_of_others);
    c.exposed = {low.exposed, high.exposed};
    c.sums = {low.seconds, high.seconds};
  }
  c.waiting = {0, c.step.high * kDeviation * slowest_of(fleet.devices)};
  c.step = c.step + c.exposed + c.waiting;
  if (!d.evaluation.empty()) {
    c.sample =
        Range{time_of(d.evaluation, best_of).total * pace.best, time_of(d.evaluation, usual_of).total * pace.usual} *
        (1.0 / (static_cast<double>(d.evaluation_batch) * static_cast<double>(fleet.devices)));
  }
  return c;
}

Computed computed(const StepPlan& d, const Device& device, const Assumption& a, const Fleet& fleet, const Sums& sums) {
  return over_lengths(d, [&](const StepPlan& one) { return of_one_length(one, device, a, fleet, sums); });
}

double mean(const Range& r) { return (r.low + r.high) / 2; }

// Names what limits the speedup of several devices most.
std::string limit_of(const Estimate& e) {
  if (mean(e.data_seconds) >= 0.99 * mean(e.step_seconds)) return "reading data";
  const double sums = mean(e.summing_seconds), waiting = mean(e.waiting_seconds);
  if (std::max(sums, waiting) < kLittle * mean(e.step_seconds)) return "computing";
  return sums >= waiting ? cat("all-reduce over ", e.link) : "waiting for the slowest device";
}

void take_sums(Estimate& e, const Computed& c, const Sums& sums) {
  e.summing_seconds = c.exposed;
  e.all_summing_seconds = c.sums;
  e.waiting_seconds = c.waiting;
  e.beyond = sums.beyond;
  if (e.beyond.empty() && e.devices > kMostCompared) {
    e.beyond =
        cat("beyond the ", kMostCompared, " devices of the largest published run that predictions were compared with");
  }
}

}  // namespace

Estimate estimate(const std::vector<StepPlan>& step_plans, const Device& device, const Catalog& catalog,
                  const RunLength& length, const Fleet& fleet, const StepPlan* running) {
  const StepPlan& d = running ? *running : step_plans[0];
  const DType compute = d.options.compute;
  const Assumption a = assumption(device, compute);
  Estimate e;
  e.device = device.name;
  e.devices = fleet.devices;
  e.offer = catalog.cheapest(device.name, fleet.devices);
  const bool host = device.kind == "cpu";
  const double gib = static_cast<double>(int64_t{1} << 30);
  fill_fit(e, step_plans, d, host ? 0 : device.memory_gib * gib * (1 - kReserved));
  const Sums sums = sums_of(device, fleet, catalog);
  if (fleet.devices > 1 && (sums.link.empty() || host)) {
    e.assumed = "what connects several of them is not known";
    return e;
  }
  e.link = sums.link;
  const Computed c = computed(d, device, a, fleet, sums);
  e.shares = c.by.shares();
  take_sums(e, c, sums);
  e.assumed =
      cat(a.peak, " x ", fixed(a.usual_matmul, 2), " to ", fixed(a.best_matmul, 2), ", ", fixed(device.bandwidth_gb, 0),
          " GB/s x ", fixed(a.usual_bandwidth, 2), " to ", fixed(a.best_bandwidth, 2),
          e.shares[Bound::transfer] > 0 ? cat(", PCIe ", device.pcie, " of ", fixed(device.host_gb(), 0), " GB/s x ",
                                              fixed(kUsualHost, 2), " to ", fixed(kBestHost, 2))
                                        : "",
          e.link.empty() ? "" : cat(", gradients over ", e.link));
  // Two virtual cores of an offer are one physical core.
  const bool known = e.offer && e.offer->price->vcpus > 0 && e.offer->price->count > 0;
  const double cores = known ? e.offer->price->vcpus / e.offer->price->count / 2 : kCores;
  const double bytes = host ? 0 : device.host_gb() * 1e9;
  fill_run(e, d, c.step, c.sample, length,
           {host ? std::max(cores, 16.0) : cores, Range{kUsualHost, kBestHost} * bytes, host});
  e.limit = limit_of(e);
  e.utilization = mean_over_steps(d, [](const StepPlan& one) { return one.flops; }) /
                  (e.step_seconds.middle() * device.rate(compute).first * 1e12);
  if (e.run_hours.high > 0 && e.offer) e.dollars = e.run_hours * e.offer->usd();
  // From 60 % of the rated power, the average of long training runs, to all of it; host and cooling are not included.
  if (e.run_hours.high > 0 && device.tdp_watts > 0) {
    const double watts = device.tdp_watts * static_cast<double>(fleet.devices);
    e.watt_hours = {e.run_hours.low * watts * 0.6, e.run_hours.high * watts};
  }
  return e;
}

Pace pace_of(const std::vector<StepPlan>& step_plans, const Device& device, double rate) {
  const StepPlan& d = step_plans[0];
  const Computed c = computed(d, device, assumption(device, d.options.compute), {}, {});
  const double seconds = static_cast<double>(d.options.batch) / rate;
  return {seconds / c.step.low, seconds / c.step.high};
}

namespace {

// The factor between the middle of a range and its ends.
double spread_of(const Rates& rates) { return 1 + std::clamp(rates.p90_error, 0.05, 1.0); }

}  // namespace

Range step_seconds(const StepPlan& d, const Rates& rates) {
  const double middle = mean_over_steps(d, [&](const StepPlan& one) {
    double sum = 0;
    for (const StepPlan::Stage& s : one.stages) sum += rates.seconds(s.work) * s.times;
    return sum;
  });
  const double spread = spread_of(rates);
  return {middle / spread, middle * spread};
}

namespace {

// The rates at which ranks on CPUs like this machine's compute and sum.
struct RanksHere {
  const Rates* rates;
  Sums sums;
  double devices = 1;
  bool one_host = false;
  // The factor by which steps take longer because a rank has fewer threads than the rates were measured with.
  double threads = 1;

  // The time of a step while all ranks compute.
  double seconds(const Work& w) const {
    const double slower = !sums.beside ? 1 : w.product() ? sums.beside->products : sums.beside->rest;
    return rates->seconds(w) * threads * slower;
  }
  double seconds(const std::vector<Work>& work) const {
    return std::accumulate(work.begin(), work.end(), 0.0, [&](double sum, const Work& w) { return sum + seconds(w); });
  }
};

// Adds the all-reduce of gradients: after the steps that make them, or over a network overlapping with these, if a run
// would choose that (train --overlap auto). The update follows.
void sum_here(Computed& c, const StepPlan& d, const RanksHere& ranks) {
  const double bytes = static_cast<double>(d.parameters) * 4;
  const Sums& sums = ranks.sums;
  c.sums = {sums.best.of(bytes), sums.usual.of(bytes)};
  c.exposed = c.sums;
  if (ranks.one_host) return;
  const std::vector<Work>& last = d.stages[last_stage_of_gradients(d)].work;
  std::vector<double> seconds;
  for (const Work& w : last) seconds.push_back(w.kind == "update" ? 0 : ranks.seconds(w));
  const double compute = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  const auto take = [&](const SumCost& cost, double& all, double& exposed) {
    const Summing foreseen = sum_gradients(last, seconds, bytes, {cost, {}});
    if (!pays_beside(compute + foreseen.exposed, compute + all)) return;
    if (!sums.beside) {
      all = foreseen.seconds;
      exposed = foreseen.exposed;
      return;
    }
    const double of_measured = cost.of(bytes) / (sums.best.of(bytes) + sums.usual.of(bytes)) * 2;
    const SumCost slower{sums.beside->sum.start * of_measured, sums.beside->sum.per_byte * of_measured};
    const Summing beside = sum_gradients(last, seconds, bytes, {cost, slower});
    all = beside.seconds;
    exposed = beside.exposed + sums.beside->lost_per_byte * beside.beside;
  };
  take(sums.best, c.sums.low, c.exposed.low);
  take(sums.usual, c.sums.high, c.exposed.high);
}

Computed of_one_length(const StepPlan& d, const RanksHere& ranks) {
  Computed c;
  double compute = 0;
  for (const StepPlan::Stage& s : d.stages) {
    compute += ranks.seconds(s.work) * s.times;
    for (const Work& w : s.work) {
      const Bound bound = w.product() ? Bound::compute : w.kind == kTransfer ? Bound::transfer : Bound::memory;
      c.by[bound] += ranks.seconds(w) * s.times;
    }
  }
  const double spread = spread_of(*ranks.rates);
  const Range alone{compute / spread, compute * spread};
  sum_here(c, d, ranks);
  if (ranks.sums.beside) c.waiting = alone * (ranks.sums.beside->slowest - 1);
  c.step = alone + c.waiting + c.exposed;
  if (d.evaluation.empty()) return c;
  const double sample = ranks.seconds(d.evaluation) / (static_cast<double>(d.evaluation_batch) * ranks.devices);
  c.sample = {sample / spread, sample * spread};
  return c;
}

}  // namespace

Estimate estimate_here(const std::vector<StepPlan>& step_plans, const Rates* rates, const RunLength& length,
                       const StepPlan* running, const Fleet& fleet) {
  const CpuInfo cpu = cpu_info();
  const StepPlan& d = running ? *running : step_plans[0];
  const bool one_host = fleet.devices > 1 && fleet.measured && fleet.measured->one_host;
  const double ranks_here = one_host ? static_cast<double>(fleet.devices) : 1;
  Estimate e;
  e.devices = fleet.devices;
  e.device = cat("this machine: ", cpu.model, ", ", thread_count(), " threads");
  fill_fit(e, step_plans, d, static_cast<double>(cpu.memory_bytes) / ranks_here);
  if (!rates) {
    e.assumed = "not calibrated: freight calibrate measures this machine once, in about two minutes";
    return e;
  }
  RanksHere ranks{.rates = rates,
                  .sums = sums_of_processors(fleet),
                  .devices = static_cast<double>(fleet.devices),
                  .one_host = one_host};
  const Sums& sums = ranks.sums;
  if (fleet.devices > 1 && sums.link.empty()) {
    e.assumed = "several ranks are timed with --link FILE, which freight bench comm --json wrote, or a network";
    return e;
  }
  // Ranks that were measured together took turns then if they had to.
  const double threads = sums.beside ? static_cast<double>(sums.beside->threads) : cpu.cores / ranks_here;
  if (one_host) ranks.threads = std::max(1.0, thread_count() / threads);
  e.link = sums.link;
  const Computed c = over_lengths(d, [&](const StepPlan& one) { return of_one_length(one, ranks); });
  take_sums(e, c, sums);
  e.shares = c.by.shares();
  e.assumed = cat("rates measured on ", rates->date, " (", rates->device, ", ", rates->threads,
                  " threads); the range is the calibration's worst error",
                  ranks.threads > 1 ? cat("; ", fleet.devices, " ranks share the cores") : "",
                  sums.beside ? cat("; kernels take ", fixed(sums.beside->products, 2), " to ",
                                    fixed(sums.beside->rest, 2), " times as long while all ranks compute")
                              : "");
  fill_run(e, d, c.step, c.sample, length,
           {.cores = static_cast<double>(thread_count()) / ranks.threads, .bytes = {}, .computes = true});
  e.limit = limit_of(e);
  return e;
}

}  // namespace freight::plan
