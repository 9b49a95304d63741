// Models in the folder of --model-repository, a file each: a header of 4 KiB (a
// frame, see jit/base/frame.h, which says what the model is), the elements of
// B, those of the bias, and the SHA-256 of all of that. A file appears whole or
// not at all, and what was damaged is found out when it is read.
// Thread-compatible.
#ifndef GEMMD_SERVICE_MODELS_MODEL_FILE_H_
#define GEMMD_SERVICE_MODELS_MODEL_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "jit/base/file.h"
#include "jit/base/sha256.h"
#include "service/models/model.h"

namespace gemmd::models {

inline constexpr int64_t kFileHeaderBytes = 4096;

// What a file says of its model before the elements.
struct FileHeader {
  Spec spec;
  bool has_bias = false;

  // Of B, and of the bias if there is one.
  std::vector<jit::MatrixLayout> layouts() const;
  // Of the whole file.
  int64_t file_bytes() const;
};

// kFileHeaderBytes of them; and back. DATA_LOSS says what is wrong; any bytes
// may be given.
std::string ToBytes(const FileHeader& header);
absl::StatusOr<FileHeader> ToFileHeader(absl::string_view bytes);

// What the file of a model is called, which depends on these alone.
std::string FileNameOf(const std::string& owner, const std::string& name);

// A file that is being written: gone, unless it is published.
class FileWriter {
 public:
  static absl::StatusOr<FileWriter> Create(const std::string& directory,
                                           const FileHeader& header);
  FileWriter(FileWriter&&) = default;
  ~FileWriter();

  absl::Status Add(absl::Span<const char> bytes);
  // After the last element: all of it is on disk.
  absl::Status Flush();
  // Then: it is there, also after a power cut.
  absl::Status Publish();

 private:
  FileWriter(jit::UniqueFd folder, jit::UniqueFd file, std::string name);

  jit::UniqueFd folder_;
  jit::UniqueFd file_;
  const std::string name_;
  std::unique_ptr<jit::Sha256> digest_ = std::make_unique<jit::Sha256>();
};

// A file that is there, of whose elements none has been read.
class FileReader {
 public:
  // DATA_LOSS when it is no model's file or has not the length that its header
  // says.
  static absl::StatusOr<FileReader> Open(const std::string& directory,
                                         const std::string& file);

  const FileHeader& header() const { return header_; }
  // The next bytes of elements.
  absl::Status Read(absl::Span<char> to);
  // After the last one: DATA_LOSS unless all of it was as it was written.
  absl::Status CheckDigest();

 private:
  FileReader(jit::UniqueFd file, FileHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  jit::UniqueFd file_;
  FileHeader header_;
  std::unique_ptr<jit::Sha256> digest_ = std::make_unique<jit::Sha256>();
};

// Of the models in `directory`, and what they take of the disk; what a crash
// left is removed. The folder is made when it is not there.
struct FileUse {
  std::string name;
  int64_t bytes = 0;
};
absl::StatusOr<std::vector<FileUse>> ListFiles(const std::string& directory);
// OK when it is not there, or its folder is not.
absl::Status RemoveFile(const std::string& directory, const std::string& file);

}  // namespace gemmd::models

#endif  // GEMMD_SERVICE_MODELS_MODEL_FILE_H_
