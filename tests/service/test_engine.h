// An engine on fake devices, and the requests that tests send to it.
#ifndef GEMMD_TESTS_SERVICE_TEST_ENGINE_H_
#define GEMMD_TESTS_SERVICE_TEST_ENGINE_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/engine/engine.h"
#include "tests/service/answer.h"
#include "tests/service/fake_cache.h"
#include "tests/service/fake_device.h"
#include "tests/service/matrix.h"

namespace gemmd::testing {

inline engine::RequestContext From(std::string identity) {
  engine::RequestContext context;
  context.identity = std::move(identity);
  return context;
}

class TestEngine {
 public:
  // One device for each of `hooks`: "fake:0", "fake:1", ...
  TestEngine(engine::Engine::Options options,
             const std::vector<std::shared_ptr<Hooks>>& hooks,
             int64_t memory_bytes = int64_t{1} << 24) {
    std::vector<std::unique_ptr<device::Device>> devices;
    for (const auto& of_device : hooks) {
      devices.push_back(std::make_unique<FakeDevice>(
          absl::StrCat("fake:", devices.size()), of_device, memory_bytes));
    }
    engine_ = engine::Engine::Create(std::move(options), std::move(devices),
                                     cache_, templates_)
                  .value();
  }

  engine::Engine& operator*() { return *engine_; }
  engine::Engine* operator->() { return engine_.get(); }
  FakeCache& cache() { return cache_; }

  static jit::Problem Problem(int64_t m = 2) {
    return {.m = m,
            .n = 3,
            .k = 4,
            .c_type = jit::DataType::kF32,
            .d_type = jit::DataType::kF32};
  }
  // beta * C with C a tensor: needs no bytes. Goes to D, a tensor too.
  static engine::Product Copy(std::shared_ptr<engine::Tensor> from,
                              std::shared_ptr<engine::Tensor> to) {
    engine::Product product = {.problem = Problem(from->layout().rows)};
    product.problem.alpha = 0;
    product.problem.beta = 1;
    product.c.tensor = std::move(from);
    product.d.tensor = std::move(to);
    return product;
  }
  // Zeros, inline; reads nothing.
  static engine::Product Zeros(int64_t m = 2) {
    engine::Product product = {.problem = Problem(m)};
    product.problem.alpha = 0;
    product.d.pitch_bytes = product.problem.d().width_bytes();
    return product;
  }

  using MultiplyAnswer = Answer<engine::ProductResult>;
  MultiplyAnswer Multiply(engine::Product product, int device = 0,
                          engine::RequestContext context = {}) {
    MultiplyAnswer answer;
    engine_->Multiply(std::move(product), device, std::move(context),
                      answer.done());
    return answer;
  }

  using TuneAnswer = Answer<engine::TuningOutcome>;
  TuneAnswer Tune(engine::TuningOrder order,
                  engine::RequestContext context = {}) {
    TuneAnswer answer;
    engine_->Tune(std::move(order), 0, std::move(context), answer.done());
    return answer;
  }

  using CreateAnswer = Answer<std::shared_ptr<engine::Tensor>>;
  CreateAnswer Create(engine::TensorSpec spec,
                      engine::RequestContext context = {}) {
    CreateAnswer answer;
    if (spec.layout.empty()) spec.layout = Problem().d();
    spec.ttl = absl::Hours(1);
    engine_->CreateTensor(std::move(spec), std::move(context), answer.done());
    return answer;
  }
  std::shared_ptr<engine::Tensor> Tensor() { return Create({}).Wait().value(); }

  // All elements `value`, as one part of `upload`.
  Answer<std::monostate> Send(
      const std::shared_ptr<engine::TensorUpload>& upload, float value,
      engine::RequestContext context = {}) {
    const jit::MatrixLayout& layout = upload->layout;
    bytes_.push_back(
        Fill(layout, layout.width(), [=](int64_t, int64_t) { return value; }));
    pieces_.push_back(bytes_.back());
    Answer<std::monostate> answer;
    engine_->Upload(
        upload, {absl::MakeConstSpan(&pieces_.back(), 1), layout.width_bytes()},
        {0, layout.lines()}, std::move(context), answer.done());
    return answer;
  }
  Answer<std::monostate> Finish(std::shared_ptr<engine::TensorUpload> upload,
                                engine::RequestContext context = {}) {
    Answer<std::monostate> answer;
    engine_->FinishUpload(std::move(upload), std::move(context), answer.done());
    return answer;
  }
  Answer<engine::TensorPart> Download(std::shared_ptr<engine::Tensor> tensor,
                                      engine::RequestContext context = {}) {
    Answer<engine::TensorPart> answer;
    const jit::MatrixLayout layout = tensor->layout();
    engine_->Download(std::move(tensor), {0, layout.lines()},
                      layout.width_bytes(), std::move(context), answer.done());
    return answer;
  }
  // The elements of an f32 tensor.
  std::vector<float> Elements(std::shared_ptr<engine::Tensor> tensor) {
    const int64_t count = tensor->layout().rows * tensor->layout().columns;
    auto part = Download(std::move(tensor)).Wait();
    std::vector<float> elements;
    for (int64_t i = 0; part.ok() && i < count; ++i) {
      elements.push_back(
          Get(jit::DataType::kF32, part->bytes->bytes().data(), i));
    }
    return elements;
  }

 private:
  FakeCache cache_;
  const jit::TemplateLibrary templates_ = jit::TemplateLibrary::Embedded();
  std::deque<std::string> bytes_;
  std::deque<absl::Span<const char>> pieces_;
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_TEST_ENGINE_H_
