// The binary interfaces of NVIDIA's libraries as far as they are used, those of CUDA 12 and 13, of cuDNN 9 and of NCCL
// from 2.14 on: numbers, structs, functions (symbol, mostly behind the library's name, result, parameters); the
// driver's is driver.h. tests/abi_test.cpp compares them with the headers. Handles are void*, enumerators and statuses
// int; 0 is success.
#pragma once
#include "freight/backend/gpu/cuda/driver.h"

#define FREIGHT_NVRTC_FUNCTIONS(F)                                                                          \
  F(nvrtcVersion, int, int*, int*)                                                                          \
  F(nvrtcGetNumSupportedArchs, int, int*)                                                                   \
  F(nvrtcGetSupportedArchs, int, int*)                                                                      \
  F(nvrtcCreateProgram, int, void**, const char*, const char*, int, const char* const*, const char* const*) \
  F(nvrtcDestroyProgram, int, void**)                                                                       \
  F(nvrtcCompileProgram, int, void*, int, const char* const*)                                               \
  F(nvrtcGetProgramLogSize, int, void*, size_t*)                                                            \
  F(nvrtcGetProgramLog, int, void*, char*)                                                                  \
  F(nvrtcGetCUBINSize, int, void*, size_t*)                                                                 \
  F(nvrtcGetCUBIN, int, void*, char*)                                                                       \
  F(nvrtcGetPTXSize, int, void*, size_t*)                                                                   \
  F(nvrtcGetPTX, int, void*, char*)                                                                         \
  F(nvrtcGetErrorString, const char*, int)

namespace freight::cuda::blaslt {
struct Algorithm {
  uint64_t data[8];
};
struct Guess {
  Algorithm algorithm;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
};
constexpr int kF32 = 0, kF64 = 1, kF16 = 2, kBF16 = 14;               // cudaDataType
constexpr int kComputeF32 = 68, kComputeTF32 = 77, kComputeF64 = 70;  // cublasComputeType_t
constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8, kAuxPointer = 11,
              kAuxLead = 12;                                         // cublasLtMatmulDescAttributes_t
constexpr int kBatches = 5, kBatchStride = 6;                        // cublasLtMatrixLayoutAttribute_t
constexpr int kMostWorkspace = 1, kReductions = 3, kAlignmentA = 5;  // cublasLtMatmulPreference...; B, C, D
constexpr uint32_t kPlain = 1, kBias = 4;                            // cublasLtEpilogue_t
// With a mask of bits: the gradient of ReLU; sums over D's columns (with a mask), over the columns of A, the rows of B.
constexpr uint32_t kReluGradient = 8 | 128, kSums = 16, kSumsOfA = 256, kSumsOfB = 512;
constexpr uint32_t kPartsAsComputed = 2, kPartsAsStored = 4;  // cublasLtReductionScheme_t but that through counters
}  // namespace freight::cuda::blaslt

#define FREIGHT_CUBLASLT_FUNCTIONS(F)                                                                                \
  F(Create, int, void**)                                                                                             \
  F(Destroy, int, void*)                                                                                             \
  F(GetVersion, size_t, )                                                                                            \
  F(GetStatusString, const char*, int)                                                                               \
  F(MatmulDescCreate, int, void**, int, int)                                                                         \
  F(MatmulDescDestroy, int, void*)                                                                                   \
  F(MatmulDescSetAttribute, int, void*, int, const void*, size_t)                                                    \
  F(MatrixLayoutCreate, int, void**, int, uint64_t, uint64_t, int64_t)                                               \
  F(MatrixLayoutDestroy, int, void*)                                                                                 \
  F(MatrixLayoutSetAttribute, int, void*, int, const void*, size_t)                                                  \
  F(MatmulPreferenceCreate, int, void**)                                                                             \
  F(MatmulPreferenceDestroy, int, void*)                                                                             \
  F(MatmulPreferenceSetAttribute, int, void*, int, const void*, size_t)                                              \
  F(MatmulAlgoGetHeuristic, int, void*, void*, void*, void*, void*, void*, void*, int, blaslt::Guess*, int*)         \
  F(Matmul, int, void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, \
    void*, void*, const blaslt::Algorithm*, void*, size_t, Stream)

