// The numbers of NVIDIA's interfaces that the fakes answer to. They are repeated on purpose, not taken from Freight's
// own: a mistake there meets another's reading here. tests/abi_test.cpp compares both with NVIDIA's headers.
#pragma once
#include <cstdint>

// CUresult, and CUdevice_attribute.
namespace fake::driver {
constexpr int kOk = 0, kInvalid = 1, kNoMemory = 2, kNoDevice = 100, kInvalidDevice = 101, kBadImage = 200,
              kInvalidContext = 201, kNotFound = 500, kNotReady = 600, kIllegalAddress = 700, kInCapture = 900,
              kUnjoined = 904;
constexpr int kMajor = 75, kMinor = 76, kProcessors = 16;
constexpr int kThreadLocalCapture = 1;  // CUstreamCaptureMode
}  // namespace fake::driver

// nvrtcResult.
namespace fake::nvrtc {
constexpr int kOk = 0, kCompilation = 6;
}

namespace fake::blaslt {
constexpr int kOk = 0, kNotInitialized = 1, kInvalidValue = 7, kNotSupported = 15;  // cublasStatus_t
constexpr int kComputeF32 = 68, kComputeF64 = 70, kComputeTF32 = 77;
constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8, kAuxPointer = 11, kAuxLead = 12;
constexpr int kOrder = 1, kBatchCount = 5, kBatchStride = 6;
constexpr int kWorkspaceBytes = 1, kReductionMask = 3, kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7,
              kAlignmentD = 8;
// Epilogues: of those with an auxiliary matrix the gradient of ReLU, whose matrix is a mask of bits.
constexpr uint32_t kPlain = 1, kBias = 4, kReluGradient = 8, kSums = 16, kAux = 128, kSumsOfA = 256, kSumsOfB = 512;
constexpr uint32_t kInPlace = 1, kAsStored = 4;  // cublasLtReductionScheme_t
}  // namespace fake::blaslt

namespace fake::cudnn {
constexpr int kOk = 0, kNotInitialized = 1001, kBadParam = 2000, kNotSupported = 3000;  // cudnnStatus_t
constexpr int kSingle = 0, kHalf = 2, kInt = 4, kBFloat16 = 9, kBool = 11;              // cudnnDataType_t
// Kinds of descriptors.
constexpr int kEngine = 2, kEngineConfig = 3, kHeuristic = 4, kPlan = 5, kForward = 10, kWeightGradient = 11,
              kInputGradient = 12, kPointwise = 13, kStatistics = 14, kGraph = 15, kProduct = 19, kReduction = 22,
              kView = 31;
// Types of attributes that are not of eight bytes, and that of descriptors.
constexpr int kDataType = 1, kBoolean = 2, kFloat = 4, kConvolutionMode = 7, kHeuristicMode = 8, kNanPropagation = 10,
              kPointwiseMode = 14, kStatisticsMode = 16, kReductionMode = 18, kDescriptor = 15, kChar = 24;
// Names of attributes.
constexpr int kModeOfPointwise = 0, kNanOfPointwise = 2, kAxisOfPointwise = 9, kDilations = 102, kStrides = 103,
              kPaddingAfter = 104, kPaddingBefore = 105;
constexpr int kGraphOfHeuristic = 201, kResults = 202, kDeviceOfHeuristic = 204;
constexpr int kEngineOfConfig = 300, kWorkspaceOfConfig = 303, kConfigOfPlan = 401, kWorkspaceOfPlan = 402,
              kDeviceOfPlan = 407;
constexpr int kOfForward = 700, kOfInputGradient = 706, kOfWeightGradient = 712;  // the first of six
constexpr int kPointwiseOf = 750, kXOf = 751, kBOf = 752, kYOf = 753, kTOf = 758, kOperations = 801;
constexpr int kModeOfStatistics = 770, kStatisticsOf = 772, kSumsOf = 773, kSquaresOf = 774;
constexpr int kAlignment = 900, kTypeOf = 901, kExtents = 902, kTensorStrides = 903, kName = 906, kVirtual = 907,
              kByValue = 908;
constexpr int kPackNames = 1000, kPackPointers = 1001, kPackWorkspace = 1003;
constexpr int kGraphOfEngine = 1300, kNumber = 1301, kNumerics = 1303, kBehavior = 1305;
constexpr int kLeftOf = 1520, kRightOf = 1521, kProductTo = 1522, kProductOf = 1523;
constexpr int kModeOfReduction = 1600, kReducedOf = 1610, kReducedTo = 1611, kReductionOf = 1612;
constexpr int kViewedOf = 2200, kViewedTo = 2201;
constexpr int kSum = 0, kMax = 3;  // cudnnReduceTensorOp_t
constexpr int kAdd = 0, kMul = 1, kDiv = 6, kSub = 9, kExp = 13, kLog = 15, kRelu = 100, kGreaterOrEqual = 303,
              kIndex = 501, kSelect = 601;                            // cudnnPointwiseMode_t
constexpr int kOnTensorCores = 0, kBitsVary = 4, kCompilesAtRun = 0;  // notes
// Recurrent layers.
constexpr int kStandardAlgorithm = 0, kLstmCell = 2, kGruCell = 3, kBothBiases = 2;
constexpr int kUnidirectional = 0, kLinearInput = 0, kBatchMajor = 2, kTraining = 1, kAddToGradients = 0;
constexpr int kStrictMath = 3;
constexpr unsigned kPadded = 1;
}  // namespace fake::cudnn

namespace fake::cusolver {
constexpr int kOk = 0, kNotInitialized = 1, kInvalidValue = 3, kExecutionFailed = 6;  // cusolverStatus_t
constexpr int kLowerFill = 0, kUpperFill = 1;                                         // cublasFillMode_t
constexpr int kValuesOnly = 0, kWithVectors = 1;                                      // cusolverEigMode_t
constexpr int kSameBits = 1;                                                          // cusolverDeterministicMode_t
}  // namespace fake::cusolver

namespace fake::cublas {
constexpr int kOk = 0, kNotInitialized = 1, kInvalidValue = 7;  // cublasStatus_t
constexpr int kRightSide = 1, kUpperFill = 1, kTranspose = 1, kUnit = 1;
}  // namespace fake::cublas

namespace fake::nccl {
constexpr int kOk = 0, kSystemFailed = 2, kInvalidArgument = 4, kInvalidUse = 5, kRemoteFailed = 6,
              kUnderWay = 7;                                  // ncclResult_t
constexpr int kAdded = 0;                                     // ncclRedOp_t
constexpr int kByte = 1, kLong = 4, kFloat = 7, kDouble = 8;  // ncclDataType_t
constexpr unsigned kMagic = 0xcafebeef;                       // of a configuration
constexpr unsigned kOldestVersion = 21400;                    // that has one
}  // namespace fake::nccl
