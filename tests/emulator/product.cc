#include "tests/emulator/product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/plan/form.h"
#include "jit/plan/launch_arithmetic.h"
#include "jit/source/instance.h"
#include "service/gpu/launch.h"
#include "templates/common/arguments.h"
#include "tests/emulator/explain.h"
#include "tests/emulator/host_source.h"
#include "tests/emulator/machine/grid.h"
#include "tests/emulator/machine/tensor_map.h"
#include "tests/emulator/operands.h"

namespace gemmd::emulator {
namespace {

CUdeviceptr Address(const GlobalBlock& block) {
  return reinterpret_cast<CUdeviceptr>(block.data());
}

int BytesOf(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    default:
      return 4;
  }
}

int SwizzleOf(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return 128;
    default:
      return 0;
  }
}

// The driver's cuTensorMapEncodeTiled, for three dimensions.
CUresult Encode(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank,
                void* memory, const cuuint64_t* size, const cuuint64_t* strides,
                const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                CUtensorMapFloatOOBfill fill) {
  TensorMap map;
  map.memory = static_cast<char*>(memory);
  map.width = static_cast<int64_t>(size[0]);
  map.lines = static_cast<int64_t>(size[1]);
  map.matrices = static_cast<int64_t>(size[2]);
  map.pitch_bytes = static_cast<int64_t>(strides[0]);
  map.matrix_bytes = static_cast<int64_t>(strides[1]);
  map.element_bytes = BytesOf(type);
  map.box_width = static_cast<int>(box[0]);
  map.box_lines = static_cast<int>(box[1]);
  map.swizzle_bytes = SwizzleOf(swizzle);
  map.rounds_tf32 = type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  if (rank != 3 || box[2] != 1 || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ||
      !FaultOf(map).empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memset(to, 0, sizeof *to);
  std::memcpy(to, &map, sizeof map);
  return CUDA_SUCCESS;
}

gpu::DriverTable Driver() {
  gpu::DriverTable driver;
  driver.cuTensorMapEncodeTiled = Encode;
  driver.cuGetErrorName = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_INVALID_VALUE";
    return CUDA_SUCCESS;
  };
  return driver;
}

// One grid after another on the same memory: what a grid writes is locked
// until the next one has waited for it.
class Stream {
 public:
  Stream(std::vector<GlobalBlock*> blocks, uint64_t seed, Reports& reports)
      : blocks_(std::move(blocks)), seed_(seed), reports_(reports) {}

  void Run(int ctas, int threads, int shared_bytes,
           const std::function<void()>& kernel,
           std::span<const char> maps_in_memory = {}, int cluster = 1,
           bool in_order = false) {
    for (GlobalBlock* block : blocks_) block->Lock();
    Launch launch = {.ctas = ctas,
                     .cluster = cluster,
                     .threads = threads,
                     .shared_bytes = shared_bytes,
                     .seed = seed_,
                     .in_order = in_order};
    launch.dependencies = [this] { Unlock(); };
    launch.maps_in_memory = maps_in_memory;
    RunGrid(launch, kernel, reports_);
    Unlock();
  }

 private:
  void Unlock() {
    for (GlobalBlock* block : blocks_) block->Unlock();
  }

  const std::vector<GlobalBlock*> blocks_;
  const uint64_t seed_;
  Reports& reports_;
};

// The operand in the form that the plan reads: `stored` itself, or derived.
absl::StatusOr<std::unique_ptr<GlobalBlock>> Derive(
    const jit::MatrixLayout& layout, jit::Form form, const Module* module,
    GlobalBlock& stored, uint64_t seed, Reports& reports) {
  if (form == jit::Form::kStored) return nullptr;
  const jit::MatrixLayout to = jit::FormLayout(layout, form);
  auto derived =
      std::make_unique<GlobalBlock>(static_cast<size_t>(to.device_bytes()));
  std::memset(derived->data(), 0xff, derived->size());
  jit::PrepareLaunch launch = jit::PrepareLaunchOf(layout, form);
  launch.arguments.from =
      static_cast<const char*>(stored.data()) + launch.from_offset;
  launch.arguments.to = derived->data();
  const auto kernel = module->Kernel<PrepareArguments>(jit::kKernelSymbol);
  if (kernel == nullptr) return absl::InternalError("no kernel");
  Stream({&stored, derived.get()}, seed, reports)
      .Run(launch.grid, kPrepareThreads, 0, [&] { kernel(launch.arguments); });
  return derived;
}

absl::StatusOr<std::unique_ptr<Module>> CompileForm(
    const std::string& name, jit::Form form, jit::DataType type,
    const std::string& templates) {
  if (form == jit::Form::kStored) return nullptr;
  ASSIGN_OR_RETURN(const std::string source, HostPrepareSource(form, type));
  return Module::Compile(name, source, templates);
}