namespace freight::cuda::cudnn {
// cudnnBackendDescriptorType_t
constexpr int kPointwise = 0, kConvolution = 1, kEngine = 2, kEngineConfig = 3, kHeuristic = 4, kPlan = 5,
              kForward = 10, kWeightGradient = 11, kInputGradient = 12, kPointwiseOperation = 13, kStatistics = 14,
              kGraph = 15, kVariantPack = 16, kTensor = 17, kMatmul = 18, kMatmulOperation = 19, kReduction = 21,
              kReductionOperation = 22, kReshapeOperation = 31, kDevice = 38;
// cudnnBackendAttributeType_t
constexpr int kHandleType = 0, kDataType = 1, kBoolean = 2, kInt64 = 3, kFloat = 4, kPointer = 6, kConvolutionMode = 7,
              kHeuristicMode = 8, kNanMode = 10, kNumericalNote = 11, kPointwiseMode = 14, kDescriptor = 15,
              kStatisticsMode = 16, kReductionMode = 18, kBehaviorNote = 19, kChar = 24;
// cudnnBackendAttributeName_t
constexpr int kPointwiseModeOf = 0, kPointwisePrecision = 1, kPointwiseNan = 2, kPointwiseAxis = 9,
              kConvPrecision = 100, kConvMode = 101, kConvDilations = 102, kConvStrides = 103, kConvPadHigh = 104,
              kConvPadLow = 105, kConvAxes = 106, kHeuristicModeOf = 200, kHeuristicGraph = 201,
              kHeuristicResults = 202, kHeuristicDevice = 204, kConfigEngine = 300, kConfigWorkspace = 303,
              kPlanConfig = 401, kPlanWorkspace = 402, kPlanDevice = 407, kOperationPointwise = 750, kOperationX = 751,
              kOperationB = 752, kOperationY = 753, kOperationT = 758, kStatisticsModeOf = 770,
              kStatisticsPrecision = 771, kStatisticsX = 772, kStatisticsSums = 773, kStatisticsSquares = 774,
              kGraphOperations = 801, kTensorAlignment = 900, kTensorType = 901, kTensorExtents = 902,
              kTensorStrides = 903, kTensorId = 906, kTensorVirtual = 907, kTensorByValue = 908, kPackIds = 1000,
              kPackPointers = 1001, kPackWorkspace = 1003, kEngineIndex = 1301, kEngineNumerics = 1303,
              kEngineBehavior = 1305, kMatmulPrecision = 1500, kMatmulA = 1520, kMatmulB = 1521, kMatmulC = 1522,
              kMatmulOf = 1523, kReductionModeOf = 1600, kReductionPrecision = 1601, kReductionX = 1610,
              kReductionY = 1611, kReductionOf = 1612, kReshapeX = 2200, kReshapeY = 2201, kDeviceHandle = 2701,
              kDeviceJson = 2702;
// The attributes of a convolution's operation: alpha, beta, descriptor and three tensors follow each other.
constexpr int kForwardFirst = 700, kInputGradientFirst = 706, kWeightGradientFirst = 712;
constexpr int kF32 = 0, kF16 = 2, kI32 = 4, kBF16 = 9, kBool = 11;  // cudnnDataType_t
constexpr int kCrossCorrelation = 1;
constexpr int kKeepsNan = 1;  // cudnnNanPropagation_t
constexpr int kAdd = 0, kMul = 1, kDiv = 6, kSub = 9, kExp = 13, kLog = 15, kRelu = 100, kNotLess = 303, kIndex = 501,
              kSelect = 601;                  // cudnnPointwiseMode_t
constexpr int kSum = 0, kMost = 3;            // cudnnReduceTensorOp_t
constexpr int kSumsAndSquares = 0;            // cudnnGenStatsMode_t
constexpr int kBestFirst = 3, kFallback = 2;  // cudnnBackendHeurMode_t
constexpr int kTensorCore = 0, kRoundsOperands = 1, kRoundsSums = 2,
              kBitsVary = 4;  // cudnnBackendNumericalNote_t
constexpr int kCompiles = 0;  // cudnnBackendBehaviorNote_t
// Recurrent layers: algorithm, cell, biases, directions, inputs, layout of sequences, flags, mathematics, mode.
constexpr int kStandard = 0, kLstm = 2, kGru = 3, kTwoBiases = 2, kOneWay = 0, kMultiplies = 0, kBatchFirst = 2,
              kAnyMath = 0, kTensorMath = 1, kFmaMath = 3, kInference = 0, kTraining = 1, kAddGradients = 0;
constexpr unsigned kUnpacked = 1;
}  // namespace freight::cuda::cudnn

