// gRPC's and protobuf's headers, which are most of what this folder compiles.
#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>

#include "gemmd/v1/kernels.pb.h"
#include "gemmd/v1/matmul.pb.h"
#include "gemmd/v1/server.pb.h"
#include "gemmd/v1/tensors.pb.h"
