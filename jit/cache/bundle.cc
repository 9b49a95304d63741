#include "jit/cache/bundle.h"

#include <zstd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/cache/signature.h"
#include "jit/cache/tar_header.h"

namespace gemmd::jit {
namespace {

constexpr char kManifest[] = "manifest";
constexpr char kSignature[] = "signature";
constexpr char kManifestHead[] = "gemmd bundle 2\n";
// A bomb is small; what it unpacks to is not held.
constexpr uint64_t kMaxMemberBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;
constexpr int kWindowLog = 23;  // Most that (de)compressing holds: 8 MiB.
constexpr int kLevel = 3;

bool IsMemberName(absl::string_view name) {
  return (absl::ConsumePrefix(&name, "entries/") ||
          absl::ConsumePrefix(&name, "tuning/")) &&
         IsSha256Hex(name);
}

std::string ManifestLine(absl::string_view name, absl::string_view bytes) {
  return absl::StrCat(absl::BytesToHexString(Sha256Of(bytes)), "  ", name,
                      "\n");
}

}  // namespace

class BundleWriter::Compressor {
 public:
  explicit Compressor(Sink sink)
      : sink_(std::move(sink)),
        context_(ZSTD_createCCtx()),
        buffer_(ZSTD_CStreamOutSize()) {
    CHECK(context_ != nullptr);
    ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, kLevel);
    ZSTD_CCtx_setParameter(context_, ZSTD_c_windowLog, kWindowLog);
    ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1);
  }
  ~Compressor() { ZSTD_freeCCtx(context_); }

  absl::Status Write(absl::string_view bytes) {
    return Compress(bytes, ZSTD_e_continue);
  }
  absl::Status Finish() { return Compress("", ZSTD_e_end); }

 private:
  absl::Status Compress(absl::string_view bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
    while (true) {
      ZSTD_outBuffer out = {buffer_.data(), buffer_.size(), 0};
      const size_t left = ZSTD_compressStream2(context_, &out, &in, directive);
      if (ZSTD_isError(left)) {
        return absl::InternalError(
            absl::StrCat("cannot compress: ", ZSTD_getErrorName(left)));
      }
      if (out.pos > 0) RETURN_IF_ERROR(sink_({buffer_.data(), out.pos}));
      const bool done = directive == ZSTD_e_end ? left == 0 : in.pos == in.size;
      if (done) return absl::OkStatus();
    }
  }

  const Sink sink_;
  ZSTD_CCtx* const context_;
  std::vector<char> buffer_;
};

BundleWriter::BundleWriter(Sink sink, std::string signing_key)
    : signing_key_(std::move(signing_key)),
      out_(std::make_unique<Compressor>(std::move(sink))),
      manifest_(kManifestHead) {}

BundleWriter::~BundleWriter() = default;

absl::Status BundleWriter::Append(const std::string& name,
                                  absl::string_view bytes) {
  RETURN_IF_ERROR(
      out_->Write(EncodeTarHeader({.name = name, .bytes = bytes.size()})));
  RETURN_IF_ERROR(out_->Write(bytes));
  return out_->Write(std::string(TarPadding(bytes.size()), '\0'));
}

absl::Status BundleWriter::Add(const std::string& name,
                               absl::string_view bytes) {
  CHECK(IsMemberName(name));
  manifest_ += ManifestLine(name, bytes);
  return Append(name, bytes);
}

absl::Status BundleWriter::Finish() {
  RETURN_IF_ERROR(Append(kManifest, manifest_));
  RETURN_IF_ERROR(Append(kSignature, Sign(signing_key_, Sha256Of(manifest_))));
  // The end of an archive.
  RETURN_IF_ERROR(out_->Write(std::string(2 * kTarBlock, '\0')));
  return out_->Finish();
}