#define FREIGHT_CUDNN_FUNCTIONS(F)                                                                                   \
  F(Create, int, void**)                                                                                             \
  F(Destroy, int, void*)                                                                                             \
  F(SetStream, int, void*, Stream)                                                                                   \
  F(GetVersion, size_t, )                                                                                            \
  F(GetErrorString, const char*, int)                                                                                \
  F(BackendCreateDescriptor, int, int, void**)                                                                       \
  F(BackendDestroyDescriptor, int, void*)                                                                            \
  F(BackendFinalize, int, void*)                                                                                     \
  F(BackendSetAttribute, int, void*, int, int, int64_t, const void*)                                                 \
  F(BackendGetAttribute, int, const void*, int, int, int64_t, int64_t*, void*)                                       \
  F(BackendExecute, int, void*, void*, void*)                                                                        \
  F(CreateTensorDescriptor, int, void**)                                                                             \
  F(DestroyTensorDescriptor, int, void*)                                                                             \
  F(SetTensorNdDescriptor, int, void*, int, int, const int*, const int*)                                             \
  F(CreateRNNDescriptor, int, void**)                                                                                \
  F(DestroyRNNDescriptor, int, void*)                                                                                \
  F(SetRNNDescriptor_v8, int, void*, int, int, int, int, int, int, int, int, int, int, int, int, void*, unsigned)    \
  F(CreateRNNDataDescriptor, int, void**)                                                                            \
  F(DestroyRNNDataDescriptor, int, void*)                                                                            \
  F(SetRNNDataDescriptor, int, void*, int, int, int, int, int, const int*, void*)                                    \
  F(GetRNNWeightSpaceSize, int, void*, void*, size_t*)                                                               \
  F(GetRNNWeightParams, int, void*, void*, int, size_t, const void*, int, void*, void**, void*, void**)              \
  F(GetRNNTempSpaceSizes, int, void*, void*, int, void*, size_t*, size_t*)                                           \
  F(RNNForward, int, void*, void*, int, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, \
    size_t, void*, size_t, void*, size_t, void*)                                                                     \
  F(RNNBackwardData_v8, int, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*,     \
    void*, void*, void*, void*, size_t, void*, size_t, void*, size_t, void*)                                         \
  F(RNNBackwardWeights_v8, int, void*, void*, int, void*, void*, void*, void*, void*, void*, void*, size_t, void*,   \
    size_t, void*, size_t, void*)

namespace freight::cuda::cusolver {
constexpr int kF32 = 0, kF64 = 1;            // cudaDataType
constexpr int kLower = 0, kUpper = 1;        // cublasFillMode_t
constexpr int kNoVectors = 0, kVectors = 1;  // cusolverEigMode_t
constexpr int kDeterministic = 1;            // cusolverDeterministicMode_t
}  // namespace freight::cuda::cusolver

#define FREIGHT_CUSOLVER_FUNCTIONS(F)                                                                                  \
  F(GetVersion, int, int*)                                                                                             \
  F(DnCreate, int, void**)                                                                                             \
  F(DnDestroy, int, void*)                                                                                             \
  F(DnSetStream, int, void*, Stream)                                                                                   \
  F(DnSetDeterministicMode, int, void*, int)                                                                           \
  F(DnCreateParams, int, void**)                                                                                       \
  F(DnDestroyParams, int, void*)                                                                                       \
  F(DnXgetrf_bufferSize, int, void*, void*, int64_t, int64_t, int, const void*, int64_t, int, size_t*, size_t*)        \
  F(DnXgetrf, int, void*, void*, int64_t, int64_t, int, void*, int64_t, int64_t*, int, void*, size_t, void*, size_t,   \
    int*)                                                                                                              \
  F(DnXpotrf_bufferSize, int, void*, void*, int, int64_t, int, const void*, int64_t, int, size_t*, size_t*)            \
  F(DnXpotrf, int, void*, void*, int, int64_t, int, void*, int64_t, int, void*, size_t, void*, size_t, int*)           \
  F(DnXgeqrf_bufferSize, int, void*, void*, int64_t, int64_t, int, const void*, int64_t, int, const void*, int,        \
    size_t*, size_t*)                                                                                                  \
  F(DnXgeqrf, int, void*, void*, int64_t, int64_t, int, void*, int64_t, int, void*, int, void*, size_t, void*, size_t, \
    int*)                                                                                                              \
  F(DnSorgqr_bufferSize, int, void*, int, int, int, const float*, int, const float*, int*)                             \
  F(DnDorgqr_bufferSize, int, void*, int, int, int, const double*, int, const double*, int*)                           \
  F(DnSorgqr, int, void*, int, int, int, float*, int, const float*, float*, int, int*)                                 \
  F(DnDorgqr, int, void*, int, int, int, double*, int, const double*, double*, int, int*)                              \
  F(DnXsyevd_bufferSize, int, void*, void*, int, int, int64_t, int, const void*, int64_t, int, const void*, int,       \
    size_t*, size_t*)                                                                                                  \
  F(DnXsyevd, int, void*, void*, int, int, int64_t, int, void*, int64_t, int, void*, int, void*, size_t, void*,        \
    size_t, int*)                                                                                                      \
  F(DnXgesvd_bufferSize, int, void*, void*, signed char, signed char, int64_t, int64_t, int, const void*, int64_t,     \
    int, const void*, int, const void*, int64_t, int, const void*, int64_t, int, size_t*, size_t*)                     \
  F(DnXgesvd, int, void*, void*, signed char, signed char, int64_t, int64_t, int, void*, int64_t, int, void*, int,     \
    void*, int64_t, int, void*, int64_t, int, void*, size_t, void*, size_t, int*)
