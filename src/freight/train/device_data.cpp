// See device_data.h. All of it is ordinary ops over states, hence a part of the plan like the rest of the step: an
// index per element, computed in one kernel from the draws, and a gather of the stored values.
#include "freight/train/device_data.h"

#include <cstddef>

#include "freight/ops/ops.h"
#include "freight/trace/tracer.h"

namespace freight::train {

namespace {

// A state over memory that is there; what a device makes of it is the state's own.
Variable over(const std::string& name, const Array& a, const Shape& shape) {
  Variable v(name, {a.dtype(), shape});
  v.impl()->bind(Storage::borrow(a.raw(), a.bytes(), a.storage()));
  return v;
}

Variable per_channel(const std::string& name, const std::vector<float>& values) {
  Variable v(name, {DType::f32, {1, static_cast<int64_t>(values.size()), 1, 1}});
  v.set(Array::of<float>(values, v.shape()));
  return v;
}

// The numbers of a Draw (data/augment.h).
enum Number : int64_t { kSample, kDy, kDx, kFlip, kTop, kBottom, kLeft, kRight };
static_assert(offsetof(data::Draw, flip) == kFlip * sizeof(int32_t) &&
              offsetof(data::Draw, right) == kRight * sizeof(int32_t) && data::kDrawNumbers == kRight + 1);

}  // namespace

DeviceData::DeviceData(const data::BatchRecipe& recipe)
    : recipe_(recipe),
      samples_(over("data.samples", recipe.samples, {recipe.samples.numel()})),
      targets_(over("data.targets", recipe.targets, recipe.targets.shape())),
      scale_(per_channel("data.scale", recipe.scale)),
      bias_(per_channel("data.bias", recipe.bias)),
      draws_("data.draws", {DType::i32, {recipe.batches, recipe.batch_size * data::kDrawNumbers}}),
      rates_("data.rates", {DType::f32, {recipe.batches}}),
      results_("data.results", {DType::f32, {recipe.batches, kFigures}}),
      cursor_("data.cursor", {DType::i32, {}}),
      loss_("data.loss", {DType::f32, {}}) {
  const Shape& s = recipe.samples.shape();
  image_ = s.rank() == 4 ? Shape{s[1], s[2], s[3]} : Shape{s[1], 1, s.numel() / (s[0] * s[1])};
}

size_t DeviceData::bytes() const {
  size_t sum = 0;
  for (const Variable* v : {&samples_, &targets_, &draws_, &rates_, &results_}) sum += v->type().bytes();
  return sum;
}

void DeviceData::start_epoch(const Array& draws, const std::vector<float>& rates, int64_t first) const {
  draws_.set(draws.reshaped(draws_.shape()));
  rates_.set(Array::of<float>(rates, rates_.shape()));
  cursor_.set(static_cast<double>(first));
  loss_.set(0.0);
}

std::unique_ptr<DeviceRead> DeviceData::results(int64_t first, int64_t count) const {
  constexpr size_t kRow = kFigures * sizeof(float);
  return results_.impl()->materialize()->read_later(static_cast<size_t>(first) * kRow,
                                                    static_cast<size_t>(count) * kRow);
}

Tensor DeviceData::cursor() const { return reshape(cursor_, {1}); }

Tensor DeviceData::draws_of_batch() const {
  return reshape(gather(draws_, cursor()), {recipe_.batch_size, data::kDrawNumbers});
}

std::pair<Tensor, Tensor> DeviceData::batch() const {
  const int64_t n = recipe_.batch_size, channels = image_[0], rows = image_[1], columns = image_[2];
  const Tensor draws = draws_of_batch();
  const auto drawn = [&](Number number) {
    return reshape(select(draws, 1, static_cast<int64_t>(number)), {n, 1, 1, 1});
  };
  const Tensor c = iota({1, channels, 1, 1}, 1), y = iota({1, 1, rows, 1}, 2), x = iota({1, 1, 1, columns}, 3);
  Tensor from_y = y, from_x = x;  // (1 or N, 1, H, 1), (1 or N, 1, 1, W)
  if (recipe_.moves) {
    from_y = y + drawn(kDy);
    from_x = x + drawn(kDx);
  }
  const Tensor inside =
      logical_and(logical_and(from_y >= 0, from_y < rows), logical_and(from_x >= 0, from_x < columns));
  if (recipe_.flips) from_x = where(drawn(kFlip) > 0, (columns - 1) - from_x, from_x);
  const int64_t plane = rows * columns;
  Tensor at = (drawn(kSample) * channels + c) * plane + (from_y * columns + from_x);  // (N, C, H, W)
  if (recipe_.moves) at = where(inside, at, 0);
  Tensor value = cast(gather(samples_, at), DType::f32);
  if (recipe_.moves) value = where(inside, value, 0);  // black, before it is normalized
  value = value * scale_ + bias_;
  if (recipe_.erases) {
    const Tensor erased = logical_and(logical_and(y >= drawn(kTop), y < drawn(kBottom)),
                                      logical_and(x >= drawn(kLeft), x < drawn(kRight)));
    value = where(erased, 0, value);
  }
  Shape shape = recipe_.samples.shape();
  shape[0] = n;
  return {reshape(value, shape), gather(targets_, reshape(drawn(kSample), {n}))};
}

Tensor DeviceData::rate() const { return reshape(gather(rates_, cursor()), {}); }

Tensor DeviceData::all_finite_so_far() const { return is_finite(loss_); }

void DeviceData::finish(const Tensor& loss, const Tensor& right, const Tensor& scale) const {
  const Tensor column = iota({1, kFigures}, 1);
  const Tensor figures = where(equal(column, 0), loss, where(equal(column, 1), right, scale));
  results_.assign(where(equal(iota({recipe_.batches, 1}, 0), cursor_), figures, results_));
  loss_.assign(where(all_finite_so_far(), loss, loss_));
  cursor_.assign(cursor_.value() + 1);
}

}  // namespace freight::train
