// Whether files of certificates and keys are what TLS takes them for. gRPC does
// not say: with one that is wrong it knows no address. Pure functions, whose
// errors are INVALID_ARGUMENT and go on with a sentence: "holds no ...".
#ifndef GEMMD_CLIENTS_CPP_PEM_H_
#define GEMMD_CLIENTS_CPP_PEM_H_

#include <string>

#include "absl/status/status.h"

namespace gemmd::client {

// One or more of them, each whole.
absl::Status CheckCertificates(const std::string& pem);

// A key that needs no password.
absl::Status CheckKey(const std::string& pem);

// Both of which are right: whether the key is that of the first certificate.
absl::Status CheckPair(const std::string& certificates, const std::string& key);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_PEM_H_
