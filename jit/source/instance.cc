#include "jit/source/instance.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"
#include "jit/plan/tiling.h"
#include "jit/source/wgmma_source.h"

namespace gemmd::jit {
namespace {

std::vector<std::string> Options() {
  return {"--gpu-architecture=sm_90a", "--std=c++20",
          // Templates carry no __device__: a host compiler may take them.
          "--device-as-default-execution-space",
          // Every operation of an epilogue rounds, as on every other device.
          "--fmad=false"};
}

// The type of an element in the templates; operands of b1 travel in bytes.
absl::string_view ElementName(DataType type) {
  switch (type) {
    case DataType::kBf16:
      return "BFloat16";
    case DataType::kF16:
      return "Float16";
    case DataType::kF32:
      return "float";
    case DataType::kS32:
      return "int";
    case DataType::kE4m3:
      return "E4m3";
    case DataType::kE5m2:
      return "E5m2";
    case DataType::kS8:
      return "S8";
    case DataType::kU8:
      return "U8";
    case DataType::kS4:
      return "S4";
    case DataType::kU4:
      return "U4";
    case DataType::kB1:
      return "EightBits";
  }
  return "invalid";
}

absl::string_view MajorName(Major major) {
  return major == Major::kK ? "Major::kK" : "Major::kMn";
}

absl::string_view ScheduleName(Schedule schedule) {
  switch (schedule) {
    case Schedule::kCooperative:
      return "Schedule::kCooperative";
    case Schedule::kPingPong:
      return "Schedule::kPingPong";
    case Schedule::kInterleaved:
      break;
  }
  return "Schedule::kInterleaved";
}

absl::string_view StoreName(Store store) {
  return store == Store::kTransposed ? "Store::kTransposed" : "Store::kNormal";
}

std::string ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return "Relu";
    case Activation::kGeluErf:
      return "GeluErf";
    case Activation::kGeluTanh:
      return "GeluTanh";
    case Activation::kSilu:
      return "Silu";
    case Activation::kNone:
      break;
  }
  return "";
}

// A step of the epilogue: its type and the file that defines it.
struct Step {
  std::string type;
  absl::string_view file;
};

// The steps before and after the auxiliary output.
struct StepLists {
  std::vector<Step> before, after;
};

StepLists StepsOf(const Family& family, const Config& config) {
  const TileEpilogue& epilogue = family.epilogue;
  const auto side = [](absl::string_view step, Side side) {
    return absl::StrCat(
        step, "<Side::", side == Side::kRows ? "kRows" : "kColumns", ">");
  };
  StepLists steps;
  auto& before = steps.before;
  if (epilogue.reads_c && !StagesC(family, config)) {
    before.push_back({absl::StrCat("LoadC<", StoreName(epilogue.store), ", ",
                                   ElementName(epilogue.c), ">"),
                      "load_c"});
  }
  if (epilogue.output == DataType::kS32) {
    if (!epilogue.reads_c) return steps;
    const bool clamps = family.instruction.clamps;
    before.push_back({clamps ? "Combine<true>" : "Combine<false>", "combine"});
    return steps;
  }
  std::vector<std::string> scales;
  for (const auto& [extent, of] :
       {std::pair{epilogue.row_scale, Side::kRows},
        std::pair{epilogue.column_scale, Side::kColumns}}) {
    if (extent == Extent::kNone) continue;
    scales.push_back(
        side(extent == Extent::kTensor ? "OneForAll" : "EachOf", of));
  }
  if (!scales.empty()) {
    before.push_back(
        {absl::StrCat("Scale<", absl::StrJoin(scales, ", "), ">"), "scale"});
  }
  if (epilogue.alpha) before.push_back({"Alpha", "alpha"});
  if (epilogue.reads_c) before.push_back({"AddC", "add_c"});
  if (epilogue.bias != Side::kNone) {
    before.push_back({side("Bias", epilogue.bias), "bias"});
  }
  if (epilogue.activation != Activation::kNone) {
    steps.after.push_back({ActivationName(epilogue.activation), "activations"});
  }
  if (epilogue.amax) steps.after.push_back({"Amax", "amax"});
  if (epilogue.scales_output) {
    steps.after.push_back({"OutputScale", "output_scale"});
  }
  return steps;
}

std::string ListSource(const std::vector<Step>& steps) {
  return absl::StrCat("Steps<",
                      absl::StrJoin(steps, ", ",
                                    [](std::string* out, const Step& step) {
                                      out->append(step.type);
                                    }),
                      ">");
}

std::string StepIncludes(const StepLists& steps) {
  std::string includes = "#include \"epilogue/steps/step.h\"\n";
  for (const auto* list : {&steps.before, &steps.after}) {
    for (const Step& step : *list) {
      absl::StrAppend(&includes, "#include \"epilogue/steps/", step.file,
                      ".h\"\n");
    }
  }
  return includes;
}

