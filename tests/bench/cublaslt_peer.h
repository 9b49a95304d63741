// cuBLASLt as the library to compare with: opened at run time, never linked.
#ifndef GEMMD_TESTS_BENCH_CUBLASLT_PEER_H_
#define GEMMD_TESTS_BENCH_CUBLASLT_PEER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/problem/problem.h"
#include "service/gpu/stream.h"
#include "tests/bench/cublaslt_api.h"

namespace gemmd::bench {

class CublasLt {
 public:
  // `path`: the library; empty tries the loader's search path, then the usual
  // folder of a toolkit. NOT_FOUND names what was tried. The device's context
  // is current.
  static absl::StatusOr<std::unique_ptr<CublasLt>> Open(
      const std::string& path);
  ~CublasLt();

  const lt::Api& api() const { return api_; }
  lt::Handle handle() const { return handle_; }
  std::string version() const;

 private:
  CublasLt() = default;

  lt::Api api_ = {};
  lt::Handle handle_ = nullptr;
};

// One problem in cuBLASLt's terms; operands without padding.
class LtProduct {
 public:
  struct Memory {
    CUdeviceptr a = 0, b = 0, c = 0, d = 0;
    CUdeviceptr workspace = 0;
  };

  // `library` outlives this object.
  static absl::StatusOr<std::unique_ptr<LtProduct>> Create(
      const CublasLt& library, const jit::Problem& problem);
  ~LtProduct();

  // Up to `count` algorithms, in the library's own order of preference.
  absl::StatusOr<std::vector<lt::HeuristicResult>> Heuristics(
      int count, size_t workspace_bytes) const;

  absl::Status Enqueue(const lt::HeuristicResult& heuristic,
                       const Memory& memory, const gpu::Stream& stream) const;

 private:
  LtProduct(const CublasLt& library, const jit::Problem& problem)
      : library_(library), problem_(problem) {}

  absl::Status Describe();

  const CublasLt& library_;
  const jit::Problem problem_;
  bool exchanged_ = false;  // The library's A is the problem's B.
  lt::MatmulDesc description_ = nullptr;
  lt::MatrixLayout a_ = nullptr, b_ = nullptr, d_ = nullptr;
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_CUBLASLT_PEER_H_
