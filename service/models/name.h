// Names of models. Pure functions.
#ifndef GEMMD_SERVICE_MODELS_NAME_H_
#define GEMMD_SERVICE_MODELS_NAME_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd::models {

// INVALID_ARGUMENT unless a model may have it: 1 to 64 letters, digits and
// "_.-", the first no ".", and not "matmul".
absl::Status CheckName(absl::string_view name);

}  // namespace gemmd::models

#endif  // GEMMD_SERVICE_MODELS_NAME_H_
