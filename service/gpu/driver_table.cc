#include "service/gpu/driver_table.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {

// One level of indirection, so that cuda.h's mapping is applied first.
#define GEMMD_SYMBOL_TEXT(symbol) #symbol
#define GEMMD_SYMBOL(function) GEMMD_SYMBOL_TEXT(function)

absl::StatusOr<std::shared_ptr<const DriverTable>> LoadDriver(
    const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("The CUDA driver ", library, " cannot be opened (",
                     dlerror(), "); a GPU needs the NVIDIA driver installed"));
  }
  auto table = std::make_shared<DriverTable>();
#define GEMMD_RESOLVE(function)                                              \
  table->function = reinterpret_cast<decltype(table->function)>(             \
      dlsym(handle, GEMMD_SYMBOL(function)));                                \
  if (table->function == nullptr) {                                          \
    return absl::FailedPreconditionError(                                    \
        absl::StrCat("The CUDA driver ", library, " lacks ",                 \
                     GEMMD_SYMBOL(function), "; a newer driver is needed")); \
  }
  GEMMD_DRIVER_FUNCTIONS(GEMMD_RESOLVE)
#undef GEMMD_RESOLVE
  RETURN_IF_CUDA_ERROR(*table, cuInit(0));
  return table;
}

}  // namespace gemmd::gpu
