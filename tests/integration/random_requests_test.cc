// Requests of every method with fields that nobody means: the ends of their
// types, values that no enum has, bytes changed on the way. Each is answered as
// what it is, and the daemon is as it was.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using testing::OnesTimesTwos;
using testing::TestServer;

class RandomRequests {
 public:
  explicit RandomRequests(std::vector<std::string> texts)
      : texts_(std::move(texts)) {}

  size_t Below(size_t count) { return random_() % count; }

  void Fill(Message& message, int depth = 0) {
    const Descriptor& type = *message.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (Below(3) == 0 || field.is_map() || depth > 6) continue;
      const size_t count = field.is_repeated() ? 1 + Below(3) : 1;
      for (size_t k = 0; k < count; ++k) Set(message, field, depth);
    }
  }

  // Changes a bit here and there.
  void Damage(std::string& bytes) {
    for (char& byte : bytes) {
      if (Below(50) == 0) byte ^= static_cast<char>(1 << Below(8));
    }
  }

 private:
  int64_t Integer() {
    static constexpr int64_t kOdd[] = {-1,
                                       INT32_MAX,
                                       INT32_MIN,
                                       int64_t{1} << 32,
                                       int64_t{1} << 62,
                                       std::numeric_limits<int64_t>::max(),
                                       std::numeric_limits<int64_t>::min()};
    static constexpr int64_t kUsual[] = {0, 1, 2, 4, 8, 16, 64};
    return Below(5) == 0 ? kOdd[Below(std::size(kOdd))]
                         : kUsual[Below(std::size(kUsual))];
  }

  double Number() {
    using Limits = std::numeric_limits<double>;
    const double numbers[] = {0,
                              -0.0,
                              1,
                              -2,
                              Limits::infinity(),
                              Limits::quiet_NaN(),
                              Limits::denorm_min()};
    return numbers[Below(std::size(numbers))];
  }

  int Enumerator(const FieldDescriptor& field) {
    if (Below(20) == 0) return Below(2) == 0 ? -1 : 99;
    const auto& type = *field.enum_type();
    return type.value(static_cast<int>(Below(type.value_count())))->number();
  }

  std::string Text(const FieldDescriptor& field) {
    if (field.type() == FieldDescriptor::TYPE_STRING) {
      return texts_[Below(texts_.size())];
    }
    static constexpr size_t kSizes[] = {0, 1, 16, 128, 8192};
    return std::string(kSizes[Below(std::size(kSizes))], 'x');
  }

// Sets the field, or adds to it.
#define GEMMD_PUT(Type, value)                                        \
  field.is_repeated() ? reflection.Add##Type(&message, &field, value) \
                      : reflection.Set##Type(&message, &field, value)
  void Set(Message& message, const FieldDescriptor& field, int depth) {
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return GEMMD_PUT(Int32, static_cast<int32_t>(Integer()));
      case FieldDescriptor::CPPTYPE_INT64:
        return GEMMD_PUT(Int64, Integer());
      case FieldDescriptor::CPPTYPE_UINT32:
        return GEMMD_PUT(UInt32, static_cast<uint32_t>(Integer()));
      case FieldDescriptor::CPPTYPE_UINT64:
        return GEMMD_PUT(UInt64, static_cast<uint64_t>(Integer()));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return GEMMD_PUT(Double, Number());
      case FieldDescriptor::CPPTYPE_FLOAT:
        return GEMMD_PUT(Float, static_cast<float>(Number()));
      case FieldDescriptor::CPPTYPE_BOOL:
        return GEMMD_PUT(Bool, Below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return GEMMD_PUT(EnumValue, Enumerator(field));
      case FieldDescriptor::CPPTYPE_STRING:
        return GEMMD_PUT(String, Text(field));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fill(field.is_repeated()
                        ? *reflection.AddMessage(&message, &field)
                        : *reflection.MutableMessage(&message, &field),
                    depth + 1);
    }
  }
#undef GEMMD_PUT

  std::mt19937 random_{1};
  const std::vector<std::string> texts_;
};

// What no request is answered with, whatever is in it.
bool IsFault(grpc::StatusCode code) {
  static const std::set<grpc::StatusCode> faults = {
      grpc::INTERNAL, grpc::UNKNOWN, grpc::UNAVAILABLE, grpc::DATA_LOSS,
      grpc::DEADLINE_EXCEEDED};
  return faults.contains(code);
}

TEST(RandomRequestsTest, AreAnsweredAndHarmNothing) {
  TestServer server;
  auto tensors = v1::TensorService::NewStub(server.channel());
  v1::CreateTensorRequest create;
  create.set_dtype(v1::DATA_TYPE_BF16);
  create.set_rows(8);
  create.set_columns(8);
  v1::TensorInfo info;
  grpc::ClientContext context;
  ASSERT_TRUE(tensors->CreateTensor(&context, create, &info).ok());

  RandomRequests random({info.handle(), "", "host", "matmul", "A", "B", "FP32",
                         "x", "\n\x1b[31m\u00e4", std::string(300, 'y')});
  google::protobuf::DynamicMessageFactory factory;
  const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
  for (const char* name : {"gemmd.v1.MatmulService", "gemmd.v1.TensorService",
                           "gemmd.v1.RegionService", "gemmd.v1.KernelService",
                           "gemmd.v1.ModelService", "gemmd.v1.ServerService",
                           "inference.GRPCInferenceService"}) {
    const auto* const service = pool.FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i) {
      const auto& method = *service->method(i);
      const Message& prototype = *factory.GetPrototype(method.input_type());
      for (int round = 0; round < 100; ++round) {
        const std::unique_ptr<Message> request(prototype.New());
        random.Fill(*request);
        std::string bytes = request->SerializeAsString();
        if (round % 10 == 0) random.Damage(bytes);
        const grpc::Status status = server.CallRaw(
            "/" + std::string(name) + "/" + method.name(), bytes);
        EXPECT_FALSE(IsFault(status.error_code()))
            << method.full_name() << " " << status.error_code() << " "
            << status.error_message() << "\n"
            << request->ShortDebugString();
      }
    }
  }

  v1::MatmulResponse product;
  grpc::ClientContext honest;
  ASSERT_TRUE(v1::MatmulService::NewStub(server.channel())
                  ->Matmul(&honest, OnesTimesTwos(3, 4, 5), &product)
                  .ok());
  EXPECT_EQ(product.d().size(), 3u * 4u * 4u);
  EXPECT_EQ(server.engine().waiting(), 0);
}

}  // namespace
}  // namespace gemmd
