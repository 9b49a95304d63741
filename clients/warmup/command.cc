#include "clients/warmup/command.h"

namespace gemmd::warmup {

FlagSpec CacheDirFlag() { return {"cache_dir", "DIR", "the cache"}; }

FlagSpec NewCacheDirFlag() {
  return {"cache_dir", "DIR", "the cache; made when it is not there"};
}

FlagSpec NvrtcFlag() {
  return {"nvrtc", "PATH",
          "file or folder of libnvrtc; found by itself when installed"};
}

FlagSpec JobsFlag() {
  return {"jobs", "N", "compiles at a time; default: one per core"};
}

}  // namespace gemmd::warmup
