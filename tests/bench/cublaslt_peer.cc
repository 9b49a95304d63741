#include "tests/bench/cublaslt_peer.h"

#include <dlfcn.h>

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"
#include "tests/bench/kernels/elements.h"

namespace gemmd::bench {
namespace {

absl::Status Checked(lt::Status status, absl::string_view call) {
  if (status == lt::kSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(call, " failed with cuBLAS status ", status));
}

template <typename Function>
absl::Status Resolve(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function != nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("cuBLASLt lacks ", symbol));
}

absl::StatusOr<lt::DataType> LtType(jit::DataType type) {
  switch (type) {
    case jit::DataType::kF32:
      return lt::kF32;
    case jit::DataType::kF16:
      return lt::kF16;
    case jit::DataType::kBf16:
      return lt::kBf16;
    case jit::DataType::kE4m3:
      return lt::kE4m3;
    case jit::DataType::kE5m2:
      return lt::kE5m2;
    case jit::DataType::kS8:
      return lt::kS8;
    case jit::DataType::kS32:
      return lt::kS32;
    default:
      break;
  }
  return absl::UnimplementedError(
      absl::StrCat("The benchmark does not ask cuBLASLt for ", Name(type)));
}

int ComputeType(const jit::Problem& problem) {
  switch (problem.accumulator) {
    case jit::DataType::kF16:
      return lt::kCompute16F;
    case jit::DataType::kS32:
      return lt::kCompute32I;
    default:
      return problem.a_type == jit::DataType::kF32 &&
                     problem.precision != jit::Precision::kDefault
                 ? lt::kCompute32FFastTf32
                 : lt::kCompute32F;
  }
}

// The type of alpha and beta.
lt::DataType ScaleType(const jit::Problem& problem) {
  switch (problem.accumulator) {
    case jit::DataType::kF16:
      return lt::kF16;
    case jit::DataType::kS32:
      return lt::kS32;
    default:
      return lt::kF32;
  }
}

uint32_t ScaleBits(const jit::Problem& problem, float value) {
  switch (problem.accumulator) {
    case jit::DataType::kF16:
      return Encode(Element::kF16, value);
    case jit::DataType::kS32:
      return static_cast<uint32_t>(static_cast<int32_t>(value));
    default:
      return std::bit_cast<uint32_t>(value);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Open(
    const std::string& path) {
  std::vector<std::string> names = {path};
  if (path.empty()) {
    names = {"libcublasLt.so.13", "libcublasLt.so.12",
             "/usr/local/cuda/lib64/libcublasLt.so.13",
             "/usr/local/cuda/lib64/libcublasLt.so.12"};
  }
  void* library = nullptr;
  for (const std::string& name : names) {
    if (library == nullptr) library = dlopen(name.c_str(), RTLD_NOW);
  }
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "No cuBLASLt: tried ", absl::StrJoin(names, ", "), ": ", dlerror()));
  }
  auto peer = std::unique_ptr<CublasLt>(new CublasLt());
  lt::Api& api = peer->api_;
  RETURN_IF_ERROR(Resolve(library, "cublasLtCreate", api.Create));
  RETURN_IF_ERROR(Resolve(library, "cublasLtDestroy", api.Destroy));
  RETURN_IF_ERROR(Resolve(library, "cublasLtGetVersion", api.GetVersion));
  RETURN_IF_ERROR(
      Resolve(library, "cublasLtMatmulDescCreate", api.MatmulDescCreate));
  RETURN_IF_ERROR(
      Resolve(library, "cublasLtMatmulDescDestroy", api.MatmulDescDestroy));
  RETURN_IF_ERROR(Resolve(library, "cublasLtMatmulDescSetAttribute",
                          api.MatmulDescSetAttribute));
  RETURN_IF_ERROR(
      Resolve(library, "cublasLtMatrixLayoutCreate", api.MatrixLayoutCreate));
  RETURN_IF_ERROR(
      Resolve(library, "cublasLtMatrixLayoutDestroy", api.MatrixLayoutDestroy));
  RETURN_IF_ERROR(Resolve(library, "cublasLtMatrixLayoutSetAttribute",
                          api.MatrixLayoutSetAttribute));
  RETURN_IF_ERROR(
      Resolve(library, "cublasLtMatmulPreferenceCreate", api.PreferenceCreate));
  RETURN_IF_ERROR(Resolve(library, "cublasLtMatmulPreferenceDestroy",
                          api.PreferenceDestroy));
  RETURN_IF_ERROR(Resolve(library, "cublasLtMatmulPreferenceSetAttribute",
                          api.PreferenceSetAttribute));
  RETURN_IF_ERROR(
      Resolve(library, "cublasLtMatmulAlgoGetHeuristic", api.AlgoGetHeuristic));
  RETURN_IF_ERROR(Resolve(library, "cublasLtMatmul", api.Matmul));
  RETURN_IF_ERROR(Checked(api.Create(&peer->handle_), "cublasLtCreate"));
  return peer;
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) api_.Destroy(handle_);
}

