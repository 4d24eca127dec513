// Compiles where Freight's declarations of one of NVIDIA's interfaces are those of its headers: every number, the size
// and the places of every struct, every function's parameters, and the numbers of the fakes. tests/abi_test.py compiles
// it, with CHECK_DRIVER, CHECK_NVRTC, CHECK_CUBLASLT, CHECK_CUDNN ... where there are headers, and sees
// that nothing that Freight declares is left out. Nothing of it is ever linked.
#include <cstddef>
#include <type_traits>

#include "freight/backend/gpu/cuda/abi.h"

#include "tests/cuda/fake_cuda/interfaces.h"
#include "tests/cuda/fake_cuda/numbers.h"

namespace {

// The same to a caller: numbers and enumerators of equal size, pointers to what is the same or opaque, structs as
// large.
template <class A, class B>
constexpr bool same_pointee();
template <class A, class B>
constexpr bool same_value() {
  if constexpr (std::is_pointer_v<A> || std::is_pointer_v<B>) {
    if constexpr (!std::is_pointer_v<A> || !std::is_pointer_v<B>) {
      return false;
    } else {
      return same_pointee<std::remove_cv_t<std::remove_pointer_t<A>>, std::remove_cv_t<std::remove_pointer_t<B>>>();
    }
  } else if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return std::is_void_v<A> && std::is_void_v<B>;
  } else {
    return std::is_floating_point_v<A> == std::is_floating_point_v<B> && std::is_class_v<A> == std::is_class_v<B> &&
           sizeof(A) == sizeof(B);
  }
}
template <class T>
concept Complete = requires {
  sizeof(T);
};
template <class A, class B>
constexpr bool same_pointee() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return true;
  } else if constexpr (!Complete<A> || !Complete<B>) {
    return std::is_class_v<A> && std::is_class_v<B>;  // a handle
  } else {
    return same_value<A, B>();
  }
}
template <class A, class B>
struct Same : std::false_type {};
template <class R, class... P, class S, class... Q>
struct Same<R (*)(P...), S (*)(Q...)> {
  static constexpr bool same_parameters() {
    if constexpr (sizeof...(P) != sizeof...(Q)) {
      return false;
    } else {
      return (same_value<P, Q>() && ...);
    }
  }
  static constexpr bool value = same_value<R, S>() && same_parameters();
};

// It tells them apart.
enum class Enumerator {};
struct Opaque;
static_assert(Same<int (*)(void*, int, const char*), Enumerator (*)(Opaque*, Enumerator, const char*)>::value);
static_assert(!Same<int (*)(void*, int), int (*)(void*, size_t)>::value);
static_assert(!Same<int (*)(void*, int), int (*)(void*)>::value);
static_assert(!Same<int (*)(void*), int (*)(size_t)>::value);
static_assert(!Same<int (*)(int*), int (*)(size_t*)>::value);
static_assert(!Same<int (*)(int), int (*)(float)>::value);
static_assert(!Same<int (*)(int*), int (*)(void**)>::value);
static_assert(!Same<const char* (*)(int), int (*)(int)>::value);

#define NUMBER(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #ours)

}  // namespace

