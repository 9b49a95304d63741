// Models are there with their kernels, also after a restart.
#include "service/models/store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "service/models/model_file.h"
#include "tests/integration/eventually.h"
#include "tests/service/test_engine.h"

namespace gemmd::models {
namespace {

using testing::Answer;
using testing::Eventually;
using testing::Hooks;
using testing::TestEngine;

bool Everybody(const std::string&) { return true; }

// One life of a daemon: an engine that knows no kernel, and a store.
struct Life {
  explicit Life(const std::string& directory, int64_t limit_bytes = 0)
      : store(*engine, {.directory = directory, .limit_bytes = limit_bytes}) {}

  Answer<ModelPointer> Make(const std::string& name) {
    const jit::Problem problem = TestEngine::Problem(1);
    Answer<ModelPointer> made;
    store.Create({.name = name, .problem = problem},
                 {.b = engine.Create({.layout = problem.b()}).Wait().value()},
                 {}, made.done());
    return made;
  }
  bool Knows(int64_t rows) {
    return engine->served(0).kernels->Knows(TestEngine::Problem(rows));
  }
  bool ComesToKnowAll() {
    return Eventually([&] {
      for (const int64_t rows : kPreparedRows) {
        if (!Knows(rows)) return false;
      }
      return true;
    });
  }

  TestEngine engine{{}, {std::make_shared<Hooks>()}};
  Store store;
};

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    char path[] = "/tmp/gemmd_test_XXXXXX";
    folder_ = mkdtemp(path);
  }
  ~StoreTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_F(StoreTest, ANewModelGetsItsKernels) {
  Life life("");
  EXPECT_FALSE(life.Knows(1));
  ASSERT_TRUE(life.Make("linear").Wait().ok());
  EXPECT_TRUE(life.ComesToKnowAll());
}

// Nobody waits for their room in the hope that a call ends.
TEST_F(StoreTest, WeightsLastAsTensorsDo) {
  Life life("");
  engine::TensorStore& tensors = life.engine->tensors();
  const int64_t before = tensors.attainable_bytes(0);
  ASSERT_TRUE(life.Make("linear").Wait().ok());
  EXPECT_EQ(before - tensors.attainable_bytes(0), tensors.bytes(0));
}

TEST_F(StoreTest, AFolderThatIsNoneIsNamed) {
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "no folder";
  Life life(file);
  const absl::Status status = life.store.Restore(Everybody);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message().find("--model-repository is " + file), 0u)
      << status;
}

TEST_F(StoreTest, ARestartBringsModelsBackWarm) {
  {
    Life first(folder_);
    ASSERT_TRUE(first.Make("linear").Wait().ok());
  }
  Life second(folder_);
  ASSERT_TRUE(second.store.Restore(Everybody).ok());
  const ModelPointer model = second.store.Find("linear", "");
  ASSERT_NE(model, nullptr);
  ASSERT_TRUE(second.ComesToKnowAll());
  // Any other number of rows waits for no compile: none ends.
  second.engine.cache().Hold(true);
  EXPECT_FALSE(second.Knows(7));
  engine::Product product = {.problem = TestEngine::Problem(7)};
  product.a.tensor =
      second.engine.Create({.layout = product.problem.a()}).Wait().value();
  product.b.tensor = model->weights().b;
  product.d.pitch_bytes = product.problem.d().width_bytes();
  const auto result = second.engine.Multiply(std::move(product)).Wait();
  second.engine.cache().Hold(false);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->execution.source, engine::KernelSource::kLoaded);
}

// It counts for the limit until then.
TEST_F(StoreTest, AModelReplacesTheDamagedFileOfItsName) {
  {
    Life first(folder_);
    ASSERT_TRUE(first.Make("linear").Wait().ok());
  }
  const std::string file = folder_ + "/models/" + FileNameOf("", "linear");
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(file));
  std::filesystem::resize_file(file, bytes - 1);
  Life second(folder_, 2 * bytes);
  ASSERT_TRUE(second.store.Restore(Everybody).ok());
  ASSERT_EQ(second.store.Find("linear", ""), nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(second.Make("other").Wait().status()));
  EXPECT_TRUE(second.Make("linear").Wait().ok());
  EXPECT_TRUE(second.Make("other").Wait().ok());
  EXPECT_TRUE(absl::IsResourceExhausted(second.Make("third").Wait().status()));
}

TEST_F(StoreTest, AModelWhoseFolderIsGoneCanBeDeleted) {
  Life life(folder_);
  ASSERT_TRUE(life.Make("linear").Wait().ok());
  std::filesystem::remove_all(folder_);
  Answer<std::monostate> deleted;
  life.store.Delete("linear", "", deleted.done());
  const auto status = deleted.Wait().status();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(life.store.Find("linear", ""), nullptr);
}

TEST_F(StoreTest, NobodyWaitsForThem) {
  Life life(folder_);
  life.engine.cache().Hold(true);
  EXPECT_TRUE(life.Make("one").Wait().ok());
  life.engine.cache().WaitForGets(1);
  EXPECT_TRUE(life.Make("two").Wait().ok());
  Answer<std::monostate> deleted;
  life.store.Delete("one", "", deleted.done());
  EXPECT_TRUE(deleted.Wait().ok());
  life.engine.cache().Hold(false);
  EXPECT_TRUE(life.ComesToKnowAll());
}

TEST_F(StoreTest, AModelIsThereAlsoWithoutThem) {
  Life life("");
  life.engine.cache().Fail(absl::FailedPreconditionError("nothing compiles"));
  ASSERT_TRUE(life.Make("linear").Wait().ok());
  life.engine.cache().WaitForGets(std::size(kPreparedRows));
  EXPECT_NE(life.store.Find("linear", ""), nullptr);
}

}  // namespace
}  // namespace gemmd::models
