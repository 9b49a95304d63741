"""The structure of the tree: who may include whom, and house rules that a
compiler does not check. Each rule prints the lines that break it."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
DRIVER_CALL = re.compile(
    r"\bcu(Mem|Ctx|Init|Launch|Module|Library|Kernel|Func|Stream|Event|Device"
    r"|TensorMap|Ipc|Graph)[A-Z]\w*\s*\("
)

# What each room may include of the project besides itself: rooms, or single
# files. templates/common
# holds the one definition of kernel arguments, shared with the host.
ARROWS = {
    "jit/base": set(),
    "jit/problem": {"jit/base"},
    "jit/plan": {"jit/base", "jit/problem", "templates/common"},
    "jit/source": {"jit/base", "jit/problem", "jit/plan"},
    "jit/compile": {"jit/base", "jit/source"},
    "jit/cache": {"jit/base", "jit/problem", "jit/plan", "jit/source",
                  "jit/compile"},
    "proto/checksum": set(),
    "proto/convert": {"jit"},
    "service/device": {"jit"},
    "service/host": {"service/device", "jit"},
    "service/gpu": {"service/device", "jit", "templates/common"},
    "service/log": {"jit/base"},
    "service/identity": {"jit/base"},
    "service/tls": {"jit/base"},
    "service/metrics": {"jit/base"},
    "service/engine": {"service/device", "service/metrics", "jit"},
    "service/models": {"service/engine", "service/device", "service/log",
                       "proto/convert", "jit"},
    "service/rpc": {"service/engine", "service/identity", "service/tls",
                    "service/models",
                    "service/device", "service/log", "service/metrics",
                    "proto/checksum", "proto/convert", "jit"},
    "service/monitor": {"service/rpc", "service/engine", "service/device",
                        "service/metrics", "service/log", "jit"},
    "service/daemon": {"service/monitor", "service/rpc", "service/engine",
                       "service/device", "service/host", "service/gpu",
                       "service/log", "jit",
                       "clients/cli", "clients/warmup/instances.h",
                       "clients/warmup/presets.h"},
    "clients/cli": {"jit/base"},
    "clients/cpp": {"jit/base/status.h", "jit/base/steady_time.h",
                    "proto/checksum"},
    "clients/gemmctl": {"clients/cpp", "clients/cli", "proto/convert", "jit",
                        "service/host/fp8.h"},
    "clients/warmup": {"clients/cpp", "clients/cli", "proto/convert", "jit"},
}
# Who asks what time of day it is, which somebody may set, and why. All else is
# told by jit/base/steady_time.h.
TIME_OF_DAY = {
    "jit/base/steady_time.h": "it begins with it",
    "jit/base/folder.h": "times of files",
    "jit/cache/disk_store.cc": "times of files",
    "jit/cache/quota.cc": "times of files",
    "jit/compile/file_notes.cc": "times of files",
    "service/rpc/access_files.cc": "a certificate's end",
    "service/rpc/call.cc": "ends of tokens and certificates",
    "service/rpc/kserve/infer.cc": "statistics that people read",
    "service/rpc/server.cc": "a list that people read",
}
ASKS_TIME_OF_DAY = re.compile(
    r"absl::Now\(|system_clock|CLOCK_REALTIME|gettimeofday\(|\btime\((nullptr|0)")
# Headers that only these rooms may include.
GRPC_ROOMS = ("service/rpc", "service/identity", "service/models",
              "clients/cpp", "clients/gemmctl", "clients/warmup")


def tracked(*patterns):
    listing = subprocess.run(
        ["git", "ls-files", "--", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    return [path for path in listing.splitlines() if (ROOT / path).exists()]


def lines(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    return enumerate(text.splitlines(), start=1)


def includes(path):
    for number, line in lines(path):
        match = INCLUDE.match(line)
        if match:
            yield number, match[1], match[2]


class StructureTest(unittest.TestCase):
    def assert_none(self, findings):
        self.assertEqual([], findings, "\n" + "\n".join(findings))

    def test_arrows_between_rooms(self):
        rooms = sorted({*ARROWS, "jit", "service", "templates"}, key=len, reverse=True)
        findings = []
        for room, allowed in ARROWS.items():
            sources = tracked(f"{room}/*.h", f"{room}/*.cc")
            self.assertTrue(sources, f"{room} holds no source")
            for path in sources:
                for number, _, name in includes(path):
                    target = next((r for r in rooms if name.startswith(r + "/")),
                                  None)
                    if target in (None, room):
                        continue
                    if not any(name == a or name.startswith(a + "/")
                               for a in allowed):
                        findings.append(f"{path}:{number} includes {name}")
        self.assert_none(findings)

    def test_grpc_stays_at_the_edge(self):
        self.assert_none([
            f"{path}:{number} includes {name}"
            for path in tracked("jit/*", "service/*", "clients/*")
            if path.endswith((".h", ".cc")) and path != "service/main.cc"
            and not path.startswith(GRPC_ROOMS)
            for number, _, name in includes(path)
            if name.startswith(("grpc", "google/protobuf", "gemmd/v1/",
                                "inference/"))
        ])

    def test_only_the_gpu_room_calls_the_driver(self):
        self.assert_none([
            f"{path}:{number} {line.strip()}"
            for path in tracked("jit/*", "service/*", "clients/*")
            if path.endswith((".h", ".cc"))
            and not path.startswith("service/gpu/")
            for number, line in lines(path) if DRIVER_CALL.search(line)
        ])

    def test_nothing_lasts_by_a_clock_that_may_be_set(self):
        asks = {}
        for path in tracked("jit/*", "service/*", "clients/*"):
            if path.endswith((".h", ".cc")):
                for number, line in lines(path):
                    line = line.partition("//")[0]
                    if (ASKS_TIME_OF_DAY.search(line)
                            and "gpr_inf_past" not in line):
                        asks.setdefault(path, f"{path}:{number} {line.strip()}")
        self.assert_none([found for path, found in asks.items()
                          if path not in TIME_OF_DAY])
        self.assert_none(sorted(set(TIME_OF_DAY) - set(asks)))

    def test_templates_are_header_free(self):
        self.assert_none([
            f"{path}:{number} includes {name}"
            for path in tracked("templates/*.h", "templates/*.cu")
            for number, bracket, name in includes(path)
            if bracket == "<" or not (ROOT / "templates" / name).exists()
        ])

    def test_assembly_lives_in_ptx(self):
        self.assert_none([
            f"{path}:{number}"
            for path in tracked("templates/*.h", "templates/*.cu")
            if not path.startswith("templates/ptx/")
            for number, line in lines(path) if re.search(r"\basm\b", line)
        ])

    def test_product_names_no_kernel_library(self):
        names = re.compile(r"#\s*include.*(cublas|cutlass|cute/|cuda_runtime)")
        self.assert_none([
            f"{path}:{number} {line}"
            for path in tracked("jit/*", "service/*", "clients/*",
                                "templates/*")
            if path.endswith((".h", ".cc", ".cu"))
            for number, line in lines(path) if names.search(line)
        ])

    def test_every_header_says_what_it_is(self):
        self.assert_none([
            path for path in tracked("*.h", "*.cu")
            if not (ROOT / path).read_text(encoding="utf-8").startswith("//")
        ])

    def test_nothing_is_left_for_later(self):
        marker = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
        self.assert_none([
            f"{path}:{number} {line.strip()}"
            for path in tracked("*.h", "*.cc", "*.cu", "*.py", "*.sh",
                                "*.proto", "*.cmake", "*CMakeLists.txt")
            for number, line in lines(path) if marker.search(line)
        ])

    def test_top_level_is_as_designed(self):
        allowed = {"CMakeLists.txt", "service", "proto", "jit", "templates",
                   "clients", "tests", "deploy", "README.md"}
        present = {path.split("/")[0] for path in tracked(".")}
        self.assert_none(sorted(
            name for name in present - allowed if not name.startswith(".")))


if __name__ == "__main__":
    unittest.main()
