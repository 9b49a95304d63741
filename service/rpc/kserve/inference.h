// What a request for a model asks, as a request of our own: the one of
// MatmulService, which is then validated and run as all of those are.
#ifndef GEMMD_SERVICE_RPC_KSERVE_INFERENCE_H_
#define GEMMD_SERVICE_RPC_KSERVE_INFERENCE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "service/models/model.h"
#include "service/rpc/kserve/infer_request.h"
#include "service/rpc/matmul_request.h"

namespace gemmd::rpc::kserve {

inline constexpr char kA[] = "A";
inline constexpr char kB[] = "B";
inline constexpr char kC[] = "C";
inline constexpr char kBias[] = "BIAS";
inline constexpr char kAScale[] = "A_SCALE";
inline constexpr char kBScale[] = "B_SCALE";
inline constexpr char kD[] = "D";

struct Inference {
  MatmulFields fields;
  BoundTensors bound;  // That the header names.
  Dimensions shape;    // Of D, which is row-major.
  jit::DataType type = jit::DataType::kF32;
  int64_t repeated_bytes = 0;  // Of lists of pieces that are repeated.
};

// Takes the data of the inputs. Operands that are repeated for a batch have at
// most `max_bytes` with that. INVALID_ARGUMENT names what is wrong.
absl::StatusOr<Inference> ToInference(InferRequest& request,
                                      const models::Model& model,
                                      int64_t max_bytes);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_INFERENCE_H_
