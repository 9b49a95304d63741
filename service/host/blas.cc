#include "service/host/blas.h"

// Exported, as what OpenBLAS does itself before a fork; not in its header.
extern "C" int blas_thread_shutdown_();

namespace gemmd::host {

void CallBlasOnOneThread() {
  [[maybe_unused]] static const bool once = [] {
    openblas_set_num_threads(1);
    blas_thread_shutdown_();
    return true;
  }();
}

}  // namespace gemmd::host
