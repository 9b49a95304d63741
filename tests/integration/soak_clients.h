// Honest clients of every kind, for the soak. Each works in a loop on a
// connection and a thread of its own and keeps what it saw.
#ifndef GEMMD_TESTS_INTEGRATION_SOAK_CLIENTS_H_
#define GEMMD_TESTS_INTEGRATION_SOAK_CLIENTS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace gemmd::testing {

// A channel that shares its connection with no other.
std::shared_ptr<grpc::Channel> OwnChannel(const std::string& address);

// One round of work whose answer is known. OK, what the daemon said, or
// DATA_LOSS for a wrong answer.
using Work = grpc::Status (*)(const std::shared_ptr<grpc::Channel>& channel);

struct NamedWork {
  const char* name;
  Work work;
};
// Small and large inline products; a tensor's life from creation to deletion;
// questions that need no product.
const std::vector<NamedWork>& AllHonestWork();

struct Record {
  std::vector<double> seconds;        // Of each round, in order.
  std::vector<std::string> failures;  // Of those that went wrong.
};

// The value that a share `q` of `values` does not exceed; 0 when empty.
double Quantile(std::vector<double> values, double q);

class HonestClient {
 public:
  HonestClient(NamedWork work, const std::string& address);
  ~HonestClient();

  const char* name() const { return work_.name; }
  // What was seen since the last call.
  Record Take();
  // Whether Take has a round to give.
  bool has_record();

 private:
  void Run(const std::string& address);

  const NamedWork work_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  Record record_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_SOAK_CLIENTS_H_
