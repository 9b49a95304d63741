// The device and page-locked memory of the fake driver: host memory that knows
// whether it may be used. Misuse fails the test and names the user. Used by
// one thread at a time.
#ifndef GEMMD_TESTS_SERVICE_GPU_FAKE_MEMORY_H_
#define GEMMD_TESTS_SERVICE_GPU_FAKE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace gemmd::gpu {

class FakeMemory {
 public:
  enum class Kind { kDevice, kPinned };

  // Aligned as the driver aligns, full of what looks like old contents. Exists
  // from Begin to End.
  char* New(Kind kind, size_t bytes);
  void Begin(const void* at);
  // Memory of others counts as page-locked, from now on.
  void Adopt(void* at, size_t bytes);
  void End(const std::string& user, const void* at);
  // Marks a block as given back, though its End may come later.
  void Release(const std::string& user, const void* at);

  // Whether [at, at + bytes) lies in a block of `kind` that exists now. Fails
  // the test, naming `user`, where it does not.
  bool ExpectUsable(const std::string& user, Kind kind, const void* at,
                    size_t bytes);
  // Fails the test where `at` points into a block that does not exist now.
  void ExpectNotDangling(const std::string& user, const void* at);

  // Size of the block that starts at `at`; 0 without one.
  size_t BytesAt(const void* at) const;
  // Blocks that were not given back.
  size_t live() const;

 private:
  struct Block {
    Kind kind;
    size_t bytes;
    std::unique_ptr<char[]> storage;  // Kept after the end, for diagnosis.
    bool begun = false;
    bool ended = false;
    bool released = false;
  };

  // The block that `at` points into, or null.
  Block* Find(uintptr_t at, uintptr_t* start);

  std::map<uintptr_t, Block> blocks_;  // By their first bytes.
};

}  // namespace gemmd::gpu

#endif  // GEMMD_TESTS_SERVICE_GPU_FAKE_MEMORY_H_
