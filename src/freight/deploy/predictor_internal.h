// A Predictor predicts by a network (predictor_net.cpp) or by a model of rows (predictor_rows.cpp).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "freight/deploy/predictor.h"

namespace freight::deploy {

struct Predictor::State {
  State(store::Bundle b, const PredictorOptions& o) : bundle(std::move(b)), options(o) {}
  virtual ~State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // They say what Predictor's functions of these names say. Kinds of input that the model does not take are refused.
  virtual bool probabilities() const = 0;
  virtual int64_t outputs() const = 0;
  virtual double flops() = 0;
  virtual bool keeps_samples_apart() { return true; }
  [[noreturn]] void refuse(const std::string& name, const char* what) const;
  virtual Array sample_of_bytes(io::ByteView bytes, const std::string& name) const;
  virtual Array sample_of_values(const Array& values, const std::string& name) const;
  virtual Array sample_of_text(const std::string& text, const std::string& name) const;
  virtual Array sample_of_row(const std::vector<store::Cell>& cells, const std::string& name) const;
  virtual std::string range_warning(const Array& /*sample*/) const { return ""; }
  virtual void check_values(const Array& /*sample*/, const std::string& /*name*/) const {}
  virtual Array run(const std::vector<Array>& samples, const PredictOptions& how) = 0;
  virtual void warm(const std::vector<Array>& /*samples*/) {}
  virtual void warm(const std::vector<int64_t>& /*batch_sizes*/) {}
  virtual bool warm_all(const std::function<bool(int64_t done, int64_t all)>& /*warmed*/) { return true; }

  store::Bundle bundle;
  PredictorOptions options;

 protected:
  // "it takes rows of named columns": the end of a refusal.
  virtual std::string takes() const = 0;
};

std::unique_ptr<Predictor::State> predict_by_net(store::Bundle bundle, const PredictorOptions& options);
std::unique_ptr<Predictor::State> predict_by_rows(store::Bundle bundle, const PredictorOptions& options);

}  // namespace freight::deploy
