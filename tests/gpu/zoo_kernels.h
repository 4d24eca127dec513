// All kernels that training and evaluating the zoo's nets would launch on a GPU, without one: a backend that lowers
// every step and runs none.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "freight/backend/gpu/gpu_backend.h"
#include "freight/backend/gpu/lower.h"
#include "freight/ir/builder.h"
#include "freight/models/models.h"
#include "freight/nn/nn.h"
#include "freight/run/plan.h"
#include "freight/train/step.h"

namespace freight::test {

// Texts by the kernels' names.
using KernelTexts = std::map<std::string, std::string>;

class CollectingBackend final : public gpu::GpuBackend {
 public:
  CollectingBackend(std::string name, KernelTexts& into) : name_(std::move(name)), into_(into) {}
  std::string name() const override { return name_; }
  std::string description() const override { return "lowers for GPUs, runs nothing"; }
  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    gpu::Lowered lowered = gpu::lower(spec);
    for (const gpu::Launch& l : lowered.launches) into_.emplace(l.entry, l.source);
    return std::make_unique<Nothing>(lowered.scratch_bytes);
  }

 private:
  class Nothing final : public Kernel {
   public:
    explicit Nothing(size_t scratch) : scratch_(scratch) {}
    void run(void* const*) override {}
    std::string name() const override { return "nothing"; }
    size_t scratch_bytes() const override { return scratch_; }

   private:
    size_t scratch_;
  };
  std::string name_;
  KernelTexts& into_;
};

// Attention of wide heads, which the zoo has none of, and its gradient.
inline Graph wide_attention() {
  Graph g;
  Builder b(g);
  std::vector<Value> in;
  for (const char* name : {"q", "k", "v"})
    in.push_back(b.one(Op::input, LeafAttrs{name, {DType::f32, {2, 2, 70, 128}}}, {}));
  const std::vector<Value> y = b.add(Op::attention, AttentionAttrs{.causal = true}, in);
  in.insert(in.end(), {y[0], y[1], y[0]});
  g.outputs = b.add(Op::attention_grad, AttentionAttrs{.causal = true}, in);
  return g;
}

// Of `nets` trained by SGD in f32 and evaluated; one of each kind also by AdamW, in bf16 and in f16.
inline KernelTexts zoo_kernels(const std::vector<std::string>& nets) {
  static KernelTexts texts;
  if (!texts.empty()) return texts;
  register_backend(std::make_unique<CollectingBackend>("collecting", texts));
  const auto plan = [](const models::Model& model, int64_t batch, optim::Optimizer& optimizer, DType compute) {
    const Type x = model.batch_type(batch);
    Type y{DType::i64, {batch}};
    if (model.language_model()) y = {DType::i32, x.shape};
    if (model.loss == models::Loss::mse) y = model.output_type(batch);
    model.net->train();
    train::TrainStep step(model, optimizer, nullptr,
                          {.loss = {.label_smoothing = models::regresses(model.loss) ? 0.0 : 0.1}},
                          {.backend = "collecting", .deterministic = true, .compute = compute});
    step.summary(x, y);
    model.net->eval();
    auto forward = compile([&](const Tensor& in) { return (*model.net)(in); },
                           {.backend = "collecting", .deterministic = true, .compute = compute, .frozen = true});
    forward.plan(x);
  };
  plan_for(wide_attention(), {.backend = "collecting", .deterministic = true});
  for (const std::string& name : nets) {
    for (const models::Entry& e : models::registry()) {
      if (e.name != name) continue;
      const bool photo = e.vocabulary == 0 && e.input.rank() == 3 && e.input[1] == 224;
      models::Options options;
      if (photo) options = {.classes = 10, .size = {64, 64}};
      if (e.vocabulary > 0) options = {.vocabulary = 60, .length = 16};
      if (name == "lstm_text" || name == "gru_text") options.width = 32;
      if (name == "gpt_char") options = {.vocabulary = 60, .length = 16, .layers = 1, .width = 64, .dropout = 0.1};
      const models::Model model = models::create(name, options);
      optim::SGD sgd(model.net->parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4});
      plan(model, 8, sgd, DType::f32);
      if (name != "lenet" && name != "resnet20" && name != "gpt_char") continue;
      optim::AdamW adam(model.net->parameters(), {.lr = 1e-3});
      plan(model, 8, adam, DType::f32);
      plan(model, 8, sgd, DType::bf16);
      plan(model, 8, adam, DType::f16);
    }
  }
  return texts;
}

}  // namespace freight::test
