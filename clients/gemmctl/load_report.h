// What `gemmctl load` prints. Pure functions.
#ifndef GEMMD_CLIENTS_GEMMCTL_LOAD_REPORT_H_
#define GEMMD_CLIENTS_GEMMCTL_LOAD_REPORT_H_

#include <google/protobuf/struct.pb.h>

#include <memory>
#include <string>
#include <vector>

#include "clients/gemmctl/load_run.h"

namespace gemmd::gemmctl {

// result.by_work[i] is of works[i].
std::string LoadText(const LoadOptions& options, const LoadResult& result,
                     const std::vector<std::unique_ptr<Work>>& works);

// The same as JSON; times in microseconds, bytes and operations a second.
google::protobuf::Struct LoadJson(
    const LoadOptions& options, const LoadResult& result,
    const std::vector<std::unique_ptr<Work>>& works);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_LOAD_REPORT_H_
