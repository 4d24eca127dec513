// What the host spends on a replayed training step of a CUDA device: lenet on batches that the device makes, and on
// batches that it is sent. Run with the fake driver told to do nothing, so that all that is measured is Freight's own:
//   FREIGHT_CUDA_LIBS=build/tests/cuda/fake_cuda FAKE_CUDA_IDLE=1 build/bench/bench_launch_host_time
// The bar is ten microseconds per step. Without FAKE_CUDA_IDLE, or on a GPU, its functions' time is in the figures.
#include <cstdio>
#include <string>
#include <vector>

#include "freight/freight.h"
#include "freight/run/executable.h"
#include "freight/train/device_data.h"
#include "freight/train/step.h"
#include "timing.h"

namespace {

using namespace freight;
constexpr int64_t kBatch = 64, kBatches = 32;
constexpr int kRepetitions = 20000;

data::Dataset made_up_set() {
  data::Dataset set;
  set.name = "made up";
  set.images = Array(DType::u8, {kBatch * kBatches, 1, 28, 28});
  set.labels = Array(DType::i64, {kBatch * kBatches});
  set.classes = data::numbered_classes(10);
  for (int64_t i = 0; i < set.images.numel(); ++i) set.images.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37 % 251);
  set.compute_statistics();
  return set;
}

void report(const char* what, double seconds, int64_t steps) {
  std::printf("%-44s %6.2f us per step\n", what, seconds / static_cast<double>(steps) * 1e6);
}

}  // namespace

int main() {
  const CompileOptions options{.backend = "cuda:0", .deterministic = true};
  const models::Model model = models::create("lenet");
  model.net->train();
  optim::SGD sgd(model.net->parameters(), {.lr = 0.01, .momentum = 0.9});
  const data::Dataset set = made_up_set();
  data::Loader loader(set, {.batch_size = kBatch, .shuffle = true, .seed = 1, .drop_last = true, .workers = 0});
  std::string why;
  const train::DeviceData data(loader.recipe(why).value());
  {
    train::TrainStep step(model, sgd, nullptr, {.data = &data}, options);
    data.start_epoch(loader.draws(0), std::vector<float>(kBatches), 0);
    for (const int64_t steps : {1, 16}) {
      step.enqueue(steps);  // kernel by kernel, then recorded
      step.enqueue(steps);
      report(("batches of the device, steps per launch: " + std::to_string(steps)).c_str(),
             best_seconds([&] { step.enqueue(steps); }, kRepetitions), steps);
    }
  }
  const Array x(DType::f32, {kBatch, 1, 28, 28}), y(DType::i64, {kBatch});
  auto step = compile(
      [&](const Tensor& in, const Tensor& targets) {
        const Tensor loss = cross_entropy((*model.net)(in), targets);
        sgd.step(loss);
        return loss;
      },
      options);
  Executable& run = step.executable(x, y);
  const std::vector<Array> in{x, y}, out{Array(DType::f32, {})};
  for (int i = 0; i < 3; ++i) run.run(in, out);
  report("batches of the host, copied to be sent",
         best_seconds([&] { x.raw(), y.raw(), run.run(in, out); }, kRepetitions), 1);
  return 0;
}
