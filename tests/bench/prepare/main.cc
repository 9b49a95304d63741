// prepare_bench: derives every form on a GPU through a lane, as the daemon
// does, compares all elements with the host's, and times the kernels. Exits
// with 1 when an element is wrong.
#include <algorithm>
#include <cstdio>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/plan/form.h"
#include "jit/source/instance.h"
#include "service/gpu/cuda_device.h"
#include "service/gpu/launch.h"
#include "service/gpu/module.h"
#include "tests/bench/prepare/reference.h"
#include "tests/bench/timer.h"

ABSL_FLAG(std::string, nvrtc, "", "libnvrtc or its folder; empty: search");
ABSL_FLAG(std::string, template_dir, "", "templates instead of those built in");
ABSL_FLAG(int, samples, 7, "bursts of which the median is taken");

namespace gemmd::bench {
namespace {

struct FormCase {
  const char* name;
  jit::Form form;
  jit::DataType type;
};

constexpr FormCase kForms[] = {
    {"transpose 8", jit::Form::kTransposed, jit::DataType::kS8},
    {"transpose 32", jit::Form::kTransposed, jit::DataType::kF32},
    {"transpose 1", jit::Form::kTransposed, jit::DataType::kB1},
    {"split", jit::Form::kSplit, jit::DataType::kF32},
};

struct Shape {
  int64_t rows;
  int64_t columns;
};

constexpr Shape kChecked[] = {{1, 1},       {1, 1000},    {1000, 1},
                              {15, 17},     {128, 128},   {129, 1023},
                              {1000, 4097}, {4093, 4099}, {4096, 4096}};
constexpr Shape kTimed[] = {
    {8192, 8192}, {4096, 4096}, {4093, 4099}, {1024, 1024}, {256, 65536}};

jit::MatrixLayout LayoutOf(const FormCase& form, const Shape& shape) {
  return {form.type, jit::Order::kRowMajor, shape.rows, shape.columns};
}

absl::StatusOr<jit::TemplateLibrary> Templates() {
  const std::string path = absl::GetFlag(FLAGS_template_dir);
  if (path.empty()) return jit::TemplateLibrary::Embedded();
  return jit::TemplateLibrary::FromDirectory(path);
}

class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(
      gpu::CudaDevice& device) {
    ASSIGN_OR_RETURN(jit::TemplateLibrary templates, Templates());
    ASSIGN_OR_RETURN(
        auto compiler,
        jit::CreateNvrtcCompiler({.nvrtc_path = absl::GetFlag(FLAGS_nvrtc),
                                  .worker_program = "/proc/self/exe"}));
    ASSIGN_OR_RETURN(auto stream, gpu::Stream::Create(&device.context()));
    ASSIGN_OR_RETURN(
        Timer timer,
        Timer::Create(*stream, {.samples = absl::GetFlag(FLAGS_samples)}));
    return std::unique_ptr<Bench>(
        new Bench(device, std::move(templates), std::move(compiler),
                  std::move(stream), std::move(timer)));
  }

  // Elements of the form that differ from the host's, over all shapes.
  absl::StatusOr<int64_t> Check(const FormCase& form) {
    ASSIGN_OR_RETURN(const jit::CompiledKernel compiled, Compile(form));
    ASSIGN_OR_RETURN(const auto kernel, device_.Load(compiled, jit::Plan()));
    ASSIGN_OR_RETURN(const auto lane, device_.CreateLane());
    int64_t wrong = 0;
    for (const Shape& shape : kChecked) {
      const jit::MatrixLayout stored = LayoutOf(form, shape);
      const jit::MatrixLayout layout = jit::FormLayout(stored, form.form);
      const std::string bytes = RandomOperand(stored, form.form);
      const absl::Span<const char> piece = bytes;
      ASSIGN_OR_RETURN(const auto from, lane->Allocate(stored));
      ASSIGN_OR_RETURN(const auto to, lane->Allocate(layout));
      RETURN_IF_ERROR(lane->Upload({{&piece, 1}, stored.width_bytes()},
                                   {0, stored.lines()}, *from));
      RETURN_IF_ERROR(lane->Prepare(form.form, *kernel, *from, *to));
      ASSIGN_OR_RETURN(const auto got, lane->Download(*to, {0, layout.lines()},
                                                      layout.width_bytes()));
      wrong += Differences(form, shape, got->bytes(),
                           Reference(stored, form.form, bytes));
    }
    return wrong;
  }

  // Microseconds, with operands that do not fit into the L2 cache together.
  absl::Status Time(const FormCase& form) {
    ASSIGN_OR_RETURN(const jit::CompiledKernel compiled, Compile(form));
    ASSIGN_OR_RETURN(const gpu::Module module,
                     gpu::Module::Load(&device_.context(), compiled.cubin,
                                       jit::kKernelSymbol));
    for (const Shape& shape : kTimed) {
      const jit::MatrixLayout stored = LayoutOf(form, shape);
      ASSIGN_OR_RETURN(const double us, Time(form, stored, module));
      const int64_t moved = stored.device_bytes() +
                            jit::FormLayout(stored, form.form).device_bytes();
      absl::PrintF("%-12s %5dx%-6d %8.2f us  %5.2f TB/s\n", form.name,
                   shape.rows, shape.columns, us,
                   static_cast<double>(moved) / us * 1e-6);
    }
    return absl::OkStatus();
  }

