// A bundle: a cache as one file, to be carried to other machines.
//
// It is a tar archive, compressed by zstd, with a member "entries/<key>" for
// each kernel and "tuning/<key>" for each tuning record, in order of their
// names. The last two members are "manifest", which lists the digest and name
// of every other, and "signature", an HMAC over the manifest. Unpacked, it is a
// cache directory. The same members and key give the same bytes. Both ways a
// bundle streams: a member is in memory, not the file. Thread-compatible.
#ifndef GEMMD_JIT_CACHE_BUNDLE_H_
#define GEMMD_JIT_CACHE_BUNDLE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

struct BundleMember {
  std::string name;
  std::string bytes;
};

class BundleWriter {
 public:
  using Sink = std::function<absl::Status(absl::string_view)>;

  // Signs with `signing_key`; empty: the bundle is not signed.
  BundleWriter(Sink sink, std::string signing_key);
  ~BundleWriter();

  // In order of names, which are "entries/<key>" or "tuning/<key>".
  absl::Status Add(const std::string& name, absl::string_view bytes);
  // After the last member.
  absl::Status Finish();

 private:
  class Compressor;

  absl::Status Append(const std::string& name, absl::string_view bytes);

  const std::string signing_key_;
  const std::unique_ptr<Compressor> out_;
  std::string manifest_;
};

class BundleReader {
 public:
  // Puts at most `size` bytes to `to`; how many, 0 at the end.
  using Source = std::function<absl::StatusOr<size_t>(char* to, size_t size)>;

  // `signing_key`: the bundle must be signed with it. Empty: no signature is
  // asked for.
  BundleReader(Source source, std::string signing_key);
  ~BundleReader();

  // The next member; nothing after the last one, once the manifest and the
  // signature are verified. Until then no member is to be believed. DATA_LOSS
  // says what is wrong, PERMISSION_DENIED that the signature is; any bytes may
  // be read. Whether a member is what its name says is for others to check.
  absl::StatusOr<std::optional<BundleMember>> Next();

 private:
  class Decompressor;

  absl::StatusOr<BundleMember> Take();
  absl::Status Finish(const BundleMember& manifest);

  const std::string signing_key_;
  const std::unique_ptr<Decompressor> in_;
  std::string manifest_;
  std::string last_name_;
  bool finished_ = false;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_BUNDLE_H_
