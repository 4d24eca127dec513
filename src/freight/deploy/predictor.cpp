// See predictor.h.
#include "freight/deploy/predictor.h"

#include <utility>

#include "freight/base/error.h"
#include "freight/base/usage.h"
#include "freight/deploy/predictor_internal.h"

namespace freight::deploy {

void Predictor::State::refuse(const std::string& name, const char* what) const {
  fail(ErrorKind::usage, name, "model ", bundle.name(), " ", what, ": ", takes());
}
Array Predictor::State::sample_of_bytes(io::ByteView, const std::string& name) const {
  refuse(name, "does not read images or arrays");
}
Array Predictor::State::sample_of_values(const Array&, const std::string& name) const {
  refuse(name, "reads no arrays");
}
Array Predictor::State::sample_of_text(const std::string&, const std::string& name) const {
  refuse(name, "reads no texts");
}
Array Predictor::State::sample_of_row(const std::vector<store::Cell>&, const std::string& name) const {
  refuse(name, "does not read rows of named columns");
}

Predictor::Predictor(store::Bundle bundle, const PredictorOptions& options) {
  need_at_least("batch size", {}, static_cast<double>(options.batch_size), 1);
  state_ = bundle.net() ? predict_by_net(std::move(bundle), options) : predict_by_rows(std::move(bundle), options);
}
Predictor::~Predictor() = default;

const store::Bundle& Predictor::bundle() const { return state_->bundle; }
const PredictorOptions& Predictor::options() const { return state_->options; }
bool Predictor::probabilities() const { return state_->probabilities(); }
int64_t Predictor::outputs() const { return state_->outputs(); }
double Predictor::flops() const { return state_->flops(); }
bool Predictor::keeps_samples_apart() const { return state_->keeps_samples_apart(); }

Array Predictor::sample_of_file(const std::string& path) const { return sample_of_bytes(io::read_file(path), path); }
Array Predictor::sample_of_bytes(io::ByteView bytes, const std::string& name) const {
  return state_->sample_of_bytes(bytes, name);
}
Array Predictor::sample_of_values(const Array& values, const std::string& name) const {
  return state_->sample_of_values(values, name);
}
std::string Predictor::range_warning(const Array& sample) const { return state_->range_warning(sample); }
Array Predictor::sample_of_text(const std::string& text, const std::string& name) const {
  return state_->sample_of_text(text, name);
}
Array Predictor::sample_of_row(const std::vector<store::Cell>& cells, const std::string& name) const {
  return state_->sample_of_row(cells, name);
}
void Predictor::check_values(const Array& sample, const std::string& name) const { state_->check_values(sample, name); }

Array Predictor::run(const std::vector<Array>& samples, const PredictOptions& options) {
  return state_->run(samples, options);
}
void Predictor::warm(const std::vector<Array>& samples) { state_->warm(samples); }
void Predictor::warm(const std::vector<int64_t>& batch_sizes) { state_->warm(batch_sizes); }
bool Predictor::warm_all(const std::function<bool(int64_t done, int64_t all)>& warmed) {
  return state_->warm_all(warmed);
}

std::string class_name(const store::Bundle& bundle, int64_t number) {
  const auto i = static_cast<size_t>(number);
  return i < bundle.classes.size() ? bundle.classes[i] : std::to_string(number);
}

}  // namespace freight::deploy