 private:
  Bench(gpu::CudaDevice& device, jit::TemplateLibrary templates,
        std::unique_ptr<jit::Compiler> compiler,
        std::shared_ptr<gpu::Stream> stream, Timer timer)
      : device_(device),
        templates_(std::move(templates)),
        compiler_(std::move(compiler)),
        stream_(std::move(stream)),
        timer_(std::move(timer)) {}

  absl::StatusOr<jit::CompiledKernel> Compile(const FormCase& form) {
    ASSIGN_OR_RETURN(
        const jit::Instance instance,
        jit::MakePrepareInstance(templates_, form.form, form.type));
    ASSIGN_OR_RETURN(
        jit::CompileOutput output,
        compiler_->Compile(instance, absl::Now() + absl::Minutes(2)));
    jit::CompiledKernel compiled;
    compiled.name = instance.name;
    compiled.cubin = std::move(output.cubin);
    return compiled;
  }

  // Bytes that differ; says where the first one is.
  static int64_t Differences(const FormCase& form, const Shape& shape,
                             absl::Span<const char> got,
                             const std::string& expected) {
    int64_t count = 0;
    size_t first = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (got[i] != expected[i] && count++ == 0) first = i;
    }
    if (count > 0) {
      absl::PrintF("%s %dx%d: %d of %d bytes are wrong, the first at %d\n",
                   form.name, shape.rows, shape.columns, count, expected.size(),
                   first);
    }
    return count;
  }

  absl::StatusOr<double> Time(const FormCase& form,
                              const jit::MatrixLayout& stored,
                              const gpu::Module& module) {
    const jit::MatrixLayout layout = jit::FormLayout(stored, form.form);
    constexpr int64_t kRotatedBytes = int64_t{256} << 20;
    const int copies = static_cast<int>(std::clamp<int64_t>(
        kRotatedBytes / (stored.device_bytes() + layout.device_bytes()), 2,
        64));
    std::vector<gpu::DeviceBuffer> buffers;
    std::vector<jit::PrepareLaunch> launches;
    for (int i = 0; i < copies; ++i) {
      ASSIGN_OR_RETURN(
          gpu::DeviceBuffer from,
          device_.memory().Allocate(stream_, stored.device_bytes()));
      ASSIGN_OR_RETURN(
          gpu::DeviceBuffer to,
          device_.memory().Allocate(stream_, layout.device_bytes()));
      launches.push_back(jit::PrepareLaunchOf(stored, form.form));
      launches.back().arguments.from =
          reinterpret_cast<const void*>(from.get());
      launches.back().arguments.to = reinterpret_cast<void*>(to.get());
      buffers.push_back(std::move(from));
      buffers.push_back(std::move(to));
    }
    RETURN_IF_ERROR(stream_->Synchronize());
    const Contender contender = {form.name, [&](int i) {
                                   return gpu::EnqueuePrepare(
                                       launches[static_cast<size_t>(i)],
                                       module.function(), *stream_);
                                 }};
    ASSIGN_OR_RETURN(const Timer::Prepared prepared,
                     timer_.Prepare(contender, copies));
    const Timer::Prepared* const contenders[] = {&prepared};
    ASSIGN_OR_RETURN(const std::vector<double> us, timer_.Burst(contenders));
    return us[0];
  }

  gpu::CudaDevice& device_;
  const jit::TemplateLibrary templates_;
  const std::unique_ptr<jit::Compiler> compiler_;
  const std::shared_ptr<gpu::Stream> stream_;
  const Timer timer_;
};

absl::StatusOr<bool> Run() {
  ASSIGN_OR_RETURN(auto driver, gpu::LoadDriver());
  ASSIGN_OR_RETURN(const auto device,
                   gpu::CudaDevice::Open(std::move(driver), 0, {}));
  RETURN_IF_ERROR(device->context().MakeCurrent());
  ASSIGN_OR_RETURN(const auto bench, Bench::Create(*device));
  absl::PrintF("%s\n", device->description().product);
  bool right = true;
  for (const FormCase& form : kForms) {
    ASSIGN_OR_RETURN(const int64_t wrong, bench->Check(form));
    right = right && wrong == 0;
    absl::PrintF("%-12s %s\n", form.name, wrong == 0 ? "right" : "WRONG");
  }
  for (const FormCase& form : kForms) RETURN_IF_ERROR(bench->Time(form));
  return right;
}

}  // namespace
}  // namespace gemmd::bench

int main(int argc, char** argv) {
  if (auto code = gemmd::jit::RunIfCompileWorker(argc, argv)) return *code;
  absl::SetProgramUsageMessage("prepare_bench [--nvrtc PATH]");
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<bool> right = gemmd::bench::Run();
  if (!right.ok()) {
    absl::FPrintF(stderr, "prepare_bench: %s\n", right.status().ToString());
    return 1;
  }
  return *right ? 0 : 1;
}
