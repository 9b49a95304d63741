// Where the daemon keeps kernels when nobody says where, how times are given,
// and which options go together.
#include "service/daemon/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "clients/cli/command_line.h"

namespace gemmd::daemon {
namespace {

std::string DirectoryWith(const char* home, const char* xdg) {
  setenv("HOME", home, 1);
  setenv("XDG_CACHE_HOME", xdg, 1);
  return Options().cache.directory;
}

TEST(OptionsTest, TheCacheLiesAtHome) {
  EXPECT_EQ(DirectoryWith("/home/me", ""), "/home/me/.cache/gemmd");
  EXPECT_EQ(DirectoryWith("/home/me", "/scratch"), "/scratch/gemmd");
  EXPECT_EQ(DirectoryWith("", ""), "");
}

// A cache in each folder that a daemon was ever started in is no cache.
TEST(OptionsTest, ARelativeHomeIsNone) {
  EXPECT_EQ(DirectoryWith("home", "cache"), "");
  EXPECT_EQ(DirectoryWith("/home/me", "cache"), "/home/me/.cache/gemmd");
}

// Some would count seconds, some milliseconds or less.
TEST(OptionsTest, TimesHaveUnits) {
  Options options;
  cli::Program program("gemmd", "");
  Declare(program, options);
  const auto error = [&](const std::string& line) {
    return std::string(program.ParseLine(line).message());
  };
  for (const std::string name : {"--spin", "--drain-grace", "--drain-timeout",
                                 "--max-wait", "--hang-limit", "--max-work"}) {
    EXPECT_EQ(error(name + "=30"),
              name +
                  " is 30; allowed: a time with its unit, such as 500ms, "
                  "30s, 1h30m");
  }
  EXPECT_EQ(error("--drain-timeout=30s --drain-grace=0"), "");
  EXPECT_EQ(options.server.drain_timeout, absl::Seconds(30));
  EXPECT_EQ(options.server.drain_grace, absl::ZeroDuration());
}

std::string Error(const std::function<void(Options&)>& change) {
  Options options;
  change(options);
  return std::string(Check(options).message());
}

TEST(OptionsTest, WhatIsSaidOfRedisNeedsIt) {
  const std::pair<std::string, std::function<void(Options&)>> cases[] = {
      {"--cache-redis-ca-file", [](Options& o) { o.redis_ca_file = "x"; }},
      {"--cache-redis-allow-unsigned",
       [](Options& o) { o.redis_allow_unsigned = true; }},
      {"--cache-redis-password-file",
       [](Options& o) { o.redis_password_file = "x"; }},
      {"--cache-signing-key-file",
       [](Options& o) { o.signing_key_file = "x"; }}};
  for (const auto& [name, give] : cases) {
    EXPECT_EQ(Error(give), name + " needs --cache-redis");
    EXPECT_EQ(Error([&](Options& o) {
                give(o);
                o.redis = "unix:/x";
              }),
              "");
  }
}

TEST(OptionsTest, AnAddressIsListenedOnOnce) {
  const auto listen = [](std::vector<std::string> addresses) {
    return Error([&](Options& o) { o.server.listen = std::move(addresses); });
  };
  EXPECT_EQ(listen({"unix:/x", "127.0.0.1:1", "unix:/x"}),
            "--listen has unix:/x twice; allowed: once");
  EXPECT_EQ(listen({"127.0.0.1:50", "127.0.0.1:50"}),
            "--listen has 127.0.0.1:50 twice; allowed: once");
  EXPECT_EQ(listen({"unix:/x", "unix:/y", "127.0.0.1:0", "127.0.0.1:0"}), "");
}

TEST(OptionsTest, WhereItListensIsChecked) {
  EXPECT_EQ(Options().server.listen,
            (std::vector<std::string>{"127.0.0.1:50051"}));
  EXPECT_EQ(Error([](Options& o) { o.server.listen.clear(); }),
            "--listen is empty; the daemon needs an address to serve at");
  EXPECT_EQ(
      Error([](Options& o) { o.monitor.listen = "localhost"; }).substr(0, 30),
      "--metrics-listen is localhost:");
  const auto show = [](Options& o) { o.monitor.status_page = true; };
  EXPECT_EQ(Error(show),
            "--status-page has nowhere to be shown; it needs --metrics-listen");
  EXPECT_EQ(Error([&](Options& o) {
              show(o);
              o.monitor.listen = "127.0.0.1:0";
            }),
            "");
}

TEST(OptionsTest, APresetIsKnown) {
  EXPECT_EQ(Error([](Options& o) { o.presets = {"llama-3-8b"}; }), "");
  EXPECT_NE(Error([](Options& o) {
              o.presets = {"llama-3-8b", "nobody"};
            }),
            "");
}

TEST(OptionsTest, ThereIsRoomForOneMessage) {
  const auto hold = [](int64_t bytes) {
    return Error([=](Options& o) {
      o.server.limits.max_message_bytes = 1 << 20;
      o.server.limits.max_in_flight_bytes = bytes;
    });
  };
  EXPECT_EQ(hold(1 << 20), "");
  EXPECT_EQ(hold((1 << 20) - 1),
            "--max-inflight-bytes is 1048575; allowed: from 1MiB, "
            "--max-message-bytes");
}

TEST(OptionsTest, TheHostIsToldItsArithmetic) {
  Options options;
  EXPECT_EQ(HostOptions(options).arithmetic, device::SumArithmetic::kHopper);
  options.host_arithmetic = "double";
  EXPECT_EQ(HostOptions(options).arithmetic, device::SumArithmetic::kDouble);
}

TEST(OptionsTest, FilesOfIdentityGoTogether) {
  EXPECT_EQ(Error([](Options& o) { o.server.tls.certificate = "x"; }),
            "--tls-certificate-file and --tls-key-file go together");
  EXPECT_EQ(Error([](Options& o) { o.server.tls.key = "x"; }),
            "--tls-certificate-file and --tls-key-file go together");
  EXPECT_EQ(Error([](Options& o) { o.server.tls.client_ca = "x"; }),
            "--tls-client-ca-file needs --tls-certificate-file");
  EXPECT_EQ(Error([](Options& o) { o.server.identity.token_digests = "x"; }),
            "--token-digest-file needs --policy-file, which says what "
            "principals may do");
  EXPECT_EQ(Error([](Options& o) {
              o.server.tls = {.certificate = "x", .key = "x", .client_ca = "x"};
            }),
            "--tls-client-ca-file needs --policy-file, which says what "
            "principals may do");
  EXPECT_EQ(Error([](Options& o) {
              o.server.identity.policy = "x";
              o.server.limits.admin_calls = true;
            }),
            "--admin-calls is for everybody; with --policy-file, give the role "
            "admin to those who are to have it");
  EXPECT_EQ(Error([](Options& o) {
              o.server.tls = {.certificate = "x", .key = "x", .client_ca = "x"};
              o.server.identity = {.policy = "x", .token_digests = "x"};
            }),
            "");
}

}  // namespace
}  // namespace gemmd::daemon
