// Resident tensors of a real server: created, filled, read and deleted.
#ifndef GEMMD_TESTS_INTEGRATION_TENSORS_FIXTURE_H_
#define GEMMD_TESTS_INTEGRATION_TENSORS_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/integration/test_server.h"

namespace gemmd::testing {

class TensorsTest : public ::testing::Test {
 protected:
  grpc::Status Create(const v1::CreateTensorRequest& request) {
    grpc::ClientContext context;
    return tensors_->CreateTensor(&context, request, &info_);
  }

  static v1::CreateTensorRequest Request(v1::DataType type, int64_t rows,
                                         int64_t columns) {
    v1::CreateTensorRequest request;
    request.set_dtype(type);
    request.set_rows(rows);
    request.set_columns(columns);
    return request;
  }
  // The handle.
  std::string Create(v1::DataType type, int64_t rows, int64_t columns) {
    const grpc::Status status = Create(Request(type, rows, columns));
    EXPECT_TRUE(status.ok()) << status.error_message();
    return info_.handle();
  }
  std::string CreateF32(int64_t rows, int64_t columns) {
    return Create(v1::DATA_TYPE_F32, rows, columns);
  }

  static v1::UploadTensorRequest Header(const std::string& handle,
                                        int64_t leading_dimension = 0) {
    v1::UploadTensorRequest request;
    request.mutable_header()->set_handle(handle);
    request.mutable_header()->mutable_layout()->set_leading_dimension(
        leading_dimension);
    return request;
  }

  static v1::UploadTensorRequest Data(const std::string& bytes) {
    v1::UploadTensorRequest request;
    request.set_data(bytes);
    return request;
  }

  grpc::Status Upload(const std::vector<v1::UploadTensorRequest>& messages) {
    grpc::ClientContext context;
    auto writer = tensors_->UploadTensor(&context, &info_);
    for (const auto& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  grpc::Status UploadAll(const std::string& handle, const std::string& bytes,
                         size_t chunk, int64_t leading_dimension = 0) {
    std::vector<v1::UploadTensorRequest> messages = {
        Header(handle, leading_dimension)};
    for (size_t at = 0; at < bytes.size(); at += chunk) {
      messages.push_back(Data(bytes.substr(at, chunk)));
    }
    return Upload(messages);
  }

  // The bytes; empty with `status_` when it fails.
  std::string Download(const std::string& handle, int64_t chunk_bytes = 0,
                       int64_t leading_dimension = 0) {
    v1::DownloadTensorRequest request;
    request.set_handle(handle);
    request.set_chunk_bytes(chunk_bytes);
    request.mutable_layout()->set_leading_dimension(leading_dimension);
    grpc::ClientContext context;
    auto reader = tensors_->DownloadTensor(&context, request);
    std::string bytes;
    v1::DownloadTensorResponse response;
    while (reader->Read(&response)) {
      if (chunk_bytes > 0) {
        EXPECT_LE(response.data().size(), static_cast<size_t>(chunk_bytes));
      }
      bytes += response.data();
    }
    status_ = reader->Finish();
    return bytes;
  }

  grpc::Status Delete(const std::string& handle) {
    v1::DeleteTensorRequest request;
    request.set_handle(handle);
    grpc::ClientContext context;
    v1::DeleteTensorResponse response;
    return tensors_->DeleteTensor(&context, request, &response);
  }

  TestServer server_;
  std::unique_ptr<v1::TensorService::Stub> tensors_ =
      v1::TensorService::NewStub(server_.channel());
  v1::TensorInfo info_;
  grpc::Status status_;
};

// Bytes that tell where they were.
inline std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i * 131 + i / 251);
  }
  return bytes;
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_TENSORS_FIXTURE_H_
