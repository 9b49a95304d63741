#include "service/monitor/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/service/monitor/http_client.h"

namespace gemmd::monitor {
namespace {

using testing::ConnectTo;
using testing::Fetch;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::ReceiveAll;
using testing::Send;
using ::testing::StartsWith;

std::unique_ptr<HttpServer> Echo(const std::string& address = "127.0.0.1:0") {
  auto server = HttpServer::Start(address, [](absl::string_view path) {
    return HttpResponse{200, "text/plain", "path " + std::string(path)};
  });
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(HttpServerTest, AnswersAPath) {
  const auto server = Echo();
  EXPECT_THAT(server->address(), Not(HasSubstr(":0")));
  const std::string answer = Fetch(server->address(), "/a?b=c");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain\r\n"));
  EXPECT_TRUE(absl::EndsWith(answer, "\r\n\r\npath /a"));
}

TEST(HttpServerTest, HeadGivesHeadersAlone) {
  const std::string answer = Fetch(Echo()->address(), "/a", "HEAD");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(absl::EndsWith(answer, "\r\n\r\n"));
}

TEST(HttpServerTest, OnlyReads) {
  const auto server = Echo();
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE"}) {
    EXPECT_THAT(Fetch(server->address(), "/a", method),
                StartsWith("HTTP/1.1 405 "))
        << method;
  }
}

TEST(HttpServerTest, NothingOfOthersIsLoadedOrFramed) {
  const std::string answer = Fetch(Echo()->address(), "/");
  EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(answer, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(answer, HasSubstr("Cache-Control: no-store"));
  EXPECT_THAT(answer, HasSubstr("Cross-Origin-Resource-Policy: same-origin"));
  EXPECT_THAT(answer, HasSubstr("Referrer-Policy: no-referrer"));
}

// A name that was made to lead here, in the browser of somebody on this
// machine.
TEST(HttpServerTest, OnLoopbackHostsAreLoopback) {
  const auto server = Echo();
  for (const char* host : {"evil.example", "evil.example:80", "10.0.0.1",
                           "127.0.0.1.evil.example", "unix:/x", ""}) {
    EXPECT_THAT(Fetch(server->address(), "/", "GET", host),
                StartsWith("HTTP/1.1 421 "))
        << host;
  }
  for (const char* host : {"localhost", "LocalHost:9464", "127.0.0.1:9464",
                           "[::1]:9464", "[::1]"}) {
    EXPECT_THAT(Fetch(server->address(), "/", "GET", host),
                StartsWith("HTTP/1.1 200 "))
        << host;
  }
}

// The start of the answer to `request`, which lacks the empty line.
std::string Asked(const HttpServer& server, const std::string& request) {
  const jit::UniqueFd fd = ConnectTo(server.address());
  Send(fd, request + "\r\n");
  return ReceiveAll(fd).substr(0, 12);
}

// Probes of load balancers among them.
TEST(HttpServerTest, WhoIsNoBrowserNeedNotNameAHost) {
  const auto server = Echo();
  EXPECT_EQ(Asked(*server, "GET / HTTP/1.0\r\n"), "HTTP/1.1 200");
  EXPECT_EQ(Asked(*server, "GET / HTTP/1.0\r\nHost: localhost\r\n"),
            "HTTP/1.1 200");
  EXPECT_EQ(Asked(*server, "GET / HTTP/1.0\r\nHost: evil.example\r\n"),
            "HTTP/1.1 421");
  EXPECT_THAT(Asked(*server, "GET / HTTP/1.1\r\n"), Not(HasSubstr("200")));
}

TEST(HttpServerTest, ARequestNamesOneHost) {
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    const auto server = Echo(address);
    for (const char* hosts : {"Host: localhost\r\nHost: evil.example",
                              "Host: evil.example\r\nHost: localhost",
                              "Host: localhost\r\nhost: localhost",
                              "Host : evil.example\r\nHost: localhost"}) {
      EXPECT_EQ(
          Asked(*server, absl::StrCat("GET / HTTP/1.1\r\n", hosts, "\r\n")),
          "HTTP/1.1 400")
          << hosts;
    }
  }
}

// RFC 9110, 5.5.
TEST(HttpServerTest, BlanksAroundAHostAreNoneOfIt) {
  const auto server = Echo();
  for (const char* host : {"localhost ", " \tlocalhost:9464\t ", "[::1] "}) {
    EXPECT_THAT(Fetch(server->address(), "/", "GET", host),
                StartsWith("HTTP/1.1 200 "))
        << host;
  }
  for (const char* host : {"local host", "a@localhost", "local\x01host"}) {
    EXPECT_THAT(Fetch(server->address(), "/", "GET", host),
                StartsWith("HTTP/1.1 400 "))
        << host;
  }
}

// The library cuts values there, and refuses names.
TEST(HttpServerTest, AHostEndsAtANul) {
  const auto server = Echo();
  const auto asked = [&](absl::string_view header) {
    return Asked(*server, absl::StrCat("GET / HTTP/1.1\r\n", header, "\r\n"));
  };
  EXPECT_EQ(asked({"Host: evil.example\0localhost", 28}), "HTTP/1.1 421");
  EXPECT_EQ(asked({"Host: \0localhost", 16}), "HTTP/1.1 421");
  EXPECT_EQ(asked({"Host: localhost\0.evil.example", 29}), "HTTP/1.1 200");
  EXPECT_EQ(asked({"Host: localhost\0\r\nHost: evil.example", 36}),
            "HTTP/1.1 400");
  EXPECT_EQ(asked({"Host\0: evil.example\r\nHost: localhost", 36}),
            "HTTP/1.1 400");
}

// As proxies ask. RFC 9112, 3.2.2.
TEST(HttpServerTest, ATargetMayNameTheHost) {
  const auto server = Echo();
  for (const auto& [target, path] :
       {std::pair("http://localhost:9464/metrics?b=c", "/metrics"),
        std::pair("HTTP://[::1]/a/b", "/a/b"),
        std::pair("http://127.0.0.1:9464", "/"),
        std::pair("http://localhost?b", "/")}) {
    const std::string answer = Fetch(server->address(), target);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 ")) << target;
    EXPECT_TRUE(absl::EndsWith(answer, absl::StrCat("\npath ", path)))
        << target;
  }
}

TEST(HttpServerTest, TheHostOfATargetCountsMoreThanTheHeader) {
  const auto server = Echo();
  EXPECT_THAT(
      Fetch(server->address(), "http://localhost/", "GET", "evil.example"),
      StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Fetch(server->address(), "http://evil.example/"),
              StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(Fetch(server->address(), "http://a@localhost/"),
              StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(Asked(*server, "GET http://evil.example/ HTTP/1.0\r\n"),
            "HTTP/1.1 421");
  EXPECT_EQ(Asked(*server, "GET http:///a HTTP/1.0\r\n"), "HTTP/1.1 421");
}

TEST(HttpServerTest, ElsewhereAnyHostWillDo) {
  const auto server = Echo("0.0.0.0:0");
  EXPECT_THAT(Fetch(server->address(), "/", "GET", "node.cluster.local"),
              StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServerTest, AnAddressInUseIsAnError) {
  const auto server = Echo();
  const auto other = HttpServer::Start(
      server->address(), [](absl::string_view) { return HttpResponse(); });
  EXPECT_EQ(other.status().code(), absl::StatusCode::kUnavailable);
}

// Many more than there may be, which say nothing, stop in the middle, or do not
// read what they have asked for.
TEST(HttpServerTest, SilentClientsKeepNobodyOut) {
  const auto server = Echo();
  for (const char* said :
       {"", "GET / HTTP/1.1\r\nX: ", "GET / HTTP/1.1\r\n\r\n"}) {
    std::vector<jit::UniqueFd> silent;
    for (int i = 0; i < 10 * HttpServer::kMaxConnections; ++i) {
      silent.push_back(ConnectTo(server->address()));
      Send(silent.back(), said);
    }
    const absl::Time start = absl::Now();
    EXPECT_THAT(Fetch(server->address(), "/"), StartsWith("HTTP/1.1 200 "));
    EXPECT_LT(absl::Now() - start, absl::Seconds(1)) << said;
  }
}

// It is there for as long as there is room.
TEST(HttpServerTest, AFewSilentClientsAreWaitedFor) {
  const auto server = Echo();
  std::vector<jit::UniqueFd> silent;
  for (int i = 0; i < HttpServer::kMaxConnections / 2 - 1; ++i) {
    silent.push_back(ConnectTo(server->address()));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Fetch(server->address(), "/"), StartsWith("HTTP/1.1 200 "));
  }
  absl::SleepFor(absl::Seconds(2));
  ASSERT_TRUE(
      Send(silent.front(), "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_THAT(ReceiveAll(silent.front()), HasSubstr("path /a"));
}

TEST(HttpServerTest, ATricklingClientIsEnded) {
  const auto server = Echo();
  const jit::UniqueFd slow = ConnectTo(server->address());
  Send(slow, "GET / HTTP/1.1\r\nX: ");
  const absl::Time start = absl::Now();
  while (Send(slow, "x") && absl::Now() - start < absl::Minutes(1)) {
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(40));
}

TEST(HttpServerTest, EndlessHeadersAreRefused) {
  const auto server = Echo();
  const jit::UniqueFd fd = ConnectTo(server->address());
  Send(fd, "GET / HTTP/1.1\r\n");
  const std::string header = "X: " + std::string(1000, 'x') + "\r\n";
  for (int i = 0; i < 1000 && Send(fd, header); ++i) {
  }
  EXPECT_THAT(ReceiveAll(fd), Not(HasSubstr("path")));
}

TEST(HttpServerTest, WhatIsNoHttpIsNotAnswered) {
  const auto server = Echo();
  const jit::UniqueFd fd = ConnectTo(server->address());
  Send(fd, std::string("\x16\x03\x01\x00\r\n\r\n\0\xff", 10));
  EXPECT_THAT(ReceiveAll(fd), Not(HasSubstr("path")));
  EXPECT_THAT(Fetch(server->address(), "/"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServerTest, ItsEndWaitsForNobody) {
  auto server = Echo();
  const jit::UniqueFd silent = ConnectTo(server->address());
  const std::string address = server->address();
  Fetch(address, "/");
  const absl::Time start = absl::Now();
  server.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_THAT(ReceiveAll(silent), IsEmpty());
  EXPECT_FALSE(ConnectTo(address).ok());
}

}  // namespace
}  // namespace gemmd::monitor
