// Device memory: blocks between guards, which may be locked until a grid has
// waited for those before it. What a kernel does outside of them, or while they
// are locked, is reported to the CTA that runs, and let through. Blocks are
// used by one thread at a time.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_GLOBAL_MEMORY_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_GLOBAL_MEMORY_H_

#include <cstddef>

namespace gemmd::emulator {

class GlobalBlock {
 public:
  // Ends where its guard begins. `bytes` is rounded up to 16.
  explicit GlobalBlock(size_t bytes);
  ~GlobalBlock();
  GlobalBlock(const GlobalBlock&) = delete;
  GlobalBlock& operator=(const GlobalBlock&) = delete;

  char* data() const { return data_; }
  size_t size() const { return bytes_; }
  void Lock();
  void Unlock();

 private:
  const size_t bytes_;
  size_t mapped_;  // With both guards.
  char* start_;
  char* data_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_GLOBAL_MEMORY_H_