#ifdef CHECK_DRIVER
#include <cuda.h>
using namespace freight::cuda;
namespace their = fake::driver;
#define SIGNATURE(name, symbol, ...) static_assert(Same<decltype(Driver::name), decltype(&symbol)>::value, #symbol);
FREIGHT_CUDA_FUNCTIONS(SIGNATURE)
static_assert(sizeof(Uuid) == sizeof(CUuuid) && sizeof(Address) == sizeof(CUdeviceptr));
NUMBER(kSuccess, CUDA_SUCCESS);
NUMBER(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
NUMBER(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
NUMBER(kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
NUMBER(kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
NUMBER(kNoDevice, CUDA_ERROR_NO_DEVICE);
NUMBER(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
NUMBER(kNotReady, CUDA_ERROR_NOT_READY);
NUMBER(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
NUMBER(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
NUMBER(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
NUMBER(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
NUMBER(kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
NUMBER(kNonBlockingStream, CU_STREAM_NON_BLOCKING);
NUMBER(kEventWithoutTiming, CU_EVENT_DISABLE_TIMING);
NUMBER(kCaptureOfThread, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
NUMBER(kComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
NUMBER(kComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
NUMBER(kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kOldestDriver <= CUDA_VERSION);
NUMBER(their::kOk, CUDA_SUCCESS);
NUMBER(their::kInvalid, CUDA_ERROR_INVALID_VALUE);
NUMBER(their::kNoMemory, CUDA_ERROR_OUT_OF_MEMORY);
NUMBER(their::kNoDevice, CUDA_ERROR_NO_DEVICE);
NUMBER(their::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
NUMBER(their::kBadImage, CUDA_ERROR_INVALID_IMAGE);
NUMBER(their::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
NUMBER(their::kNotFound, CUDA_ERROR_NOT_FOUND);
NUMBER(their::kNotReady, CUDA_ERROR_NOT_READY);
NUMBER(their::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
NUMBER(their::kInCapture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
NUMBER(their::kUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
NUMBER(their::kMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
NUMBER(their::kMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
NUMBER(their::kProcessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
NUMBER(their::kThreadLocalCapture, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
#endif

#ifdef CHECK_NVRTC
#include <nvrtc.h>
namespace their = fake::nvrtc;
#define SIGNATURE(symbol, result, ...) static_assert(Same<result (*)(__VA_ARGS__), decltype(&symbol)>::value, #symbol);
FREIGHT_NVRTC_FUNCTIONS(SIGNATURE)
NUMBER(0, NVRTC_SUCCESS);
NUMBER(their::kOk, NVRTC_SUCCESS);
NUMBER(their::kCompilation, NVRTC_ERROR_COMPILATION);
#endif

#ifdef CHECK_CUBLASLT
#include <cublasLt.h>
namespace our = freight::cuda::blaslt;
namespace their = fake::blaslt;
namespace freight::cuda {
#define SIGNATURE(name, result, ...) \
  static_assert(Same<result (*)(__VA_ARGS__), decltype(&cublasLt##name)>::value, "cublasLt" #name);
FREIGHT_CUBLASLT_FUNCTIONS(SIGNATURE)
}  // namespace freight::cuda
static_assert(sizeof(our::Algorithm) == sizeof(cublasLtMatmulAlgo_t) &&
              alignof(our::Algorithm) == alignof(cublasLtMatmulAlgo_t));
static_assert(sizeof(our::Guess) == sizeof(cublasLtMatmulHeuristicResult_t));
NUMBER(offsetof(our::Guess, algorithm), offsetof(cublasLtMatmulHeuristicResult_t, algo));
NUMBER(offsetof(our::Guess, workspace), offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
NUMBER(offsetof(our::Guess, status), offsetof(cublasLtMatmulHeuristicResult_t, state));
NUMBER(offsetof(our::Guess, waves), offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
NUMBER(our::kF32, CUDA_R_32F);
NUMBER(our::kF64, CUDA_R_64F);
NUMBER(our::kF16, CUDA_R_16F);
NUMBER(our::kBF16, CUDA_R_16BF);
NUMBER(our::kComputeF32, CUBLAS_COMPUTE_32F);
NUMBER(our::kComputeTF32, CUBLAS_COMPUTE_32F_FAST_TF32);
NUMBER(our::kComputeF64, CUBLAS_COMPUTE_64F);
NUMBER(our::kTransA, CUBLASLT_MATMUL_DESC_TRANSA);
NUMBER(our::kTransB, CUBLASLT_MATMUL_DESC_TRANSB);
NUMBER(our::kEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
NUMBER(our::kBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
NUMBER(our::kAuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
NUMBER(our::kAuxLead, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
NUMBER(our::kBatches, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
NUMBER(our::kBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
NUMBER(our::kMostWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
NUMBER(our::kReductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
NUMBER(our::kAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
NUMBER(our::kAlignmentA + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
NUMBER(our::kAlignmentA + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
NUMBER(our::kAlignmentA + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
NUMBER(our::kPlain, CUBLASLT_EPILOGUE_DEFAULT);
NUMBER(our::kBias, CUBLASLT_EPILOGUE_BIAS);
NUMBER(our::kReluGradient, CUBLASLT_EPILOGUE_DRELU);
NUMBER(our::kReluGradient | our::kSums, CUBLASLT_EPILOGUE_DRELU_BGRAD);
NUMBER(our::kSumsOfA, CUBLASLT_EPILOGUE_BGRADA);
NUMBER(our::kSumsOfB, CUBLASLT_EPILOGUE_BGRADB);
NUMBER(our::kPartsAsComputed, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
NUMBER(our::kPartsAsStored, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
NUMBER(their::kOk, CUBLAS_STATUS_SUCCESS);
NUMBER(their::kNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED);
NUMBER(their::kInvalidValue, CUBLAS_STATUS_INVALID_VALUE);
NUMBER(their::kNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
NUMBER(their::kComputeF32, CUBLAS_COMPUTE_32F);
NUMBER(their::kComputeF64, CUBLAS_COMPUTE_64F);
NUMBER(their::kComputeTF32, CUBLAS_COMPUTE_32F_FAST_TF32);
NUMBER(their::kTransA, CUBLASLT_MATMUL_DESC_TRANSA);
NUMBER(their::kTransB, CUBLASLT_MATMUL_DESC_TRANSB);
NUMBER(their::kEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
NUMBER(their::kBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
NUMBER(their::kAuxPointer, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
NUMBER(their::kAuxLead, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
NUMBER(their::kOrder, CUBLASLT_MATRIX_LAYOUT_ORDER);
NUMBER(their::kBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
NUMBER(their::kBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
NUMBER(their::kWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
NUMBER(their::kReductionMask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
NUMBER(their::kAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
NUMBER(their::kAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
NUMBER(their::kAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
NUMBER(their::kAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
NUMBER(their::kPlain, CUBLASLT_EPILOGUE_DEFAULT);
NUMBER(their::kBias, CUBLASLT_EPILOGUE_BIAS);
NUMBER(their::kReluGradient | their::kAux, CUBLASLT_EPILOGUE_DRELU);
NUMBER(their::kReluGradient | their::kAux | their::kSums, CUBLASLT_EPILOGUE_DRELU_BGRAD);
NUMBER(their::kSumsOfA, CUBLASLT_EPILOGUE_BGRADA);
NUMBER(their::kSumsOfB, CUBLASLT_EPILOGUE_BGRADB);
NUMBER(fake::kF32, CUDA_R_32F);
NUMBER(fake::kF64, CUDA_R_64F);
NUMBER(fake::kF16, CUDA_R_16F);
NUMBER(fake::kBF16, CUDA_R_16BF);
NUMBER(their::kInPlace, CUBLASLT_REDUCTION_SCHEME_INPLACE);
NUMBER(their::kAsStored, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
#endif

#ifdef CHECK_CUDNN
#include <cudnn_adv.h>
namespace our = freight::cuda::cudnn;
namespace their = fake::cudnn;
namespace freight::cuda {
#define SIGNATURE(name, result, ...) \
  static_assert(Same<result (*)(__VA_ARGS__), decltype(&cudnn##name)>::value, "cudnn" #name);
FREIGHT_CUDNN_FUNCTIONS(SIGNATURE)
}  // namespace freight::cuda
NUMBER(our::kPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
NUMBER(our::kConvolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
NUMBER(our::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
NUMBER(our::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
NUMBER(our::kHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
NUMBER(our::kPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
NUMBER(our::kForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
NUMBER(our::kWeightGradient, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
NUMBER(our::kInputGradient, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
NUMBER(our::kPointwiseOperation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
NUMBER(our::kGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
NUMBER(our::kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
NUMBER(our::kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
NUMBER(our::kDevice, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
NUMBER(our::kHandleType, CUDNN_TYPE_HANDLE);
NUMBER(our::kDataType, CUDNN_TYPE_DATA_TYPE);
NUMBER(our::kBoolean, CUDNN_TYPE_BOOLEAN);
NUMBER(our::kInt64, CUDNN_TYPE_INT64);
NUMBER(our::kFloat, CUDNN_TYPE_FLOAT);
NUMBER(our::kPointer, CUDNN_TYPE_VOID_PTR);
NUMBER(our::kConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE);
NUMBER(our::kHeuristicMode, CUDNN_TYPE_HEUR_MODE);
NUMBER(our::kNanMode, CUDNN_TYPE_NAN_PROPOGATION);
NUMBER(our::kNumericalNote, CUDNN_TYPE_NUMERICAL_NOTE);
NUMBER(our::kPointwiseMode, CUDNN_TYPE_POINTWISE_MODE);
NUMBER(our::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
NUMBER(our::kBehaviorNote, CUDNN_TYPE_BEHAVIOR_NOTE);
NUMBER(our::kChar, CUDNN_TYPE_CHAR);
NUMBER(our::kPointwiseModeOf, CUDNN_ATTR_POINTWISE_MODE);
NUMBER(our::kPointwisePrecision, CUDNN_ATTR_POINTWISE_MATH_PREC);
NUMBER(our::kConvPrecision, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
NUMBER(our::kConvMode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
NUMBER(our::kConvDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
NUMBER(our::kConvStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
NUMBER(our::kConvPadHigh, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
NUMBER(our::kConvPadLow, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
NUMBER(our::kConvAxes, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
NUMBER(our::kHeuristicModeOf, CUDNN_ATTR_ENGINEHEUR_MODE);
NUMBER(our::kHeuristicGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
NUMBER(our::kHeuristicResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
NUMBER(our::kHeuristicDevice, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
NUMBER(our::kConfigEngine, CUDNN_ATTR_ENGINECFG_ENGINE);
NUMBER(our::kPlanConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
NUMBER(our::kPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
NUMBER(our::kPlanDevice, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
NUMBER(our::kForwardFirst, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
NUMBER(our::kForwardFirst + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
NUMBER(our::kForwardFirst + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
NUMBER(our::kForwardFirst + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
NUMBER(our::kForwardFirst + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
NUMBER(our::kForwardFirst + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
NUMBER(our::kInputGradientFirst, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
NUMBER(our::kInputGradientFirst + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
NUMBER(our::kInputGradientFirst + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
NUMBER(our::kInputGradientFirst + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
NUMBER(our::kInputGradientFirst + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
NUMBER(our::kInputGradientFirst + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
NUMBER(our::kWeightGradientFirst, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
NUMBER(our::kWeightGradientFirst + 1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
NUMBER(our::kWeightGradientFirst + 2, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
NUMBER(our::kWeightGradientFirst + 3, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
NUMBER(our::kWeightGradientFirst + 4, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
NUMBER(our::kWeightGradientFirst + 5, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
NUMBER(our::kOperationPointwise, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
NUMBER(our::kOperationX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
NUMBER(our::kOperationB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
NUMBER(our::kOperationY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
NUMBER(our::kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
NUMBER(our::kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
NUMBER(our::kTensorType, CUDNN_ATTR_TENSOR_DATA_TYPE);
NUMBER(our::kTensorExtents, CUDNN_ATTR_TENSOR_DIMENSIONS);
NUMBER(our::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
NUMBER(our::kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID);
NUMBER(our::kTensorVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
NUMBER(our::kPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
NUMBER(our::kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
NUMBER(our::kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
NUMBER(our::kEngineIndex, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
NUMBER(our::kEngineNumerics, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
NUMBER(our::kEngineBehavior, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE);
NUMBER(our::kDeviceHandle, CUDNN_ATTR_DEVICEPROP_HANDLE);
NUMBER(our::kDeviceJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
NUMBER(our::kF32, CUDNN_DATA_FLOAT);
NUMBER(our::kF16, CUDNN_DATA_HALF);
NUMBER(our::kBF16, CUDNN_DATA_BFLOAT16);
NUMBER(our::kCrossCorrelation, CUDNN_CROSS_CORRELATION);
NUMBER(our::kAdd, CUDNN_POINTWISE_ADD);
NUMBER(our::kRelu, CUDNN_POINTWISE_RELU_FWD);
NUMBER(our::kBestFirst, CUDNN_HEUR_MODE_A);
NUMBER(our::kFallback, CUDNN_HEUR_MODE_FALLBACK);
NUMBER(our::kTensorCore, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
NUMBER(our::kRoundsOperands, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
NUMBER(our::kRoundsSums, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
NUMBER(our::kBitsVary, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
NUMBER(our::kCompiles, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
NUMBER(our::kMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
NUMBER(our::kMatmulOperation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
NUMBER(our::kReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
NUMBER(our::kReductionOperation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
NUMBER(our::kReshapeOperation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
NUMBER(our::kReductionMode, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
NUMBER(our::kPointwiseNan, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION);
NUMBER(our::kKeepsNan, CUDNN_PROPAGATE_NAN);
NUMBER(our::kPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS);
NUMBER(our::kConfigWorkspace, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
NUMBER(our::kOperationT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
NUMBER(our::kTensorByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
NUMBER(our::kMatmulPrecision, CUDNN_ATTR_MATMUL_COMP_TYPE);
NUMBER(our::kMatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
NUMBER(our::kMatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
NUMBER(our::kMatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
NUMBER(our::kMatmulOf, CUDNN_ATTR_OPERATION_MATMUL_DESC);
NUMBER(our::kReductionModeOf, CUDNN_ATTR_REDUCTION_OPERATOR);
NUMBER(our::kReductionPrecision, CUDNN_ATTR_REDUCTION_COMP_TYPE);
NUMBER(our::kReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
NUMBER(our::kReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
NUMBER(our::kReductionOf, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
NUMBER(our::kReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
NUMBER(our::kReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
NUMBER(our::kStatistics, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
NUMBER(our::kStatisticsMode, CUDNN_TYPE_GENSTATS_MODE);
NUMBER(our::kStatisticsModeOf, CUDNN_ATTR_OPERATION_GENSTATS_MODE);
NUMBER(our::kStatisticsPrecision, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC);
NUMBER(our::kStatisticsX, CUDNN_ATTR_OPERATION_GENSTATS_XDESC);
NUMBER(our::kStatisticsSums, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC);
NUMBER(our::kStatisticsSquares, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC);
NUMBER(our::kSumsAndSquares, CUDNN_GENSTATS_SUM_SQSUM);
NUMBER(their::kStatistics, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
NUMBER(their::kStatisticsMode, CUDNN_TYPE_GENSTATS_MODE);
NUMBER(their::kModeOfStatistics, CUDNN_ATTR_OPERATION_GENSTATS_MODE);
NUMBER(their::kStatisticsOf, CUDNN_ATTR_OPERATION_GENSTATS_XDESC);
NUMBER(their::kSumsOf, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC);
NUMBER(their::kSquaresOf, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC);
NUMBER(our::kI32, CUDNN_DATA_INT32);
NUMBER(our::kBool, CUDNN_DATA_BOOLEAN);
NUMBER(our::kMul, CUDNN_POINTWISE_MUL);
NUMBER(our::kDiv, CUDNN_POINTWISE_DIV);
NUMBER(our::kSub, CUDNN_POINTWISE_SUB);
NUMBER(our::kExp, CUDNN_POINTWISE_EXP);
NUMBER(our::kLog, CUDNN_POINTWISE_LOG);
NUMBER(our::kNotLess, CUDNN_POINTWISE_CMP_GE);
NUMBER(our::kIndex, CUDNN_POINTWISE_GEN_INDEX);
NUMBER(our::kSelect, CUDNN_POINTWISE_BINARY_SELECT);
NUMBER(our::kSum, CUDNN_REDUCE_TENSOR_ADD);
NUMBER(our::kMost, CUDNN_REDUCE_TENSOR_MAX);
NUMBER(their::kOk, CUDNN_STATUS_SUCCESS);
NUMBER(their::kNotInitialized, CUDNN_STATUS_NOT_INITIALIZED);
NUMBER(their::kBadParam, CUDNN_STATUS_BAD_PARAM);
NUMBER(their::kNotSupported, CUDNN_STATUS_NOT_SUPPORTED);
NUMBER(their::kHalf, CUDNN_DATA_HALF);
NUMBER(their::kBFloat16, CUDNN_DATA_BFLOAT16);
NUMBER(their::kSingle, CUDNN_DATA_FLOAT);
NUMBER(their::kInt, CUDNN_DATA_INT32);
NUMBER(their::kBool, CUDNN_DATA_BOOLEAN);
NUMBER(their::kProduct, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
NUMBER(their::kReduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
NUMBER(their::kView, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
NUMBER(their::kReductionMode, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
NUMBER(their::kNanOfPointwise, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION);
NUMBER(their::kNanPropagation, CUDNN_TYPE_NAN_PROPOGATION);
NUMBER(their::kAxisOfPointwise, CUDNN_ATTR_POINTWISE_AXIS);
NUMBER(their::kWorkspaceOfConfig, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
NUMBER(their::kTOf, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
NUMBER(their::kByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
NUMBER(their::kLeftOf, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
NUMBER(their::kRightOf, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
NUMBER(their::kProductTo, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
NUMBER(their::kProductOf, CUDNN_ATTR_OPERATION_MATMUL_DESC);
NUMBER(their::kModeOfReduction, CUDNN_ATTR_REDUCTION_OPERATOR);
NUMBER(their::kReducedOf, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
NUMBER(their::kReducedTo, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
NUMBER(their::kReductionOf, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
NUMBER(their::kViewedOf, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
NUMBER(their::kViewedTo, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
NUMBER(their::kSum, CUDNN_REDUCE_TENSOR_ADD);
NUMBER(their::kMax, CUDNN_REDUCE_TENSOR_MAX);
NUMBER(their::kMul, CUDNN_POINTWISE_MUL);
NUMBER(their::kDiv, CUDNN_POINTWISE_DIV);
NUMBER(their::kSub, CUDNN_POINTWISE_SUB);
NUMBER(their::kExp, CUDNN_POINTWISE_EXP);
NUMBER(their::kLog, CUDNN_POINTWISE_LOG);
NUMBER(their::kGreaterOrEqual, CUDNN_POINTWISE_CMP_GE);
NUMBER(their::kIndex, CUDNN_POINTWISE_GEN_INDEX);
NUMBER(their::kSelect, CUDNN_POINTWISE_BINARY_SELECT);
NUMBER(their::kEngine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
NUMBER(their::kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
NUMBER(their::kHeuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
NUMBER(their::kPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
NUMBER(their::kForward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
NUMBER(their::kWeightGradient, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
NUMBER(their::kInputGradient, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
NUMBER(their::kPointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
NUMBER(their::kGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
NUMBER(their::kDataType, CUDNN_TYPE_DATA_TYPE);
NUMBER(their::kBoolean, CUDNN_TYPE_BOOLEAN);
NUMBER(their::kFloat, CUDNN_TYPE_FLOAT);
NUMBER(their::kConvolutionMode, CUDNN_TYPE_CONVOLUTION_MODE);
NUMBER(their::kHeuristicMode, CUDNN_TYPE_HEUR_MODE);
NUMBER(their::kPointwiseMode, CUDNN_TYPE_POINTWISE_MODE);
NUMBER(their::kDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
NUMBER(their::kChar, CUDNN_TYPE_CHAR);
NUMBER(their::kModeOfPointwise, CUDNN_ATTR_POINTWISE_MODE);
NUMBER(their::kDilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
NUMBER(their::kStrides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
NUMBER(their::kPaddingAfter, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
NUMBER(their::kPaddingBefore, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
NUMBER(their::kGraphOfHeuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
NUMBER(their::kResults, CUDNN_ATTR_ENGINEHEUR_RESULTS);
NUMBER(their::kDeviceOfHeuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
NUMBER(their::kEngineOfConfig, CUDNN_ATTR_ENGINECFG_ENGINE);
NUMBER(their::kConfigOfPlan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
NUMBER(their::kWorkspaceOfPlan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
NUMBER(their::kDeviceOfPlan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
NUMBER(their::kOfForward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
NUMBER(their::kOfInputGradient, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
NUMBER(their::kOfWeightGradient, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
NUMBER(their::kPointwiseOf, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
NUMBER(their::kXOf, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
NUMBER(their::kBOf, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
NUMBER(their::kYOf, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
NUMBER(their::kOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
NUMBER(their::kAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
NUMBER(their::kTypeOf, CUDNN_ATTR_TENSOR_DATA_TYPE);
NUMBER(their::kExtents, CUDNN_ATTR_TENSOR_DIMENSIONS);
NUMBER(their::kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES);
NUMBER(their::kName, CUDNN_ATTR_TENSOR_UNIQUE_ID);
NUMBER(their::kVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
NUMBER(their::kPackNames, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
NUMBER(their::kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
NUMBER(their::kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
NUMBER(their::kGraphOfEngine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
NUMBER(their::kNumber, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
NUMBER(their::kNumerics, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
NUMBER(their::kBehavior, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE);
NUMBER(their::kAdd, CUDNN_POINTWISE_ADD);
NUMBER(their::kRelu, CUDNN_POINTWISE_RELU_FWD);
NUMBER(their::kOnTensorCores, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
NUMBER(their::kBitsVary, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
NUMBER(their::kCompilesAtRun, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
NUMBER(our::kStandard, CUDNN_RNN_ALGO_STANDARD);
NUMBER(our::kLstm, CUDNN_LSTM);
NUMBER(our::kGru, CUDNN_GRU);
NUMBER(our::kTwoBiases, CUDNN_RNN_DOUBLE_BIAS);
NUMBER(our::kOneWay, CUDNN_UNIDIRECTIONAL);
NUMBER(our::kMultiplies, CUDNN_LINEAR_INPUT);
NUMBER(our::kBatchFirst, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED);
NUMBER(our::kAnyMath, CUDNN_DEFAULT_MATH);
NUMBER(our::kTensorMath, CUDNN_TENSOR_OP_MATH);
NUMBER(our::kFmaMath, CUDNN_FMA_MATH);
NUMBER(our::kInference, CUDNN_FWD_MODE_INFERENCE);
NUMBER(our::kTraining, CUDNN_FWD_MODE_TRAINING);
NUMBER(our::kAddGradients, CUDNN_WGRAD_MODE_ADD);
NUMBER(our::kUnpacked, CUDNN_RNN_PADDED_IO_ENABLED);
NUMBER(their::kStandardAlgorithm, CUDNN_RNN_ALGO_STANDARD);
NUMBER(their::kLstmCell, CUDNN_LSTM);
NUMBER(their::kGruCell, CUDNN_GRU);
NUMBER(their::kBothBiases, CUDNN_RNN_DOUBLE_BIAS);
NUMBER(their::kUnidirectional, CUDNN_UNIDIRECTIONAL);
NUMBER(their::kLinearInput, CUDNN_LINEAR_INPUT);
NUMBER(their::kBatchMajor, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED);
NUMBER(their::kTraining, CUDNN_FWD_MODE_TRAINING);
NUMBER(their::kAddToGradients, CUDNN_WGRAD_MODE_ADD);
NUMBER(their::kStrictMath, CUDNN_FMA_MATH);
NUMBER(their::kPadded, CUDNN_RNN_PADDED_IO_ENABLED);
#endif

#ifdef CHECK_CUSOLVER
#include <cusolverDn.h>
namespace our = freight::cuda::cusolver;
namespace their = fake::cusolver;
namespace freight::cuda {
#define SIGNATURE(name, result, ...) \
  static_assert(Same<result (*)(__VA_ARGS__), decltype(&cusolver##name)>::value, "cusolver" #name);
FREIGHT_CUSOLVER_FUNCTIONS(SIGNATURE)
FREIGHT_CUSOLVER_NEWER_FUNCTIONS(SIGNATURE)
}  // namespace freight::cuda
NUMBER(our::kF32, CUDA_R_32F);
NUMBER(our::kF64, CUDA_R_64F);
NUMBER(our::kLower, CUBLAS_FILL_MODE_LOWER);
NUMBER(our::kUpper, CUBLAS_FILL_MODE_UPPER);
NUMBER(our::kNoVectors, CUSOLVER_EIG_MODE_NOVECTOR);
NUMBER(our::kVectors, CUSOLVER_EIG_MODE_VECTOR);
NUMBER(our::kDeterministic, CUSOLVER_DETERMINISTIC_RESULTS);
NUMBER(their::kOk, CUSOLVER_STATUS_SUCCESS);
NUMBER(their::kNotInitialized, CUSOLVER_STATUS_NOT_INITIALIZED);
NUMBER(their::kInvalidValue, CUSOLVER_STATUS_INVALID_VALUE);
NUMBER(their::kExecutionFailed, CUSOLVER_STATUS_EXECUTION_FAILED);
NUMBER(their::kLowerFill, CUBLAS_FILL_MODE_LOWER);
NUMBER(their::kUpperFill, CUBLAS_FILL_MODE_UPPER);
NUMBER(their::kValuesOnly, CUSOLVER_EIG_MODE_NOVECTOR);
NUMBER(their::kWithVectors, CUSOLVER_EIG_MODE_VECTOR);
NUMBER(their::kSameBits, CUSOLVER_DETERMINISTIC_RESULTS);
#endif

#ifdef CHECK_CUBLAS
#include <cublas_v2.h>
namespace our = freight::cuda::cublas;
namespace their = fake::cublas;
namespace freight::cuda {
#define SIGNATURE(name, result, ...) \
  static_assert(Same<result (*)(__VA_ARGS__), decltype(&cublas##name)>::value, "cublas" #name);
FREIGHT_CUBLAS_FUNCTIONS(SIGNATURE)
}  // namespace freight::cuda
NUMBER(our::kLeft, CUBLAS_SIDE_LEFT);
NUMBER(our::kRight, CUBLAS_SIDE_RIGHT);
NUMBER(our::kLower, CUBLAS_FILL_MODE_LOWER);
NUMBER(our::kUpper, CUBLAS_FILL_MODE_UPPER);
NUMBER(our::kPlain, CUBLAS_OP_N);
NUMBER(our::kTransposed, CUBLAS_OP_T);
NUMBER(our::kDiagonal, CUBLAS_DIAG_NON_UNIT);
NUMBER(our::kUnitDiagonal, CUBLAS_DIAG_UNIT);
NUMBER(their::kOk, CUBLAS_STATUS_SUCCESS);
NUMBER(their::kNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED);
NUMBER(their::kInvalidValue, CUBLAS_STATUS_INVALID_VALUE);
NUMBER(their::kRightSide, CUBLAS_SIDE_RIGHT);
NUMBER(their::kUpperFill, CUBLAS_FILL_MODE_UPPER);
NUMBER(their::kTranspose, CUBLAS_OP_T);
NUMBER(their::kUnit, CUBLAS_DIAG_UNIT);
#endif

#ifdef CHECK_NCCL
#include <nccl.h>
namespace our = freight::cuda::nccl;
namespace their = fake::nccl;
namespace freight::cuda {
#define SIGNATURE(name, result, ...) \
  static_assert(Same<result (*)(__VA_ARGS__), decltype(&nccl##name)>::value, "nccl" #name);
FREIGHT_NCCL_FUNCTIONS(SIGNATURE)
}  // namespace freight::cuda
static_assert(sizeof(our::UniqueId) == sizeof(ncclUniqueId) && alignof(our::UniqueId) == alignof(ncclUniqueId));
constexpr ncclConfig_t kUsual = NCCL_CONFIG_INITIALIZER;
static_assert(sizeof(our::Config) <= sizeof(ncclConfig_t) && our::Config().version <= NCCL_VERSION_CODE);
NUMBER(offsetof(our::Config, size), offsetof(ncclConfig_t, size));
NUMBER(offsetof(our::Config, magic), offsetof(ncclConfig_t, magic));
NUMBER(offsetof(our::Config, version), offsetof(ncclConfig_t, version));
NUMBER(offsetof(our::Config, blocking), offsetof(ncclConfig_t, blocking));
NUMBER(offsetof(our::Config, cluster_size), offsetof(ncclConfig_t, cgaClusterSize));
NUMBER(our::kConfigMagic, kUsual.magic);
NUMBER(our::kUndefined, NCCL_CONFIG_UNDEF_INT);
NUMBER(0, ncclSuccess);
NUMBER(our::kInProgress, ncclInProgress);
NUMBER(our::kSum, ncclSum);
NUMBER(our::kU8, ncclUint8);
NUMBER(our::kI64, ncclInt64);
NUMBER(our::kF32, ncclFloat32);
NUMBER(our::kF64, ncclFloat64);
NUMBER(their::kOk, ncclSuccess);
NUMBER(their::kSystemFailed, ncclSystemError);
NUMBER(their::kInvalidArgument, ncclInvalidArgument);
NUMBER(their::kInvalidUse, ncclInvalidUsage);
NUMBER(their::kRemoteFailed, ncclRemoteError);
NUMBER(their::kUnderWay, ncclInProgress);
NUMBER(their::kAdded, ncclSum);
NUMBER(their::kByte, ncclUint8);
NUMBER(their::kLong, ncclInt64);
NUMBER(their::kFloat, ncclFloat32);
NUMBER(their::kDouble, ncclFloat64);
NUMBER(their::kMagic, kUsual.magic);
NUMBER(their::kOldestVersion, NCCL_VERSION(2, 14, 0));
#endif
