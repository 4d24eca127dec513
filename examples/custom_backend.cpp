// A custom backend outside of Freight's tree: it counts the steps that it runs, and passes each to the reference
// backend. A real one makes kernels for its device in prepare(), and uses the reference backend for what it lacks.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "freight/backend/backend.h"
#include "freight/freight.h"

using namespace freight;

class CountingKernel final : public Kernel {
 public:
  CountingKernel(std::unique_ptr<Kernel> kernel, int& runs) : kernel_(std::move(kernel)), runs_(runs) {}
  std::string name() const override { return "counting " + kernel_->name(); }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  void run(void* const* operands) override {
    ++runs_;
    kernel_->run(operands);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  int& runs_;
};

class CountingBackend final : public Backend {
 public:
  explicit CountingBackend(int& runs) : runs_(runs) {}
  std::string name() const override { return "counting"; }
  std::string description() const override { return "the reference backend, counted"; }
  bool has_kernel(const Graph&, const Node&) const override { return false; }  // composites are decomposed
  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    return std::make_unique<CountingKernel>(backend("ref").prepare(spec), runs_);
  }

 private:
  int& runs_;
};

int main() {
  static int runs = 0;
  register_backend(std::make_unique<CountingBackend>(runs));
  const DeviceScope on("counting");
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  optim::SGD opt(net.parameters(), {.lr = 0.5});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    Tensor loss = mse_loss(net(x), y);
    opt.step(loss);
    return loss;
  });
  const Array x = Array::of<float>({1, 0, 0, 1, 0, 1, 1, 0}, {2, 4}), y = Array::of<float>({1, 0, 0, 1}, {2, 2});
  const float first = step(x, y).item<float>();
  float last = first;
  for (int i = 0; i < 50; ++i) last = step(x, y).item<float>();
  std::printf("loss fell: %s; steps ran here: %s\n", last < 0.1f * first ? "yes" : "no", runs > 51 ? "yes" : "no");
}
