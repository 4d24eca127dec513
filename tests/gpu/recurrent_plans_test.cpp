// Whether the real cuDNN accepts the layers and sequences that recurrent layers are described as, asked without a
// device: the types and their arithmetic. How much memory they want, and what they compute, only a device can tell.
#include <gtest/gtest.h>

#include "freight/backend/gpu/cuda/dnn_descriptor.h"
#include "freight/base/strings.h"

namespace freight::test {
namespace {

using namespace cuda::cudnn;

TEST(CudnnRecurrent, KnowsTheLayersInAllTypesThatAreOffered) {
  const Library& library = cuda::find_dnn();
  if (!library.why.empty()) GTEST_SKIP() << library.why;
  const cuda::DnnFunctions& f = cuda::dnn_functions();
  void *layer = nullptr, *sequences = nullptr, *state = nullptr;
  ASSERT_EQ(f.CreateRNNDescriptor(&layer), 0);
  ASSERT_EQ(f.CreateRNNDataDescriptor(&sequences), 0);
  ASSERT_EQ(f.CreateTensorDescriptor(&state), 0);
  const auto set = [&](int cell, int type, int precision, int math) {
    return f.SetRNNDescriptor_v8(layer, kStandard, cell, kTwoBiases, kOneWay, kMultiplies, type, precision, math, 24,
                                 33, 33, 1, nullptr, kUnpacked);
  };
  const int lengths[] = {5, 5, 5}, extents[] = {1, 3, 33}, strides[] = {99, 33, 1};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const int type = cuda::data_type(dtype);
    for (const int cell : {kLstm, kGru}) {
      for (const int math : {kTensorMath, kAnyMath, kFmaMath}) EXPECT_EQ(set(cell, type, kF32, math), 0) << cat(dtype);
      EXPECT_NE(set(cell, type, kBF16, kTensorMath), 0) << cat(dtype);  // it does tell
    }
    EXPECT_EQ(f.SetRNNDataDescriptor(sequences, type, kBatchFirst, 5, 3, 24, lengths, nullptr), 0) << cat(dtype);
    EXPECT_EQ(f.SetTensorNdDescriptor(state, type, 3, extents, strides), 0) << cat(dtype);
  }
  f.DestroyTensorDescriptor(state);
  f.DestroyRNNDataDescriptor(sequences);
  f.DestroyRNNDescriptor(layer);
}

}  // namespace
}  // namespace freight::test