class BundleReader::Decompressor {
 public:
  explicit Decompressor(Source source)
      : source_(std::move(source)),
        context_(ZSTD_createDCtx()),
        buffer_(ZSTD_DStreamInSize()) {
    CHECK(context_ != nullptr);
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kWindowLog);
  }
  ~Decompressor() { ZSTD_freeDCtx(context_); }

  // Exactly `size` bytes, unless the bundle ends before.
  absl::StatusOr<std::string> Read(uint64_t size) {
    constexpr size_t kStep = size_t{1} << 20;
    std::string bytes;
    // In steps: a size alone, which anybody can claim, reserves nothing.
    while (bytes.size() < size) {
      const size_t done = bytes.size();
      bytes.resize(std::min<uint64_t>(size, done + kStep));
      ZSTD_outBuffer out = {bytes.data(), bytes.size(), done};
      while (out.pos < out.size) {
        ASSIGN_OR_RETURN(const bool more, Decompress(out));
        if (!more) return absl::DataLossError("bundle ends too early");
      }
    }
    return bytes;
  }

  // Whether nothing follows.
  absl::StatusOr<bool> AtEnd() {
    char byte;
    ZSTD_outBuffer out = {&byte, 1, 0};
    while (out.pos == 0) {
      ASSIGN_OR_RETURN(const bool more, Decompress(out));
      if (!more) return frame_ended_;
    }
    return false;
  }

 private:
  // False when there is no more to decompress.
  absl::StatusOr<bool> Decompress(ZSTD_outBuffer& out) {
    if (in_.pos == in_.size) {
      ASSIGN_OR_RETURN(const size_t got,
                       source_(buffer_.data(), buffer_.size()));
      in_ = {buffer_.data(), got, 0};
      if (got == 0 && frame_ended_) return false;
    }
    const size_t before_in = in_.pos, before_out = out.pos;
    const size_t hint = ZSTD_decompressStream(context_, &out, &in_);
    if (ZSTD_isError(hint)) {
      return absl::DataLossError(absl::StrCat("bundle cannot be decompressed: ",
                                              ZSTD_getErrorName(hint)));
    }
    frame_ended_ = hint == 0;
    return in_.pos != before_in || out.pos != before_out;
  }

  const Source source_;
  ZSTD_DCtx* const context_;
  std::vector<char> buffer_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  bool frame_ended_ = false;
};

BundleReader::BundleReader(Source source, std::string signing_key)
    : signing_key_(std::move(signing_key)),
      in_(std::make_unique<Decompressor>(std::move(source))),
      manifest_(kManifestHead) {}

BundleReader::~BundleReader() = default;

absl::StatusOr<BundleMember> BundleReader::Take() {
  ASSIGN_OR_RETURN(const std::string block, in_->Read(kTarBlock));
  const absl::StatusOr<TarMember> header = DecodeTarHeader(block);
  if (!header.ok()) return header.status();
  const uint64_t limit =
      header->name == kManifest ? kMaxManifestBytes : kMaxMemberBytes;
  if (header->bytes > limit) {
    return absl::DataLossError(absl::StrCat(
        "bundle has a member of ", header->bytes, " bytes; allowed: ", limit));
  }
  BundleMember member;
  member.name = header->name;
  ASSIGN_OR_RETURN(member.bytes, in_->Read(header->bytes));
  ASSIGN_OR_RETURN(const std::string padding,
                   in_->Read(TarPadding(header->bytes)));
  if (padding.find_first_not_of('\0') != padding.npos) {
    return absl::DataLossError("bundle has a member with wrong padding");
  }
  return member;
}

absl::StatusOr<std::optional<BundleMember>> BundleReader::Next() {
  if (finished_) return std::nullopt;
  ASSIGN_OR_RETURN(BundleMember member, Take());
  if (member.name == kManifest) {
    RETURN_IF_ERROR(Finish(member));
    finished_ = true;
    return std::nullopt;
  }
  if (!IsMemberName(member.name)) {
    return absl::DataLossError(absl::StrCat("bundle has a member \"",
                                            absl::CHexEscape(member.name),
                                            "\", which is none of a cache"));
  }
  if (member.name <= last_name_) {
    return absl::DataLossError("bundle's members are out of order");
  }
  last_name_ = member.name;
  manifest_ += ManifestLine(member.name, member.bytes);
  if (manifest_.size() > kMaxManifestBytes) {
    return absl::DataLossError("bundle has too many members");
  }
  return member;
}

absl::Status BundleReader::Finish(const BundleMember& manifest) {
  if (manifest.bytes != manifest_) {
    return absl::DataLossError("bundle's manifest does not match");
  }
  ASSIGN_OR_RETURN(const BundleMember signature, Take());
  if (signature.name != kSignature) {
    return absl::DataLossError("bundle has no signature after its manifest");
  }
  const absl::StatusOr<absl::string_view> digest =
      CheckSignature(signing_key_, signature.bytes);
  if (!digest.ok() || *digest != Sha256Of(manifest_)) {
    return absl::PermissionDeniedError(
        signing_key_.empty() ? "bundle's signature is of another bundle"
                             : "bundle is not signed with the given key");
  }
  ASSIGN_OR_RETURN(const std::string end, in_->Read(2 * kTarBlock));
  ASSIGN_OR_RETURN(const bool at_end, in_->AtEnd());
  if (end != std::string(2 * kTarBlock, '\0') || !at_end) {
    return absl::DataLossError("bundle does not end after its signature");
  }
  return absl::OkStatus();
}

}  // namespace gemmd::jit
