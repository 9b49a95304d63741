// OpenBLAS, as the host device calls it: each call works on the thread that
// makes it. Its own threads would spin for a tenth of a second after every
// product, and after it is loaded. Thread-safe.
#ifndef GEMMD_SERVICE_HOST_BLAS_H_
#define GEMMD_SERVICE_HOST_BLAS_H_

#include <cblas.h>

namespace gemmd::host {

// Before the first product; ends the threads that are there.
void CallBlasOnOneThread();

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_BLAS_H_
