#include "jit/source/instance.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/plan/tiling.h"

namespace gemmd::jit {
namespace {

std::vector<std::string> Options() {
  return {"--gpu-architecture=sm_90a", "--std=c++20",
          // Templates carry no __device__: a host compiler may take them.
          "--device-as-default-execution-space"};
}

absl::string_view ElementName(DataType type) {
  switch (type) {
    case DataType::kBf16:
      return "BFloat16";
    case DataType::kF16:
      return "Float16";
    case DataType::kF32:
      return "float";
    default:
      CHECK(false);
  }
}

absl::string_view MajorName(Major major) {
  return major == Major::kK ? "Major::kK" : "Major::kMn";
}

std::string ConfigSource(const Family& family, const Config& config) {
  const auto integer = [](absl::string_view name, int value) {
    return absl::StrCat("  static constexpr int ", name, " = ", value, ";\n");
  };
  const auto choice = [](absl::string_view type, absl::string_view name,
                         absl::string_view value) {
    return absl::StrCat("  static constexpr ", type, " ", name, " = ", value,
                        ";\n");
  };
  return absl::StrCat(
      "struct Config {\n",                                     //
      "  using Input = ", ElementName(family.input), ";\n",    //
      "  using Output = ", ElementName(family.output), ";\n",  //
      choice("Major", "kXMajor", MajorName(family.x_major)),   //
      choice("Major", "kYMajor", MajorName(family.y_major)),   //
      choice("Store", "kStore",
             family.store == Store::kTransposed ? "Store::kTransposed"
                                                : "Store::kNormal"),
      choice("bool", "kReadsC", family.reads_c ? "true" : "false"),
      choice("bool", "kSplitK", config.split_k ? "true" : "false"),
      choice("Schedule", "kSchedule",
             config.schedule == Schedule::kPingPong ? "Schedule::kPingPong"
                                                    : "Schedule::kCooperative"),
      integer("kTileM", config.tile_m), integer("kTileN", config.tile_n),
      integer("kTileK", config.tile_k), integer("kStages", config.stages),
      integer("kConsumers", config.consumers),
      integer("kSharedMemoryBytes", SharedMemoryBytes(family, config)), "};\n");
}

}  // namespace

absl::StatusOr<Instance> MakeInstance(const TemplateLibrary& templates,
                                      const Family& family,
                                      const Config& config) {
  ASSIGN_OR_RETURN(
      std::string source,
      templates.Expand(absl::StrCat(
          "#include \"common/types.h\"\n\nnamespace gemmd {\n\n",
          ConfigSource(family, config), "\n}  // namespace gemmd\n\n",
          "#include \"kernels/gemm.cu\"\n",
          config.split_k ? "#include \"kernels/reduce.cu\"\n" : "")));
  return Instance{.name = KernelName(family, config),
                  .source = std::move(source),
                  .options = Options()};
}

absl::StatusOr<Instance> MakeRepitchInstance(const TemplateLibrary& templates) {
  ASSIGN_OR_RETURN(std::string source,
                   templates.Expand("#include \"kernels/repitch.cu\"\n"));
  return Instance{
      .name = "repitch", .source = std::move(source), .options = Options()};
}

absl::StatusOr<Instance> MakePrepareInstance(const TemplateLibrary& templates,
                                             Form form, DataType type) {
  std::string name = "split";
  std::string text = "#include \"kernels/prepare/split.cu\"\n";
  if (form == Form::kTransposed) {
    name = absl::StrCat("transpose_", BitsOf(type));
    text = absl::StrCat(
        "namespace gemmd {\n\nstruct Config {\n"
        "  static constexpr int kBits = ",
        BitsOf(type), ";\n};\n\n}  // namespace gemmd\n\n",
        "#include \"kernels/prepare/transpose.cu\"\n");
  }
  ASSIGN_OR_RETURN(std::string source, templates.Expand(text));
  return Instance{.name = std::move(name),
                  .source = std::move(source),
                  .options = Options()};
}

}  // namespace gemmd::jit
