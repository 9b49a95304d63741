// The part of cuBLASLt's C interface that the benchmark calls, declared here
// because the toolkit is not needed to build it. Names and values are those
// of the cuBLASLt 12 and 13 documentation.
#ifndef GEMMD_TESTS_BENCH_CUBLASLT_API_H_
#define GEMMD_TESTS_BENCH_CUBLASLT_API_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace gemmd::bench::lt {

using Handle = struct HandleTag*;
using MatmulDesc = struct MatmulDescTag*;
using MatrixLayout = struct MatrixLayoutTag*;
using Preference = struct PreferenceTag*;

using Status = int;
inline constexpr Status kSuccess = 0;        // CUBLAS_STATUS_SUCCESS
inline constexpr Status kInvalidValue = 7;   // ..._INVALID_VALUE
inline constexpr Status kNotSupported = 15;  // ..._NOT_SUPPORTED

// cudaDataType_t
enum DataType : int {
  kF32 = 0,
  kF16 = 2,
  kS8 = 3,
  kS32 = 10,
  kBf16 = 14,
  kE4m3 = 28,
  kE5m2 = 29
};
// cublasOperation_t
enum Operation : int { kN = 0, kT = 1 };
// cublasComputeType_t
inline constexpr int kCompute16F = 64;
inline constexpr int kCompute32F = 68;
inline constexpr int kCompute32I = 72;
inline constexpr int kCompute32FFastTf32 = 77;
// cublasLtMatmulDescAttributes_t
inline constexpr int kDescTransA = 3;
inline constexpr int kDescTransB = 4;
inline constexpr int kDescFastAccumulation = 25;
// cublasLtMatrixLayoutAttribute_t
inline constexpr int kLayoutBatch = 5;               // ..._BATCH_COUNT
inline constexpr int kLayoutBatchStride = 6;         // ..._STRIDED_BATCH_OFFSET
inline constexpr int kPreferenceWorkspaceBytes = 1;  // ..._PREF_MAX_WORKSPACE

// cublasLtMatmulAlgo_t
struct Algorithm {
  uint64_t data[8];
};

// cublasLtMatmulHeuristicResult_t
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

struct Api {
  Status (*Create)(Handle*);
  Status (*Destroy)(Handle);
  size_t (*GetVersion)();
  Status (*MatmulDescCreate)(MatmulDesc*, int compute, int scale_type);
  Status (*MatmulDescDestroy)(MatmulDesc);
  Status (*MatmulDescSetAttribute)(MatmulDesc, int attribute, const void* value,
                                   size_t bytes);
  Status (*MatrixLayoutCreate)(MatrixLayout*, int type, uint64_t rows,
                               uint64_t columns, int64_t leading_dimension);
  Status (*MatrixLayoutDestroy)(MatrixLayout);
  Status (*MatrixLayoutSetAttribute)(MatrixLayout, int attribute,
                                     const void* value, size_t bytes);
  Status (*PreferenceCreate)(Preference*);
  Status (*PreferenceDestroy)(Preference);
  Status (*PreferenceSetAttribute)(Preference, int attribute, const void* value,
                                   size_t bytes);
  Status (*AlgoGetHeuristic)(Handle, MatmulDesc, MatrixLayout a, MatrixLayout b,
                             MatrixLayout c, MatrixLayout d, Preference,
                             int requested, HeuristicResult* results,
                             int* returned);
  Status (*Matmul)(Handle, MatmulDesc, const void* alpha, const void* a,
                   MatrixLayout, const void* b, MatrixLayout, const void* beta,
                   const void* c, MatrixLayout, void* d, MatrixLayout,
                   const Algorithm*, void* workspace, size_t workspace_bytes,
                   CUstream);
};

}  // namespace gemmd::bench::lt

#endif  // GEMMD_TESTS_BENCH_CUBLASLT_API_H_
