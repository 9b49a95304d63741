#include "tests/jit/fake_compiler.h"

#include <stdlib.h>

#include <filesystem>

#include "jit/base/status.h"
#include "jit/cache/cache_key.h"

namespace gemmd::jit {
CompiledKernel FakeKernel(const std::string& source) {
  CompiledKernel kernel;
  kernel.name = "fake";
  kernel.source = source;
  kernel.options = {"--gpu-architecture=sm_90a", "--std=c++20"};
  kernel.compiler = "fake 1.0";
  kernel.key = CacheKey(kernel.source, kernel.options, kernel.compiler);
  kernel.log = FakeLog();
  kernel.cubin = FakeCubin();
  kernel.registers = 42;
  kernel.static_shared_memory_bytes = 1024;
  kernel.compile_ms = 250;
  kernel.provenance = "test";
  return kernel;
}

TemporaryDirectory::TemporaryDirectory(const std::string& parent) {
  const std::filesystem::path folder =
      parent.empty() ? std::filesystem::temp_directory_path()
                     : std::filesystem::path(parent);
  std::string pattern = folder / "gemmd_test_XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(path_, error)) {
    if (entry.is_directory(error)) {
      std::filesystem::permissions(entry.path(),
                                   std::filesystem::perms::owner_all, error);
    }
  }
  std::filesystem::remove_all(path_, error);
}

}  // namespace gemmd::jit