// Functions that older versions lack.
#define FREIGHT_CUSOLVER_NEWER_FUNCTIONS(F)                                                                            \
  F(DnXsyevBatched_bufferSize, int, void*, void*, int, int, int64_t, int, const void*, int64_t, int, const void*, int, \
    size_t*, size_t*, int64_t)                                                                                         \
  F(DnXsyevBatched, int, void*, void*, int, int, int64_t, int, void*, int64_t, int, void*, int, void*, size_t, void*,  \
    size_t, int*, int64_t)                                                                                             \
  F(DnXgeev_bufferSize, int, void*, void*, int, int, int64_t, int, const void*, int64_t, int, const void*, int,        \
    const void*, int64_t, int, const void*, int64_t, int, size_t*, size_t*)                                            \
  F(DnXgeev, int, void*, void*, int, int, int64_t, int, void*, int64_t, int, void*, int, void*, int64_t, int, void*,   \
    int64_t, int, void*, size_t, void*, size_t, int*)

namespace freight::cuda::cublas {
constexpr int kLeft = 0, kRight = 1;             // cublasSideMode_t
constexpr int kLower = 0, kUpper = 1;            // cublasFillMode_t
constexpr int kPlain = 0, kTransposed = 1;       // cublasOperation_t
constexpr int kDiagonal = 0, kUnitDiagonal = 1;  // cublasDiagType_t
}  // namespace freight::cuda::cublas

#define FREIGHT_CUBLAS_FUNCTIONS(F)                                                                                   \
  F(Create_v2, int, void**)                                                                                           \
  F(Destroy_v2, int, void*)                                                                                           \
  F(SetStream_v2, int, void*, Stream)                                                                                 \
  F(SetWorkspace_v2, int, void*, void*, size_t)                                                                       \
  F(GetStatusString, const char*, int)                                                                                \
  F(Strsm_v2, int, void*, int, int, int, int, int, int, const float*, const float*, int, float*, int)                 \
  F(Dtrsm_v2, int, void*, int, int, int, int, int, int, const double*, const double*, int, double*, int)              \
  F(StrsmBatched, int, void*, int, int, int, int, int, int, const float*, const float* const*, int, float* const*,    \
    int, int)                                                                                                         \
  F(DtrsmBatched, int, void*, int, int, int, int, int, int, const double*, const double* const*, int, double* const*, \
    int, int)

namespace freight::cuda::nccl {
constexpr int kInProgress = 7;                        // ncclResult_t
constexpr int kSum = 0;                               // ncclRedOp_t
constexpr int kU8 = 1, kI64 = 4, kF32 = 7, kF64 = 8;  // ncclDataType_t
constexpr unsigned kConfigMagic = 0xcafebeef;
constexpr int kUndefined = -2147483647 - 1;  // NCCL_CONFIG_UNDEF_INT
struct UniqueId {
  char bytes[128];
};
// The first fields of ncclConfig_t. The library takes `size` and `version` for what the caller knows of it.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = kConfigMagic, version = 21400;
  int blocking = 0, cluster_size = kUndefined;
};
}  // namespace freight::cuda::nccl

#define FREIGHT_NCCL_FUNCTIONS(F)                                        \
  F(GetVersion, int, int*)                                               \
  F(GetUniqueId, int, nccl::UniqueId*)                                   \
  F(CommInitRankConfig, int, void**, int, nccl::UniqueId, int, void*)    \
  F(CommGetAsyncError, int, void*, int*)                                 \
  F(CommFinalize, int, void*)                                            \
  F(CommDestroy, int, void*)                                             \
  F(CommAbort, int, void*)                                               \
  F(GetErrorString, const char*, int)                                    \
  F(GetLastError, const char*, void*)                                    \
  F(GroupStart, int, )                                                   \
  F(GroupEnd, int, )                                                     \
  F(AllReduce, int, const void*, void*, size_t, int, int, void*, Stream) \
  F(AllGather, int, const void*, void*, size_t, int, void*, Stream)      \
  F(Broadcast, int, const void*, void*, size_t, int, int, void*, Stream)