bool IsTranscendental(jit::Activation activation) {
  return activation != jit::Activation::kNone &&
         activation != jit::Activation::kRelu;
}

std::vector<std::string> Compare(const jit::Problem& problem,
                                 const Operands& operands) {
  const Operands::Results expected = operands.Expected(problem);
  // The activations' last bits are the library's; D may be as coarse as fp8.
  const double tolerance = !IsTranscendental(problem.epilogue.activation) ? 0
                           : problem.d_type == jit::DataType::kF32        ? 1e-5
                                                                   : 0.13;
  std::vector<std::string> faults;
  const auto compare = [&](const std::string& what, double tolerance,
                           const GlobalBlock& is, const std::string& should) {
    const std::string difference =
        Difference(what, problem.d(), tolerance, is.data(), should);
    if (!difference.empty()) faults.push_back(difference);
  };
  compare("D", tolerance, operands.d, expected.d);
  if (!faults.empty()) {
    const std::string why = Explain(problem, operands, expected.d);
    if (!why.empty()) absl::StrAppend(&faults.back(), "; ", why);
  }
  if (problem.epilogue.writes_auxiliary) {
    compare("auxiliary output", 0, operands.auxiliary, expected.auxiliary);
  }
  if (problem.epilogue.measures_amax) {
    float amax;
    std::memcpy(&amax, operands.amax.data(), sizeof amax);
    if (!(std::abs(amax - expected.amax) <= tolerance * expected.amax)) {
      faults.push_back(
          absl::StrCat("wrong amax: ", amax, ", should be ", expected.amax));
    }
  }
  return faults;
}

}  // namespace

absl::StatusOr<Kernels> CompileCase(const Case& c,
                                    const std::string& templates) {
  const jit::Problem& problem = c.problems[0];
  const jit::Plan plan = c.PlanFor(problem);
  Kernels kernels;
  ASSIGN_OR_RETURN(const std::string source,
                   HostSource(plan.family, plan.config));
  ASSIGN_OR_RETURN(kernels.product, Module::Compile(c.name, source, templates));
  ASSIGN_OR_RETURN(kernels.a_form, CompileForm(c.name + "_a", plan.a_form,
                                               problem.a_type, templates));
  ASSIGN_OR_RETURN(kernels.b_form, CompileForm(c.name + "_b", plan.b_form,
                                               problem.b_type, templates));
  return kernels;
}

namespace {

// A product: its matrices, and its launch.
struct Product {
  Product(const jit::Problem& problem, const jit::Plan& plan, uint64_t seed)
      : problem(problem),
        plan(plan),
        operands(problem, plan, seed),
        partials(static_cast<size_t>(plan.partials_bytes)),
        pass_flags(static_cast<size_t>(jit::PassFlagsBytes(plan))),
        line_bits(static_cast<size_t>(plan.line_bits_bytes)) {
    std::memset(partials.data(), Operands::kUnwritten, partials.size());
    std::memset(pass_flags.data(), 0, pass_flags.size());
    std::memset(line_bits.data(), Operands::kUnwritten, line_bits.size());
  }

  std::vector<GlobalBlock*> blocks() {
    std::vector<GlobalBlock*> blocks = operands.blocks();
    blocks.push_back(&partials);
    blocks.push_back(&pass_flags);
    blocks.push_back(&line_bits);
    if (a) blocks.push_back(a.get());
    if (b) blocks.push_back(b.get());
    return blocks;
  }