std::string ConfigSource(const Family& family, const Config& config,
                         const StepLists& steps) {
  const auto type = [](absl::string_view name, absl::string_view value) {
    return absl::StrCat("  using ", name, " = ", value, ";\n");
  };
  const auto constant = [](absl::string_view type, absl::string_view name,
                           const absl::AlphaNum& value) {
    return absl::StrCat("  static constexpr ", type, " ", name, " = ", value,
                        ";\n");
  };
  const auto boolean = [&](absl::string_view name, bool value) {
    return constant("bool", name, value ? "true" : "false");
  };
  const TileEpilogue& epilogue = family.epilogue;
  const Widening widening =
      family.widening.value_or(Widening{.from = family.instruction.x});
  const bool integers = family.instruction.accumulator == DataType::kS32;
  return absl::StrCat(
      "struct Config {\n",                                        //
      type("XElement", ElementName(family.instruction.x)),        //
      type("Weight", ElementName(widening.from)),                 //
      type("YElement", ElementName(family.instruction.y)),        //
      type("Sum", integers ? "int" : "float"),                    //
      type("Output", ElementName(epilogue.output)),               //
      type("Value",                                               //
           epilogue.output == DataType::kS32 ? "int" : "float"),  //
      type("Before", ListSource(steps.before)),                   //
      type("After", ListSource(steps.after)),                     //
      constant("Major", "kXMajor", MajorName(family.x_major)),    //
      constant("Major", "kYMajor", MajorName(family.y_major)),    //
      constant("Store", "kStore", StoreName(epilogue.store)),     //
      boolean("kSparse", family.instruction.sparse),              //
      boolean("kPromoted", family.sum != Summation::kDirect),
      boolean("kBlockScaled", family.sum == Summation::kBlockScaled),    //
      boolean("kStagesC", StagesC(family, config)),                      //
      boolean("kAuxiliary", epilogue.auxiliary),                         //
      boolean("kExclusiveOr", epilogue.exclusive_or),                    //
      boolean("kSplitK", config.split_k),                                //
      boolean("kManySteps", HasManySteps(family, config)),               //
      constant("Schedule", "kSchedule", ScheduleName(config.schedule)),  //
      boolean("kZeroPoints", widening.zero_points),                      //
      boolean("kGrouped", config.grouped),                               //
      boolean("kBalanced", config.balanced),                             //
      constant("int", "kStageGroups", widening.stage_groups),            //
      constant("int", "kCluster", config.cluster),                       //
      constant("int", "kMulticast", config.multicast),                   //
      constant("int", "kTileM", config.tile_m),                          //
      constant("int", "kTileN", config.tile_n),                          //
      constant("int", "kStages", config.stages),                         //
      constant("int", "kSlabBuffers", SlabBuffers(family, config)),      //
      constant("int", "kConsumers", config.consumers),                   //
      constant("int", "kGroupsInFlight", config.groups_in_flight),       //
      constant("int", "kSharedMemoryBytes",                              //
               SharedMemoryBytes(family, config)),
      "};\n");
}

}  // namespace

absl::StatusOr<Instance> MakeInstance(const TemplateLibrary& templates,
                                      const Family& family,
                                      const Config& config) {
  const StepLists steps = StepsOf(family, config);
  ASSIGN_OR_RETURN(
      std::string source,
      templates.Expand(absl::StrCat(
          "#include \"common/types.h\"\n", StepIncludes(steps),
          "\nnamespace gemmd {\n\n", ConfigSource(family, config, steps),
          "\n}  // namespace gemmd\n\nnamespace gemmd::ptx {\n\n",
          WgmmaSource(family, config.tile_n),
          "\n}  // namespace gemmd::ptx\n\n", "#include \"kernels/gemm.cu\"\n",
          config.split_k ? "#include \"kernels/reduce.cu\"\n" : "",
          family.epilogue.exclusive_or ? "#include \"kernels/line_bits.cu\"\n"
                                       : "")));
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
  if (form != Form::kSplit) {
    const absl::string_view kernel = form == Form::kTransposed ? "transpose"
                                     : form == Form::kMetadata ? "metadata"
                                                               : "fragments";
    name = absl::StrCat(kernel, "_", BitsOf(type));
    text = absl::StrCat(
        "namespace gemmd {\n\nstruct Config {\n"
        "  static constexpr int kBits = ",
        BitsOf(type), ";\n};\n\n}  // namespace gemmd\n\n",
        "#include \"kernels/prepare/", kernel, ".cu\"\n");
  }
  ASSIGN_OR_RETURN(std::string source, templates.Expand(text));
  return Instance{.name = std::move(name),
                  .source = std::move(source),
                  .options = Options()};
}

}  // namespace gemmd::jit
