#include "tests/bench/grouped/cublas_peer.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/gpu/status.h"

namespace gemmd::bench {
namespace {

constexpr int kCompute32F = 68;  // CUBLAS_COMPUTE_32F
constexpr int kF16 = 2, kBf16 = 14;

absl::Status Checked(int status, absl::string_view call) {
  if (status == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(call, " failed with cuBLAS status ", status));
}

}  // namespace

struct CublasGroup::Api {
  int (*Create)(void**);
  int (*Destroy)(void*);
  int (*SetStream)(void*, CUstream);
  int (*Multiply)(void*, const int* trans_a, const int* trans_b, const int* m,
                  const int* n, const int* k, const void* alpha,
                  const void* const* a, int a_type, const int* lda,
                  const void* const* b, int b_type, const int* ldb,
                  const void* beta, void* const* d, int d_type, const int* ldd,
                  int groups, const int* group_sizes, int compute_type);
};

absl::Status CublasGroup::Open(const gpu::Stream& stream) {
  void* library = nullptr;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12",
                           "/usr/local/cuda/lib64/libcublas.so.13",
                           "/usr/local/cuda/lib64/libcublas.so.12"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW);
  }
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrCat("no cuBLAS: ", dlerror()));
  }
  auto api = std::make_unique<Api>();
  const auto resolve = [&](const char* symbol, auto& function) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(
        dlsym(library, symbol));
    return function != nullptr;
  };
  if (!resolve("cublasCreate_v2", api->Create) ||
      !resolve("cublasDestroy_v2", api->Destroy) ||
      !resolve("cublasSetStream_v2", api->SetStream) ||
      !resolve("cublasGemmGroupedBatchedEx", api->Multiply)) {
    return absl::NotFoundError("cuBLAS is older than 12.5");
  }
  RETURN_IF_ERROR(Checked(api->Create(&handle_), "cublasCreate"));
  api_ = std::move(api);
  return Checked(api_->SetStream(handle_, stream.get()), "cublasSetStream");
}

absl::StatusOr<std::unique_ptr<CublasGroup>> CublasGroup::Create(
    const gpu::CudaDevice& device, const std::shared_ptr<gpu::Stream>& stream,
    absl::Span<const jit::Problem> problems, absl::Span<const Memory> memory) {
  auto group = std::unique_ptr<CublasGroup>(new CublasGroup());
  RETURN_IF_ERROR(group->Open(*stream));
  const bool bf16 = problems[0].a_type == jit::DataType::kBf16;
  group->type_ = bf16 ? kBf16 : kF16;
  std::vector<CUdeviceptr> a, b, d;
  for (size_t i = 0; i < problems.size(); ++i) {
    const jit::Problem& p = problems[i];
    // A row-major D is the exchanged product.
    const bool exchanged = p.d_order == jit::Order::kRowMajor;
    const auto transposed = [&](jit::Order order) {
      return static_cast<int>((order == jit::Order::kRowMajor) != exchanged);
    };
    const int of_a = transposed(p.a_order), of_b = transposed(p.b_order);
    group->trans_a_.push_back(exchanged ? of_b : of_a);
    group->trans_b_.push_back(exchanged ? of_a : of_b);
    group->m_.push_back(static_cast<int>(exchanged ? p.n : p.m));
    group->n_.push_back(static_cast<int>(exchanged ? p.m : p.n));
    group->k_.push_back(static_cast<int>(p.k));
    const auto lda = static_cast<int>(p.a().width());
    const auto ldb = static_cast<int>(p.b().width());
    group->lda_.push_back(exchanged ? ldb : lda);
    group->ldb_.push_back(exchanged ? lda : ldb);
    group->ldd_.push_back(static_cast<int>(p.d().width()));
    group->one_.push_back(1);
    group->alpha_.push_back(p.alpha);
    group->beta_.push_back(p.beta);
    a.push_back(exchanged ? memory[i].b : memory[i].a);
    b.push_back(exchanged ? memory[i].a : memory[i].b);
    d.push_back(memory[i].d);
  }
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), d.begin(), d.end());
  const auto bytes = static_cast<int64_t>(a.size() * sizeof(CUdeviceptr));
  ASSIGN_OR_RETURN(group->pointers_, device.memory().Allocate(stream, bytes));
  RETURN_IF_CUDA_ERROR(
      stream->driver(),
      cuMemcpyHtoDAsync(group->pointers_.get(), a.data(),
                        static_cast<size_t>(bytes), stream->get()));
  RETURN_IF_ERROR(stream->Synchronize());
  return group;
}

CublasGroup::~CublasGroup() {
  if (api_ != nullptr) api_->Destroy(handle_);
}

absl::Status CublasGroup::Enqueue() const {
  auto* const pointers = reinterpret_cast<void**>(pointers_.get());
  const size_t count = m_.size();
  return Checked(
      api_->Multiply(handle_, trans_a_.data(), trans_b_.data(), m_.data(),
                     n_.data(), k_.data(), alpha_.data(), pointers, type_,
                     lda_.data(), pointers + count, type_, ldb_.data(),
                     beta_.data(), pointers + 2 * count, type_, ldd_.data(),
                     static_cast<int>(count), one_.data(), kCompute32F),
      "cublasGemmGroupedBatchedEx");
}

}  // namespace gemmd::bench