  const jit::Problem problem;
  const jit::Plan plan;
  Operands operands;
  std::unique_ptr<GlobalBlock> a, b;  // Forms that were derived.
  GlobalBlock partials, pass_flags, line_bits;
  gpu::PreparedLaunch launch;
};

absl::StatusOr<std::unique_ptr<Product>> MakeProduct(
    const Case& c, const Kernels& kernels, const jit::Problem& problem,
    uint64_t seed, Reports& reports) {
  auto product = std::make_unique<Product>(problem, c.PlanFor(problem), seed);
  Operands& operands = product->operands;
  if (c.in_place) {
    if (problem.c() != problem.d()) {
      return absl::InvalidArgumentError("C does not lie as D does");
    }
    std::memcpy(operands.d.data(), operands.c.data(), operands.d.size());
  }
  const jit::Plan& plan = product->plan;
  ASSIGN_OR_RETURN(product->a,
                   Derive(problem.a(), plan.a_form, kernels.a_form.get(),
                          operands.a, seed, reports));
  ASSIGN_OR_RETURN(product->b,
                   Derive(problem.b(), plan.b_form, kernels.b_form.get(),
                          operands.b, seed, reports));
  const auto& [a, b] = std::tie(product->a, product->b);
  // Metadata stand beside what is stored, other forms in its stead.
  const bool a_sparse = problem.sparse == jit::Sparse::kA;
  const bool b_sparse = problem.sparse == jit::Sparse::kB;
  const gpu::LaunchMemory memory = {
      .a = Address(a && !a_sparse ? *a : operands.a),
      .b = Address(b && !b_sparse ? *b : operands.b),
      .metadata = a_sparse && a   ? Address(*a)
                  : b_sparse && b ? Address(*b)
                                  : CUdeviceptr{0},
      .c = Address(c.in_place ? operands.d : operands.c),
      .d = Address(operands.d),
      .partials = Address(product->partials),
      .pass_flags = Address(product->pass_flags),
      .bias = Address(operands.bias),
      .a_scale = Address(operands.a_scale),
      .b_scale = Address(operands.b_scale),
      .d_scale = Address(operands.d_scale),
      .auxiliary = Address(operands.auxiliary),
      .amax = Address(operands.amax),
      .line_bits = Address(product->line_bits)};
  ASSIGN_OR_RETURN(product->launch,
                   gpu::PrepareLaunch(Driver(), problem, plan, {}, memory));
  return product;
}

absl::Status RunAlone(const Kernels& kernels, Product& product, uint64_t seed,
                      Reports& reports) {
  Stream stream(product.blocks(), seed, reports);
  const gpu::PreparedLaunch& launch = product.launch;
  if (launch.line_bits_grid != 0) {
    const auto kernel =
        kernels.product->Kernel<LineBitsArguments>(jit::kLineBitsSymbol);
    if (kernel == nullptr) return absl::InternalError("nothing counts bits");
    stream.Run(launch.line_bits_grid, kLineBitsThreads, 0,
               [&] { kernel(launch.line_bits_arguments); });
  }
  if (launch.grid != 0) {
    const auto kernel = kernels.product->Kernel<Arguments>(jit::kKernelSymbol);
    if (kernel == nullptr) return absl::InternalError("no kernel");
    stream.Run(
        launch.grid, launch.threads, launch.shared_memory_bytes,
        [&] { kernel(launch.arguments); }, {}, launch.cluster,
        product.plan.balanced_units != 0);
    const char* const flags =
        static_cast<const char*>(product.pass_flags.data());
    if (std::any_of(flags, flags + product.pass_flags.size(),
                    std::identity())) {
      reports.Add("flag left raised", "behind the launch");
    }
  }
  if (launch.reduce_grid != 0 && reports.empty()) {
    const auto kernel =
        kernels.product->Kernel<ReduceArguments>(jit::kReduceSymbol);
    if (kernel == nullptr) return absl::InternalError("no reduction");
    stream.Run(launch.reduce_grid, kReduceThreads, 0,
               [&] { kernel(launch.reduce_arguments); });
  }
  return absl::OkStatus();
}

absl::Status RunTogether(const Case& c, const Kernels& kernels,
                         absl::Span<const std::unique_ptr<Product>> products,
                         uint64_t seed, Reports& reports) {
  std::vector<GlobalBlock*> blocks;
  std::vector<gpu::PreparedLaunch> launches;
  for (const auto& product : products) {
    for (GlobalBlock* block : product->blocks()) blocks.push_back(block);
    launches.push_back(product->launch);
  }
  gpu::PreparedGroup group = gpu::Group(launches);
  GlobalBlock table(group.products.size() * sizeof(Arguments));
  blocks.push_back(&table);
  std::memcpy(table.data(), group.products.data(), table.size());
  group.arguments.products = reinterpret_cast<const Arguments*>(table.data());
  const auto kernel =
      kernels.product->Kernel<GroupedArguments>(jit::kKernelSymbol);
  if (kernel == nullptr) return absl::InternalError("no kernel");
  Stream(blocks, seed, reports)
      .Run(std::min(group.arguments.units, c.multiprocessors), group.threads,
           group.shared_memory_bytes, [&] { kernel(group.arguments); },
           {table.data(), table.size()});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> RunLaunch(
    const Case& c, const Kernels& kernels,
    absl::Span<const jit::Problem> problems, uint64_t seed) {
  Reports reports;
  std::vector<std::unique_ptr<Product>> products;
  for (const jit::Problem& problem : problems) {
    ASSIGN_OR_RETURN(products.emplace_back(),
                     MakeProduct(c, kernels, problem, seed, reports));
  }
  RETURN_IF_ERROR(c.config.grouped
                      ? RunTogether(c, kernels, products, seed, reports)
                      : RunAlone(kernels, *products[0], seed, reports));
  std::vector<std::string> faults = reports.texts();
  for (const auto& product : products) {
    for (std::string& fault : Compare(product->problem, product->operands)) {
      faults.push_back(std::move(fault));
    }
  }
  return faults;
}

}  // namespace gemmd::emulator
