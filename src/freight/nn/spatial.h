// Layers that change spatial axes beside those of layers.h: transposed convolutions, adaptive pools, upsampling. Each
// is made of public functions. Shapes as in PyTorch: N batch, C channels, L or H W spatial.
#pragma once
#include <memory>

#include "freight/nn/init.h"
#include "freight/nn/layer_type.h"
#include "freight/nn/layers.h"
#include "freight/nn/module.h"

namespace freight::nn {

struct ConvTransposeLayerOptions {
  Extents stride = 1;          // steps of the window
  Extents padding = 0;         // rows that are cut off on either side
  Extents output_padding = 0;  // rows added at the end, fewer than the stride or the dilation
  int64_t groups = 1;          // channels are joined within groups only
  bool bias = true;            // whether there is one
  Extents dilation = 1;        // distance of the window's elements
};
struct ConvTransposeFields : ConvTransposeLayerOptions {
  int64_t in = 0, out = 0;  // channels before and behind it
  Extents kernel = 1;       // extents of the window
};
// The gradient of a convolution with respect to its input, as a layer: (N, in, spatial...) -> (N, out, spatial'...),
// spatial' = (spatial - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1. Weight (in, out / groups,
// kernel...), bias (out).
class ConvTransposeLayer : public Module {
 public:
  using Fields = ConvTransposeFields;
  const Fields& fields() const { return fields_; }
  Variable weight, bias;

 protected:
  // A layer of the named type over so many spatial axes.
  ConvTransposeLayer(const char* type, int spatial, const Fields& fields);
  // Throws where output_padding is smaller than neither stride nor dilation.
  void need_output_padding() const;
  // y with the bias of each channel.
  Tensor with_bias(const Tensor& y) const;

 private:
  const char* type_;
  int spatial_;
  Fields fields_;
};
// (N, in, L) -> (N, out, L').
class ConvTranspose1d : public ConvTransposeLayer {
 public:
  explicit ConvTranspose1d(const Fields& fields);
  ConvTranspose1d(WholeNumber in, WholeNumber out, const Extents& kernel, const ConvTransposeLayerOptions& options = {})
      : ConvTranspose1d(Fields{options, in, out, kernel}) {}
  Tensor forward(const Tensor& x) override;
};
// (N, in, H, W) -> (N, out, H', W').
class ConvTranspose2d : public ConvTransposeLayer {
 public:
  explicit ConvTranspose2d(const Fields& fields);
  ConvTranspose2d(WholeNumber in, WholeNumber out, const Extents& kernel, const ConvTransposeLayerOptions& options = {})
      : ConvTranspose2d(Fields{options, in, out, kernel}) {}
  Tensor forward(const Tensor& x) override;
};

// (N, C, L) -> (N, C, output): means of windows that divide the axis evenly.
class AdaptiveAvgPool1d : public Module {
 public:
  using Fields = AdaptivePoolFields;
  explicit AdaptiveAvgPool1d(const Fields& fields);
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};
// (N, C, L) -> (N, C, output): maxima of windows [floor(i n / m), ceil((i + 1) n / m)) of n elements for m results.
class AdaptiveMaxPool1d : public Module {
 public:
  using Fields = AdaptivePoolFields;
  explicit AdaptiveMaxPool1d(const Fields& fields);
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};
// The same over both axes of (N, C, H, W).
class AdaptiveMaxPool2d : public Module {
 public:
  using Fields = AdaptivePoolFields;
  explicit AdaptiveMaxPool2d(const Fields& fields);
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

// The interpolation of Upsample, named as in PyTorch.
enum class UpsampleMode { nearest, linear, bilinear, bicubic };
struct UpsampleOptions {
  Extents size = 0;                           // of the result's spatial axes; 0: by the factor
  double factor = 0;                          // of the spatial sizes, which are rounded down; 0: by the size
  UpsampleMode mode = UpsampleMode::nearest;  // linear: (N, C, L); bilinear and bicubic: (N, C, H, W)
  bool align_corners = false;                 // the first and last elements of both grids coincide; not of nearest
};
// Samples the spatial axes of (N, C, ...) on another grid, PyTorch's Upsample. Coordinates are computed in f32, as
// there.
class Upsample : public Module {
 public:
  using Fields = UpsampleOptions;
  explicit Upsample(const Fields& fields);
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

struct UnflattenFields {
  int64_t axis = 0;   // negative values count from the end
  Extents sizes = 0;  // of the axes that it becomes; one of them may be -1
};
// Divides one axis into several: (N, C*H*W) -> (N, C, H, W).
class Unflatten : public Module {
 public:
  using Fields = UnflattenFields;
  explicit Unflatten(const Fields& fields);
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

}  // namespace freight::nn