std::string CublasLt::version() const {
  // 10000 * major + 100 * minor + patch.
  const size_t version = api_.GetVersion();
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

absl::StatusOr<std::unique_ptr<LtProduct>> LtProduct::Create(
    const CublasLt& library, const jit::Problem& problem) {
  if (problem.sparse != jit::Sparse::kNone) {
    return absl::UnimplementedError("cuBLASLt has no sparse operands");
  }
  if (problem.mixed()) {
    return absl::UnimplementedError("cuBLASLt widens no weights");
  }
  auto product = std::unique_ptr<LtProduct>(new LtProduct(library, problem));
  RETURN_IF_ERROR(product->Describe());
  return product;
}

LtProduct::~LtProduct() {
  for (lt::MatrixLayout layout : {a_, b_, d_}) {
    if (layout != nullptr) library_.api().MatrixLayoutDestroy(layout);
  }
  if (description_ != nullptr) {
    library_.api().MatmulDescDestroy(description_);
  }
}

absl::Status LtProduct::Describe() {
  const lt::Api& api = library_.api();
  RETURN_IF_ERROR(
      Checked(api.MatmulDescCreate(&description_, ComputeType(problem_),
                                   ScaleType(problem_)),
              "cublasLtMatmulDescCreate"));
  if (jit::IsFp8(problem_.a_type) &&
      problem_.precision == jit::Precision::kFast) {
    const int8_t fast = 1;
    RETURN_IF_ERROR(Checked(
        api.MatmulDescSetAttribute(description_, lt::kDescFastAccumulation,
                                   &fast, sizeof(fast)),
        "cublasLtMatmulDescSetAttribute"));
  }

  // The library writes column-major results. A row-major D is the product of
  // the transposed operands in reverse order.
  exchanged_ = problem_.d_order == jit::Order::kRowMajor;
  const jit::MatrixLayout x = exchanged_ ? problem_.b() : problem_.a();
  const jit::MatrixLayout y = exchanged_ ? problem_.a() : problem_.b();
  const jit::Order plain =
      exchanged_ ? jit::Order::kRowMajor : jit::Order::kColumnMajor;
  const lt::Operation x_operation = x.order == plain ? lt::kN : lt::kT;
  const lt::Operation y_operation = y.order == plain ? lt::kN : lt::kT;
  RETURN_IF_ERROR(
      Checked(api.MatmulDescSetAttribute(description_, lt::kDescTransA,
                                         &x_operation, sizeof(x_operation)),
              "cublasLtMatmulDescSetAttribute"));
  RETURN_IF_ERROR(
      Checked(api.MatmulDescSetAttribute(description_, lt::kDescTransB,
                                         &y_operation, sizeof(y_operation)),
              "cublasLtMatmulDescSetAttribute"));

  const auto batch = static_cast<int32_t>(problem_.batch);
  const auto describe = [&api, batch](const jit::MatrixLayout& layout,
                                      lt::MatrixLayout& out) -> absl::Status {
    ASSIGN_OR_RETURN(const lt::DataType type, LtType(layout.type));
    RETURN_IF_ERROR(Checked(
        api.MatrixLayoutCreate(
            &out, type, static_cast<uint64_t>(layout.width()),
            static_cast<uint64_t>(layout.matrix_lines()), layout.width()),
        "cublasLtMatrixLayoutCreate"));
    if (batch == 1) return absl::OkStatus();
    const int64_t stride =
        layout.count == 1 ? 0 : layout.width() * layout.matrix_lines();
    RETURN_IF_ERROR(Checked(api.MatrixLayoutSetAttribute(out, lt::kLayoutBatch,
                                                         &batch, sizeof(batch)),
                            "cublasLtMatrixLayoutSetAttribute"));
    return Checked(api.MatrixLayoutSetAttribute(out, lt::kLayoutBatchStride,
                                                &stride, sizeof(stride)),
                   "cublasLtMatrixLayoutSetAttribute");
  };
  RETURN_IF_ERROR(describe(x, a_));
  RETURN_IF_ERROR(describe(y, b_));
  return describe(problem_.d(), d_);
}

absl::StatusOr<std::vector<lt::HeuristicResult>> LtProduct::Heuristics(
    int count, size_t workspace_bytes) const {
  const lt::Api& api = library_.api();
  lt::Preference preference = nullptr;
  RETURN_IF_ERROR(Checked(api.PreferenceCreate(&preference),
                          "cublasLtMatmulPreferenceCreate"));
  std::vector<lt::HeuristicResult> results(static_cast<size_t>(count));
  int returned = 0;
  absl::Status status = Checked(
      api.PreferenceSetAttribute(preference, lt::kPreferenceWorkspaceBytes,
                                 &workspace_bytes, sizeof(workspace_bytes)),
      "cublasLtMatmulPreferenceSetAttribute");
  if (status.ok()) {
    const lt::Status found =
        api.AlgoGetHeuristic(library_.handle(), description_, a_, b_, d_, d_,
                             preference, count, results.data(), &returned);
    // What the library does not serve has no algorithm.
    if (found == lt::kNotSupported || found == lt::kInvalidValue) {
      returned = 0;
    } else {
      status = Checked(found, "cublasLtMatmulAlgoGetHeuristic");
    }
  }
  api.PreferenceDestroy(preference);
  RETURN_IF_ERROR(status);
  results.resize(static_cast<size_t>(returned));
  std::erase_if(results, [](const lt::HeuristicResult& result) {
    return result.state != lt::kSuccess;
  });
  return results;
}

absl::Status LtProduct::Enqueue(const lt::HeuristicResult& heuristic,
                                const Memory& memory,
                                const gpu::Stream& stream) const {
  const auto pointer = [](CUdeviceptr p) { return reinterpret_cast<void*>(p); };
  const CUdeviceptr x = exchanged_ ? memory.b : memory.a;
  const CUdeviceptr y = exchanged_ ? memory.a : memory.b;
  // The library wants a C even where beta is 0 and it is not read.
  const CUdeviceptr c = memory.c != 0 ? memory.c : memory.d;
  const uint32_t alpha = ScaleBits(problem_, problem_.alpha);
  const uint32_t beta = ScaleBits(problem_, problem_.beta);
  return Checked(library_.api().Matmul(
                     library_.handle(), description_, &alpha, pointer(x), a_,
                     pointer(y), b_, &beta, pointer(c), d_, pointer(memory.d),
                     d_, &heuristic.algorithm, pointer(memory.workspace),
                     heuristic.workspace_bytes, stream.get()),
                 "cublasLtMatmul");
}

}  // namespace gemmd::bench
