// A compiled instance: what a cubin is to a GPU. Thread-safe once loaded.
#ifndef GEMMD_TESTS_EMULATOR_MODULE_H_
#define GEMMD_TESTS_EMULATOR_MODULE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace gemmd::emulator {

class Module {
 public:
  // Compiles `source` (host_source.h) with the compiler of this build and
  // loads it. `templates` is the folder of the templates; empty takes the
  // project's. The source stays in the build folder, as instances/NAME.*.cc.
  // INTERNAL with the compiler's words.
  static absl::StatusOr<std::unique_ptr<Module>> Compile(
      const std::string& name, const std::string& source,
      const std::string& templates = "");
  ~Module();

  // A kernel by its symbol, or null.
  template <typename Argument>
  auto Kernel(const char* symbol) const -> void (*)(Argument) {
    return reinterpret_cast<void (*)(Argument)>(Symbol(symbol));
  }

 private:
  explicit Module(void* handle) : handle_(handle) {}
  void* Symbol(const char* symbol) const;

  void* const handle_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MODULE_H_
