// Models are there with their kernels, also after a restart.
#include "service/models/store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "service/models/copy.h"
#include "service/models/model_file.h"
#include "tests/integration/eventually.h"
#include "tests/service/gate.h"
#include "tests/service/test_engine.h"

namespace gemmd::models {
namespace {

using testing::Answer;
using testing::Eventually;
using testing::Hooks;
using testing::TestEngine;

bool Everybody(const std::string&) { return true; }
bool Nobody(const std::string&) { return false; }

// One life of a daemon: an engine that knows no kernel, and a store.
struct Life {
  explicit Life(const std::string& directory, int64_t limit_bytes = 0)
      : store(*engine, {.directory = directory, .limit_bytes = limit_bytes}) {}

  Answer<ModelPointer> Make(const std::string& name,
                            const std::string& owner = "",
                            bool shared = false) {
    const jit::Problem problem = TestEngine::Problem(1);
    Answer<ModelPointer> made;
    store.Create(
        {.name = name, .owner = owner, .shared = shared, .problem = problem},
        {.b = engine.Create({.layout = problem.b()}).Wait().value()}, {},
        made.done());
    return made;
  }
  absl::Status Share(const std::string& name, const std::string& owner) {
    return Make(name, owner, /*shared=*/true).Wait().status();
  }
  absl::Status Delete(const std::string& name, const std::string& asker = "",
                      bool administers = false) {
    Answer<std::monostate> deleted;
    store.Delete(name, asker, administers, deleted.done());
    return deleted.Wait().status();
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
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message().find("--model-repository is " + file), 0u)
      << status;
}

// It is none of the client's, who would look for a role, or a kernel.
TEST_F(StoreTest, TroubleWithTheFolderIsAFaultOfTheDaemon) {
  Life life(folder_);
  ASSERT_TRUE(life.Make("linear").Wait().ok());
  std::filesystem::remove_all(folder_ + "/models");
  std::ofstream(folder_ + "/models") << "no folder";
  EXPECT_TRUE(absl::IsInternal(life.Make("other").Wait().status()));
  EXPECT_TRUE(absl::IsInternal(life.Delete("linear")));
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

TEST_F(StoreTest, ARestartThatIsToEndLeavesTheRestWhereItIs) {
  {
    Life first(folder_);
    ASSERT_TRUE(first.Make("one").Wait().ok());
    ASSERT_TRUE(first.Make("two").Wait().ok());
  }
  {
    TestEngine engine({}, {std::make_shared<Hooks>()});
    int looks = 0;
    Store store(*engine, {.directory = folder_,
                          .stops = [&looks] { return ++looks == 2; }});
    EXPECT_TRUE(absl::IsCancelled(store.Restore(Everybody)));
    EXPECT_EQ(looks, 2) << "it asks no more";
    EXPECT_EQ(store.ListOf("").size(), 2u);  // "matmul" is one.
  }
  Life second(folder_);
  ASSERT_TRUE(second.store.Restore(Everybody).ok());
  EXPECT_EQ(second.store.ListOf("").size(), 3u);
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

// Which is known only when all of it has been read.
TEST_F(StoreTest, AModelReplacesTheFileWhoseWeightsAreDamaged) {
  {
    Life first(folder_);
    ASSERT_TRUE(first.Make("linear").Wait().ok());
  }
  const std::string file = folder_ + "/models/" + FileNameOf("", "linear");
  {
    std::fstream weights(file, std::ios::in | std::ios::out);
    weights.seekp(kFileHeaderBytes).put('\1');
  }
  Life second(folder_);
  ASSERT_TRUE(second.store.Restore(Everybody).ok());
  ASSERT_EQ(second.store.Find("linear", ""), nullptr);
  EXPECT_TRUE(second.Make("linear").Wait().ok());
}

TEST_F(StoreTest, AModelThatCannotBeMadeLeavesNothing) {
  const auto hooks = std::make_shared<Hooks>();
  TestEngine engine({}, {hooks});
  Store store(*engine, {.directory = folder_});
  const jit::Problem problem = TestEngine::Problem(1);
  const auto b = engine.Create({.layout = problem.b()}).Wait().value();
  const auto create = [&] {
    Answer<ModelPointer> made;
    store.Create({.name = "linear", .problem = problem}, {.b = b}, {},
                 made.done());
    return made.Wait().status();
  };
  hooks->upload = [] { return absl::InternalError("broken"); };
  EXPECT_EQ(create().message(), "broken");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/models"));
  hooks->upload = nullptr;
  EXPECT_TRUE(create().ok());
}

// Half of one and half of another are nobody's weights.
TEST_F(StoreTest, AWriteMeanwhileEndsACopy) {
  TestEngine engine({}, {std::make_shared<Hooks>()}, int64_t{1} << 26);
  // A line has more than half a part.
  const jit::MatrixLayout layout = {jit::DataType::kF32, jit::Order::kRowMajor,
                                    2, kPartBytes / 8 + 64};
  const auto tensor = engine.Create({.layout = layout}).Wait().value();
  int parts = 0;
  const auto take = [&](absl::Span<const char>) {
    ++parts;
    auto upload = engine->BeginUpload(tensor).value();
    EXPECT_TRUE(engine.Send(upload, 7).Wait().ok());
    return engine.Finish(std::move(upload)).Wait().status();
  };
  EXPECT_TRUE(absl::IsAborted(Fetch(*engine, tensor, {}, take)));
  EXPECT_EQ(parts, 1);
}

TEST_F(StoreTest, ARestartPutsModelsWhereThereIsMostRoom) {
  {
    Life first(folder_);
    ASSERT_TRUE(first.Make("linear").Wait().ok());
  }
  TestEngine engine({}, {std::make_shared<Hooks>(), std::make_shared<Hooks>()});
  const auto tensor = engine.Create({.device = 0}).Wait().value();
  Store store(*engine, {.directory = folder_});
  ASSERT_TRUE(store.Restore(Everybody).ok());
  ASSERT_NE(store.Find("linear", ""), nullptr);
  EXPECT_EQ(store.Find("linear", "")->weights().b->identity().device, 1);
}

TEST_F(StoreTest, OneClientCreatesItsPartOfTheNumber) {
  TestEngine engine({}, {std::make_shared<Hooks>()});
  Store store(*engine, {.max_models = 4});
  const jit::Problem problem = TestEngine::Problem(1);
  const auto b = engine.Create({.layout = problem.b()}).Wait().value();
  const auto create = [&](const std::string& name, const std::string& owner) {
    Answer<ModelPointer> made;
    store.Create({.name = name, .owner = owner, .problem = problem}, {.b = b},
                 {}, made.done());
    return made.Wait().status();
  };
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(create(name, "alice").ok());
  }
  EXPECT_EQ(create("d", "alice").message(),
            "there are as many models as may be: 3 of one client");
  EXPECT_TRUE(create("d", "bob").ok());
  EXPECT_EQ(create("e", "bob").message(),
            "there are as many models as may be: 4 of all clients");
}

TEST_F(StoreTest, WhatWasNotLoadedCanBeDeleted) {
  {
    Life first(folder_);
    ASSERT_TRUE(first.Make("linear").Wait().ok());
  }
  const std::string file = folder_ + "/models/" + FileNameOf("", "linear");
  Life second(folder_, static_cast<int64_t>(std::filesystem::file_size(file)));
  ASSERT_TRUE(second.store.Restore(Nobody).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(second.Make("other").Wait().status()));
  EXPECT_TRUE(absl::IsNotFound(second.Delete("linear", "bob", true)));
  EXPECT_TRUE(second.Delete("linear").ok());
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(absl::IsNotFound(second.Delete("linear")));
  EXPECT_TRUE(second.Make("other").Wait().ok());
}

TEST_F(StoreTest, AFileThatTellsNothingIsItsOwnersToDelete) {
  const std::string file = folder_ + "/models/" + FileNameOf("alice", "x");
  for (const bool with_header : {true, false}) {
    {
      Life first(folder_);
      ASSERT_TRUE(first.Share("x", "alice").ok());
    }
    const auto bytes = std::filesystem::file_size(file);
    std::filesystem::resize_file(file, with_header ? bytes - 1 : 1);
    Life second(folder_);
    ASSERT_TRUE(second.store.Restore(Everybody).ok());
    ASSERT_EQ(second.store.Find("x", "alice"), nullptr);
    EXPECT_TRUE(absl::IsNotFound(second.Delete("x", "bob", true)));
    EXPECT_TRUE(second.Delete("x", "alice").ok());
    EXPECT_FALSE(std::filesystem::exists(file));
    EXPECT_TRUE(absl::IsNotFound(second.Delete("x", "alice")));
  }
}

// What everybody infers with would be another after the next start.
TEST_F(StoreTest, ASharedNameIsTakenAlsoWhileItsModelIsNotLoaded) {
  {
    Life first(folder_);
    ASSERT_TRUE(first.Share("x", "alice").ok());
  }
  {
    Life second(folder_);
    ASSERT_TRUE(second.store.Restore(Nobody).ok());
    EXPECT_EQ(second.store.Find("x", "alice"), nullptr);
    EXPECT_EQ(second.Share("x", "ops"),
              absl::AlreadyExistsError("there is a shared model x, which was "
                                       "not loaded; delete it first"));
    EXPECT_TRUE(second.Make("x", "bob").Wait().ok()) << "a name of his own";
    EXPECT_TRUE(absl::IsNotFound(second.Delete("x", "ops")));
    EXPECT_TRUE(second.Delete("x", "ops", /*administers=*/true).ok());
    EXPECT_TRUE(second.Share("x", "ops").ok());
  }
  Life third(folder_);
  ASSERT_TRUE(third.store.Restore(Everybody).ok());
  ASSERT_NE(third.store.Find("x", "alice"), nullptr);
  EXPECT_EQ(third.store.Find("x", "alice")->spec().owner, "ops");
}

TEST_F(StoreTest, OneModelOfANameIsShared) {
  Life life("");
  ASSERT_TRUE(life.Share("x", "alice").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(life.Share("x", "bob")));
  EXPECT_TRUE(life.Make("x", "bob").Wait().ok()) << "a name of his own";
}

TEST_F(StoreTest, WhoAdministersDeletesWhatIsSharedAndHisOwnFirst) {
  Life life("");
  ASSERT_TRUE(life.Share("x", "alice").ok());
  ASSERT_TRUE(life.Make("mine", "alice").Wait().ok());
  ASSERT_TRUE(life.Make("x", "ops").Wait().ok());
  EXPECT_TRUE(absl::IsNotFound(life.Delete("x", "bob")));
  EXPECT_TRUE(absl::IsNotFound(life.Delete("mine", "ops", true)));
  EXPECT_TRUE(life.Delete("x", "ops", true).ok());
  ASSERT_NE(life.store.Find("x", "ops"), nullptr);
  EXPECT_EQ(life.store.Find("x", "ops")->spec().owner, "alice");
  EXPECT_TRUE(life.Delete("x", "ops", true).ok());
  EXPECT_EQ(life.store.Find("x", "alice"), nullptr);
}

TEST_F(StoreTest, AModelWhoseFolderIsGoneCanBeDeleted) {
  Life life(folder_);
  ASSERT_TRUE(life.Make("linear").Wait().ok());
  std::filesystem::remove_all(folder_);
  const absl::Status status = life.Delete("linear");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(life.store.Find("linear", ""), nullptr);
}

TEST_F(StoreTest, NobodyWaitsForThem) {
  Life life(folder_);
  life.engine.cache().Hold(true);
  EXPECT_TRUE(life.Make("one").Wait().ok());
  life.engine.cache().WaitForGets(1);
  EXPECT_TRUE(life.Make("two").Wait().ok());
  EXPECT_TRUE(life.Delete("one").ok());
  life.engine.cache().Hold(false);
  EXPECT_TRUE(life.ComesToKnowAll());
}

// However long the products take that write what he makes one of.
TEST_F(StoreTest, WhoWaitsForHisOwnProductHoldsUpNobodyElse) {
  testing::Gate gate;
  const auto hooks = std::make_shared<Hooks>();
  hooks->multiply = [&](const auto&, const auto&) {
    gate.Pass();
    return absl::OkStatus();
  };
  TestEngine engine({}, {hooks});
  Store store(*engine, {.directory = folder_});
  jit::Problem problem = TestEngine::Problem(1);
  problem.a_type = problem.b_type = jit::DataType::kF32;
  problem.b_order = problem.d_order;
  const auto create = [&](const std::string& name, const std::string& owner,
                          std::shared_ptr<engine::Tensor> b) {
    Answer<ModelPointer> made;
    store.Create({.name = name, .owner = owner, .problem = problem},
                 {.b = std::move(b)}, testing::From(owner), made.done());
    return made;
  };
  const auto tensor = [&] {
    return engine.Create({.layout = problem.b()}).Wait().value();
  };
  ASSERT_TRUE(create("old", "bob", tensor()).Wait().ok());
  const auto written = tensor();
  gate.Close();
  auto product = engine.Multiply(TestEngine::Copy(tensor(), written), 0,
                                 testing::From("alice"));
  ASSERT_TRUE(gate.WaitForArrivals(1));
  auto hers = create("hers", "alice", written);
  auto another = create("another", "alice", written);
  EXPECT_TRUE(create("new", "bob", tensor()).Wait().ok());
  Answer<std::monostate> deleted;
  store.Delete("old", "bob", /*administers=*/false, deleted.done());
  EXPECT_TRUE(deleted.Wait().ok());
  EXPECT_EQ(store.Find("hers", "alice"), nullptr);
  gate.Open();
  EXPECT_TRUE(product.Wait().ok());
  EXPECT_TRUE(hers.Wait().ok());
  EXPECT_TRUE(another.Wait().ok());
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
