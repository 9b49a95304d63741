// The sequence that tests begin with.
#ifndef GEMMD_TESTS_INTEGRATION_SEQUENCE_CHAIN_H_
#define GEMMD_TESTS_INTEGRATION_SEQUENCE_CHAIN_H_

#include <string>

#include "gemmd/v1/matmul.pb.h"
#include "tests/integration/test_server.h"

namespace gemmd::testing {

// h = 4 x 4 of ones times twos (8), y = h times twos (64), of bf16.
inline v1::SequenceRequest Chain() {
  v1::SequenceRequest request;
  const v1::MatmulRequest product = OnesTimesTwos(4, 4, 4);
  const auto add = [&](const char* name, const std::string& data) {
    v1::SequenceOperand& operand = *request.add_operands();
    operand.set_name(name);
    operand.set_data(data);
  };
  add("ones", product.a());
  add("twos", product.b());
  for (int i = 0; i < 2; ++i) {
    v1::MatmulHeader& step = *request.add_steps();
    *step.mutable_problem() = product.header().problem();
    step.mutable_problem()->set_d_type(v1::DATA_TYPE_BF16);
    step.mutable_problem()->set_c_type(v1::DATA_TYPE_BF16);
    step.mutable_a()->set_name(i == 0 ? "ones" : "h");
    step.mutable_b()->set_name("twos");
  }
  request.mutable_steps(0)->mutable_d()->set_name("h");
  return request;
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_SEQUENCE_CHAIN_H_
