// A custom model, data, loss and metric, trained as `freight train` does: planned first, observed, stopped half way,
// resumed from its checkpoint, recorded in a run directory.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "freight/freight.h"
#include "freight/plan/fitting.h"
#include "freight/train/trainer.h"

using namespace freight;

// (N, 2) to (N, 1).
class Ripple : public nn::Module {
 public:
  Ripple() : in_(&add<nn::Linear>("in", 2, 32)), out_(&add<nn::Linear>("out", 32, 1)) {}
  Tensor forward(const Tensor& x) override { return (*out_)(sin((*in_)(x))); }

 private:
  nn::Linear *in_, *out_;
};

models::Model ripple() {
  const auto distance = [](const Tensor& outputs, const Tensor& y) {  // per sample
    return abs(reshape(outputs, {outputs.dim(0)}) - y);
  };
  return {.name = "ripple",
          .input = {DType::f32, {2}},
          .net = std::make_shared<Ripple>(),
          .loss = models::Loss::mse,  // regression
          .own = {.loss = [=](const Tensor& o, const Tensor& y) { return square(distance(o, y)); },
                  .metric = distance,
                  .metric_name = "distance",
                  .higher_is_better = false}};
}

// n points of a surface.
data::Dataset points(int64_t n, double from) {
  data::Dataset set;
  set.name = "surface";
  set.images = Array(DType::f32, {n, 2});
  set.labels = Array(DType::f32, {n});
  for (int64_t i = 0; i < n; ++i) {
    const double a = std::sin(from + 1.7 * static_cast<double>(i)), b = std::cos(from + 2.3 * static_cast<double>(i));
    set.images.data<float>()[2 * i] = static_cast<float>(a);
    set.images.data<float>()[2 * i + 1] = static_cast<float>(b);
    set.labels.data<float>()[i] = static_cast<float>(std::sin(2 * a) + a * b);
  }
  return set;
}

// Stops at a step, and halves the learning rate once the loss is small.
struct Watch : train::Observer {
  int64_t stop_at = 0;
  bool slower = false;
  train::AfterStep on_step(const train::StepReport& r) override {
    train::AfterStep after{.stop = r.total_step == stop_at, .lr = {}};
    if (!slower && r.mean_loss < 0.01) slower = true, after.lr = r.lr / 2;
    return after;
  }
};

int main() {
  train::Config config;
  config.epochs = 40;
  config.batch_size = 32;
  config.optimizer = "adam";
  config.lr = 0.01;
  config.output_dir = (std::filesystem::temp_directory_path() / "freight-own-data").string();
  config.overwrite = true;
  const auto own = [](const models::Model& model) {
    return train::PrepareOptions{.source = data::Source(data::TrainTest{points(512, 0), points(128, 0.5)}),
                                 .own = {.model = model}};
  };

  Watch half_way;
  half_way.stop_at = 320;  // of 640 steps
  // A run that does not fit into memory is refused here, before anything is written, with what would fit.
  const train::Result first = plan::prepare_fitting(config, {}, own(ripple())).run.run(half_way);

  config.overwrite = false;
  config.resume = "auto";  // the newest checkpoint in output_dir
  Watch to_the_end;
  const train::Result all = train::train(config, to_the_end, own(ripple()));
  std::printf("stopped by the observer: %s; steps: %d, then %d\n",
              first.ended == train::Ended::by_observer ? "yes" : "no", static_cast<int>(first.steps),
              static_cast<int>(all.steps));
  std::printf("mean distance below 0.05: %s\n", all.test.metric.value_or(1) < 0.05 ? "yes" : "no");
  std::filesystem::remove_all(config.output_dir);
}
