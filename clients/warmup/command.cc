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

FlagSpec LimitFlag() {
  return {"limit_bytes", "BYTES",
          "most that the cache may hold, which it keeps to from now on; 0: no "
          "limit; default: the limit of the cache's daemon, or 4GiB"};
}

absl::StatusOr<std::optional<int64_t>> LimitGiven(const Flags& flags) {
  if (!flags.Has("limit_bytes")) return std::nullopt;
  return flags.GetBytes("limit_bytes", 0);
}

}  // namespace gemmd::warmup
