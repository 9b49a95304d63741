#include "service/models/model_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gemmd/v1/types.pb.h"
#include "jit/base/folder.h"
#include "jit/base/frame.h"
#include "jit/base/record.h"
#include "jit/base/status.h"
#include "proto/convert/problem.h"
#include "service/models/copy.h"
#include "service/models/name.h"

namespace gemmd::models {
namespace {

constexpr jit::FrameKind kKind = {"gemmdmdl", 1};
constexpr char kFolder[] = "models";
constexpr char kEnding[] = ".model";
// Of files that are being written.
constexpr char kNewEnding[] = ".new";
constexpr int64_t kDigestBytes = jit::kSha256Bytes;
// Nothing that a device could hold has more.
constexpr int64_t kMaxFileBytes = int64_t{1} << 40;

enum Tag : uint32_t {
  kName = 1,
  kOwner = 2,
  kShared = 3,
  kProblem = 4,  // gemmd.v1.Problem.
  kHasBias = 5,
  kPadding = 6,
};

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the model's file ", what));
}

absl::Status ReadExactly(int file, absl::Span<char> to) {
  while (!to.empty()) {
    const ssize_t count = read(file, to.data(), to.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return jit::ErrnoStatus(errno, "read a model's file");
    if (count == 0) return Damaged("is cut off");
    to.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::string_view View(absl::Span<const char> bytes) {
  return {bytes.data(), bytes.size()};
}

absl::StatusOr<jit::Problem> ReadProblem(absl::string_view bytes) {
  v1::Problem wire;
  if (!wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Damaged("has no problem");
  }
  absl::StatusOr<jit::Problem> problem = convert::ToProblem(wire);
  if (!problem.ok()) return Damaged(problem.status().message());
  const bool fits = problem->m == 1 && problem->n > 0 && problem->k > 0 &&
                    problem->batch > 0 && !problem->b().empty();
  if (!fits) return Damaged("has a problem without weights");
  return problem;
}

}  // namespace

std::vector<jit::MatrixLayout> FileHeader::layouts() const {
  std::vector<jit::MatrixLayout> all = {spec.problem.b()};
  if (has_bias) all.push_back(spec.problem.bias());
  return all;
}

int64_t FileHeader::file_bytes() const {
  // Counted without the product overflowing, as CheckTensorBytes does.
  double sum = kFileHeaderBytes + kDigestBytes;
  for (const jit::MatrixLayout& layout : layouts()) {
    sum += static_cast<double>(layout.width_bytes()) *
           static_cast<double>(layout.lines());
  }
  return sum > static_cast<double>(kMaxFileBytes) ? kMaxFileBytes + 1
                                                  : static_cast<int64_t>(sum);
}

std::string ToBytes(const FileHeader& header) {
  const Spec& spec = header.spec;
  const auto frame = [&](int64_t padding) {
    jit::RecordWriter record;
    record.Add(kName, spec.name);
    record.Add(kOwner, spec.owner);
    record.AddInt(kShared, spec.shared);
    record.Add(kProblem, convert::ToWire(spec.problem).SerializeAsString());
    record.AddInt(kHasBias, header.has_bias);
    record.Add(kPadding, std::string(padding, '\0'));
    return jit::Frame(kKind, std::move(record).Release());
  };
  const int64_t size = static_cast<int64_t>(frame(0).size());
  CHECK(size <= kFileHeaderBytes);
  return frame(kFileHeaderBytes - size);
}

absl::StatusOr<FileHeader> ToFileHeader(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const absl::string_view body, jit::Unframe(kKind, bytes));
  ASSIGN_OR_RETURN(const jit::Record record, jit::Record::Parse(body));
  FileHeader header;
  ASSIGN_OR_RETURN(const absl::string_view name, record.Get(kName));
  header.spec.name = std::string(name);
  ASSIGN_OR_RETURN(const absl::string_view owner, record.Get(kOwner));
  header.spec.owner = std::string(owner);
  ASSIGN_OR_RETURN(const int64_t shared, record.GetInt(kShared));
  header.spec.shared = shared != 0;
  ASSIGN_OR_RETURN(const absl::string_view problem, record.Get(kProblem));
  ASSIGN_OR_RETURN(header.spec.problem, ReadProblem(problem));
  ASSIGN_OR_RETURN(const int64_t has_bias, record.GetInt(kHasBias));
  header.has_bias = has_bias != 0;
  if (!CheckName(header.spec.name).ok()) return Damaged("has no model's name");
  const bool wants_bias =
      header.spec.problem.epilogue.bias == jit::Extent::kColumn;
  if (header.has_bias != wants_bias) return Damaged("has another bias");
  if (header.file_bytes() > kMaxFileBytes) return Damaged("is too large");
  return header;
}

std::string FileNameOf(const std::string& owner, const std::string& name) {
  jit::Sha256 digest;
  digest.UpdateField(owner);
  digest.UpdateField(name);
  return absl::StrCat(digest.Hex(), kEnding);
}

FileWriter::FileWriter(jit::UniqueFd folder, jit::UniqueFd file,
                       std::string name)
    : folder_(std::move(folder)),
      file_(std::move(file)),
      name_(std::move(name)) {}

FileWriter::~FileWriter() {
  if (!file_.ok()) return;  // Moved from, or published.
  unlinkat(folder_.get(), absl::StrCat(name_, kNewEnding).c_str(), 0);
}

absl::StatusOr<FileWriter> FileWriter::Create(const std::string& directory,
                                              const FileHeader& header) {
  ASSIGN_OR_RETURN(
      jit::UniqueFd folder,
      jit::OpenFolder(directory, kFolder, jit::FolderAccess::kCreate));
  std::string name = FileNameOf(header.spec.owner, header.spec.name);
  // One of a name at a time: what is there was left by a crash.
  const std::string temporary = absl::StrCat(name, kNewEnding);
  unlinkat(folder.get(), temporary.c_str(), 0);
  jit::UniqueFd file(
      openat(folder.get(), temporary.c_str(),
             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.ok()) return jit::ErrnoStatus(errno, "create a model's file");
  FileWriter writer(std::move(folder), std::move(file), std::move(name));
  RETURN_IF_ERROR(writer.Add(ToBytes(header)));
  return writer;
}

absl::Status FileWriter::Add(absl::Span<const char> bytes) {
  digest_->Update(View(bytes));
  return jit::WriteAll(file_.get(), View(bytes));
}

absl::Status FileWriter::Flush() {
  RETURN_IF_ERROR(jit::WriteAll(file_.get(), digest_->Bytes()));
  // The bytes must be on disk before the name is, else a power cut could leave
  // the name of an empty file.
  if (fsync(file_.get()) != 0) {
    return jit::ErrnoStatus(errno, "flush a model's file");
  }
  return absl::OkStatus();
}

absl::Status FileWriter::Publish() {
  if (renameat(folder_.get(), absl::StrCat(name_, kNewEnding).c_str(),
               folder_.get(), name_.c_str()) != 0) {
    return jit::ErrnoStatus(errno, "publish a model's file");
  }
  file_.Reset();
  // The name itself must survive a power cut.
  if (fsync(folder_.get()) != 0) {
    return jit::ErrnoStatus(errno, "flush the folder of models");
  }
  return absl::OkStatus();
}

absl::StatusOr<FileReader> FileReader::Open(const std::string& directory,
                                            const std::string& file) {
  ASSIGN_OR_RETURN(
      const jit::UniqueFd folder,
      jit::OpenFolder(directory, kFolder, jit::FolderAccess::kOwn));
  // O_NONBLOCK: a device that someone put there must not be waited for.
  jit::UniqueFd opened(openat(folder.get(), file.c_str(),
                              O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat facts;
  if (!opened.ok() || fstat(opened.get(), &facts) != 0) {
    return jit::ErrnoStatus(errno, "open a model's file");
  }
  if (!S_ISREG(facts.st_mode)) return Damaged("is no file");
  std::string bytes(kFileHeaderBytes, '\0');
  RETURN_IF_ERROR(ReadExactly(opened.get(), absl::MakeSpan(bytes)));
  ASSIGN_OR_RETURN(FileHeader header, ToFileHeader(bytes));
  if (facts.st_size != header.file_bytes()) {
    return Damaged(absl::StrCat("has ", facts.st_size, " bytes and not ",
                                header.file_bytes()));
  }
  if (file != FileNameOf(header.spec.owner, header.spec.name)) {
    return Damaged("has the name of another model");
  }
  FileReader reader(std::move(opened), std::move(header));
  reader.digest_->Update(bytes);
  return reader;
}

absl::Status FileReader::Read(absl::Span<char> to) {
  RETURN_IF_ERROR(ReadExactly(file_.get(), to));
  digest_->Update(View(to));
  return absl::OkStatus();
}

absl::Status FileReader::CheckDigest() {
  std::string digest(kDigestBytes, '\0');
  RETURN_IF_ERROR(ReadExactly(file_.get(), absl::MakeSpan(digest)));
  return digest == digest_->Bytes() ? absl::OkStatus()
                                    : Damaged("has another checksum");
}

absl::StatusOr<std::vector<FileUse>> ListFiles(const std::string& directory) {
  ASSIGN_OR_RETURN(
      const jit::UniqueFd folder,
      jit::OpenFolder(directory, kFolder, jit::FolderAccess::kCreate));
  std::vector<FileUse> files;
  for (const jit::FileUse& use : jit::UsesIn(folder)) {
    if (absl::EndsWith(use.name, kNewEnding)) {
      unlinkat(folder.get(), use.name.c_str(), 0);
    } else if (absl::EndsWith(use.name, kEnding)) {
      files.push_back({use.name, use.bytes});
    }
  }
  return files;
}

absl::Status RemoveFile(const std::string& directory, const std::string& file) {
  const absl::StatusOr<jit::UniqueFd> folder =
      jit::OpenFolder(directory, kFolder, jit::FolderAccess::kOwn);
  if (absl::IsNotFound(folder.status())) return absl::OkStatus();
  RETURN_IF_ERROR(folder.status());
  if (unlinkat(folder->get(), file.c_str(), 0) != 0 && errno != ENOENT) {
    return jit::ErrnoStatus(errno, "remove a model's file");
  }
  if (fsync(folder->get()) != 0) {
    return jit::ErrnoStatus(errno, "flush the folder of models");
  }
  return absl::OkStatus();
}

}  // namespace gemmd::models
