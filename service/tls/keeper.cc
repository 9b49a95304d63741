#include "service/tls/keeper.h"

#include <utility>

#include "jit/base/of_option.h"
#include "jit/base/status.h"
#include "jit/base/watched_file.h"

namespace gemmd::tls {
namespace {

constexpr int64_t kMaxFileBytes = 4 << 20;

absl::Status Read(absl::string_view option, const std::string& path,
                  std::string& to) {
  ASSIGN_OR_RETURN(to, jit::ReadWatchedFile(option, path, kMaxFileBytes));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Keeper>> Keeper::Open(Files files) {
  auto keeper = std::unique_ptr<Keeper>(new Keeper(std::move(files)));
  RETURN_IF_ERROR(keeper->Reload().status());
  return keeper;
}

absl::StatusOr<Pem> Keeper::Read() const {
  Pem pem;
  RETURN_IF_ERROR(tls::Read("--tls-certificate-file", files_.certificate,
                            pem.certificates));
  RETURN_IF_ERROR(tls::Read("--tls-key-file", files_.key, pem.key));
  if (!files_.client_ca.empty()) {
    RETURN_IF_ERROR(tls::Read("--tls-client-ca-file", files_.client_ca,
                              pem.client_authorities));
    // An empty file must not make client certificates go unasked.
    if (pem.client_authorities.empty()) {
      return jit::OfOption("--tls-client-ca-file", files_.client_ca,
                           "it is empty");
    }
  }
  return pem;
}

absl::Status Keeper::Load(const Pem& pem) {
  ASSIGN_OR_RETURN(auto context, Context::Create(pem, files_));
  std::lock_guard lock(mutex_);
  context_ = std::move(context);
  return absl::OkStatus();
}

absl::StatusOr<bool> Keeper::Reload() {
  return loaded_.Load(Read(), [this](const Pem& pem) { return Load(pem); });
}

absl::Status Keeper::CheckTime(absl::Time now) {
  std::shared_ptr<const Context> present = context();
  const absl::Status status = present->CheckTime(now);
  if (status.ok()) {
    refused_ = nullptr;
    return status;
  }
  const bool is_told = refused_ == present;
  refused_ = std::move(present);
  return is_told ? absl::OkStatus() : status;
}

std::shared_ptr<const Context> Keeper::context() const {
  std::lock_guard lock(mutex_);
  return context_;
}

}  // namespace gemmd::tls
