"""Models with weights: made by gemmctl, served to Triton's client, kept by a
restart, and nobody else's."""

import json
import os
import pathlib
import tempfile
import time
import unittest

import grpc
import numpy as np
import tritonclient.grpc as triton

import gemmd
from secure_daemon import SecureDaemon
from triton_case import (BF16, HostDaemon, TritonCase, array_of, given,
                         values)


class ModelsTest(TritonCase):
    def make(self, name, b, *words, **options):
        handle = self.upload(b)
        self.gemmctl("model", "create", name, "--b", handle, *words)
        self.gemmctl("tensor", "delete", handle)
        self.addCleanup(self.gemmctl, "model", "delete", name)

    def check(self, name, a, b, **options):
        """The model gives what our own client gets with those weights."""
        d = self.product({"A": a}, name)
        own = self.gemmd.matmul(a, b, **options)
        self.assertEqual((d.dtype, d.shape), (own.dtype, own.shape))
        self.assertEqual(d.tobytes(), own.tobytes())

    def test_every_type_of_weights(self):
        for dtype in (np.float32, np.float16, BF16, np.int8, np.uint8):
            name = f"linear.{np.dtype(dtype).name}"
            with self.subTest(name):
                b = values(30, 20, dtype=dtype)
                self.make(name, b)
                for shape in ((7, 30), (30,), (2, 7, 30), (0, 30),
                              (2, 3, 1, 30)):
                    self.check(name, values(*shape, dtype=dtype), b)

    def test_options(self):
        b, bias = values(30, 20, dtype=np.float16), values(1, 20)
        a = values(5, 30, dtype=np.float16)
        handle = self.upload(bias)
        self.make("mlp", b, "--bias", handle, "--act", "gelu", "--d-type",
                  "f32", "--alpha", "0.5")
        self.gemmctl("tensor", "delete", handle)
        self.check("mlp", a, b, bias=bias[0], activation="gelu", alpha=0.5,
                   out_dtype=np.float32)
        self.refuse("INVALID_ARGUMENT", "'BIAS' for model 'mlp'; allowed: A",
                    self.product, {"A": a, "BIAS": bias}, "mlp")
        self.make("across", b.T.copy(), "--transposed")
        self.check("across", a, b)
        own = self.gemmd.matmul(a, b, bias=bias[0])
        theirs = self.product({"A": a, "BIAS": bias[0]}, "across")
        self.assertEqual(theirs.tobytes(), own.tobytes())
        # A tensor that lies by columns.
        with self.gemmd.tensor(np.asfortranarray(b)) as tensor:
            self.gemmctl("model", "create", "columns", "--b", tensor.handle)
        self.check("columns", a, b)
        self.gemmctl("model", "delete", "columns")
        self.make("tf32", values(30, 20), "--precision", "tf32", "--invariant")
        self.check("tf32", values(5, 30), values(30, 20), precision="tf32",
                   invariant=True)

    def test_a_batch_of_weights(self):
        b = values(3, 30, 20)
        self.make("experts", b)
        for shape in ((3, 4, 30), (1, 4, 30), (4, 30), (30,)):
            self.check("experts", values(*shape), b)
        self.refuse("INVALID_ARGUMENT", "allowed: a batch of 3", self.product,
                    {"A": values(2, 3, 4, 30)}, "experts")
        self.refuse("INVALID_ARGUMENT", "does not go with that of B, [3]",
                    self.product, {"A": values(2, 4, 30)}, "experts")
        shape = self.client.get_model_metadata("experts").inputs[0].shape
        self.assertEqual(list(shape), [3, -1, 30])

    def test_nothing_is_added_to_integers(self):
        self.make("whole", np.ones((30, 20), np.int8))
        inputs = self.client.get_model_metadata("whole").inputs
        self.assertEqual([i.name for i in inputs], ["A"])
        config = self.client.get_model_config("whole").config
        self.assertEqual([i.name for i in config.input], ["A"])
        self.refuse("INVALID_ARGUMENT", "'BIAS' for model 'whole'; allowed: A",
                    self.product, {"A": np.ones((2, 30), np.int8),
                                   "BIAS": values(20)}, "whole")

    def test_what_is_said_of_it(self):
        self.make("linear", values(30, 20, dtype=np.float16), "--d-type", "f32")
        self.assertTrue(self.client.is_model_ready("linear"))
        metadata = self.client.get_model_metadata("linear", as_json=True)
        self.assertEqual(metadata["inputs"][0], {
            "name": "A", "datatype": "FP16", "shape": ["-1", "30"]})
        self.assertEqual(metadata["outputs"], [
            {"name": "D", "datatype": "FP32", "shape": ["-1", "20"]}])
        config = self.client.get_model_config("linear").config
        self.assertEqual(list(config.output[0].dims), [-1, 20])
        index = self.client.get_model_repository_index().models
        self.assertEqual([m.name for m in index], ["linear", "matmul"])
        self.product({"A": values(2, 30, dtype=np.float16)}, "linear")
        stats = {m.name: m.inference_count for m in
                 self.client.get_inference_statistics().model_stats}
        self.assertEqual(stats["linear"], 1)
        listed = json.loads(self.gemmctl("model", "list", "--json"))["models"]
        self.assertEqual([m["name"] for m in listed], ["linear"])
        self.assertIn("linear: A f16 * x 30, D f32 * x 20, on host",
                      self.gemmctl("model", "list"))

    def test_weights_are_as_they_were(self):
        b = values(30, 20)
        with self.gemmd.tensor(b) as tensor:
            self.gemmctl("model", "create", "fixed", "--b", tensor.handle)
            tensor.upload(values(30, 20, seed=9))
        self.check("fixed", values(3, 30), b)
        self.gemmctl("model", "delete", "fixed")
        self.refuse("NOT_FOUND", "unknown model: 'fixed'", self.product,
                    {"A": values(3, 30)}, "fixed")

    def test_what_is_wrong(self):
        b = self.upload(values(30, 20))
        def refused(text, name, *words, code=1):
            self.assertIn(text, self.gemmctl("model", "create", name, *words,
                                             code=code))
        for name in ("", "x" * 65, "a b", ".hidden", "a/b", "ä", "matmul"):
            refused("allowed: 1 to 64 letters", name, "--b", b)
        refused("no tensor", "m", "--b", "0" * 32)
        refused("32 hexadecimal", "m", "--b", "x")
        refused("bias: no tensor", "m", "--b", b, "--bias", "0" * 32)
        refused("bias is f32 30 x 20", "m", "--b", b, "--bias", b)
        refused("--b", "m", code=2)
        for words in (("--a-type", "f16"), ("--d-type", "s32"),
                      ("--precision", "low"), ("--act", "tanh")):
            done = self.gemmctl_any("model", "create", "m", "--b", b, *words)
            self.assertRegex(done, "allowed|served")
        refused("which the inference protocol has no name for", "m", "--b", b,
                "--d-type", "e4m3")
        self.make("m", values(2, 2))
        refused("ALREADY_EXISTS: there is a model m", "m", "--b", b)
        self.assertIn("NOT_FOUND: no model nobody", self.gemmctl(
            "model", "delete", "nobody", code=1))
        self.refuse("INVALID_ARGUMENT", "expects 'FP32'", self.product,
                    {"A": values(2, 2, dtype=np.float16)}, "m")
        self.refuse("INVALID_ARGUMENT", "allowed: A, BIAS", self.product,
                    {"A": values(2, 2), "B": values(2, 2)}, "m")
        self.refuse("INVALID_ARGUMENT", "whose product is fixed", self.product,
                    {"A": values(2, 2)}, "m", parameters={"alpha": 2.0})
        self.refuse("INVALID_ARGUMENT", "input 'A' is missing", self.product,
                    {}, "m")
        self.refuse("INVALID_ARGUMENT", "3 columns, and those of B 2 rows",
                    self.product, {"A": values(2, 3)}, "m")

    def gemmctl_any(self, *words):
        try:
            return self.gemmctl(*words, code=1)
        except AssertionError:
            return self.gemmctl(*words, code=2)


class RepositoryTest(TritonCase):
    """`--model-repository`, with a daemon for each part of a life."""

    @classmethod
    def setUpClass(cls):
        pass

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.models = pathlib.Path(folder.name, "repository", "models")

    def start(self, *flags):
        daemon = HostDaemon(
            "--admin-calls", f"--model-repository={self.models.parent}",
            *flags)
        daemon.__enter__()
        self.daemon = daemon
        self.target = daemon.target
        self.client = triton.InferenceServerClient(daemon.target)

    def stop(self):
        self.client.close()
        self.daemon.__exit__()

    def files(self):
        return sorted(self.models.glob("*.model"))

    def names(self):
        index = self.client.get_model_repository_index().models
        return [m.name for m in index if m.name != "matmul"]

    def test_a_restart_brings_models_back(self):
        b, bias = values(300, 20, dtype=np.float16), values(1, 20)
        wide = values(3, 3, 9 << 20, dtype=np.int8)  # A line is two parts.
        a = values(4, 300, dtype=np.float16)
        self.start()
        self.gemmctl("model", "create", "mlp", "--b", self.upload(b), "--bias",
                     self.upload(bias), "--act", "relu", "--d-type", "f32")
        self.gemmctl("model", "create", "wide", "--b", self.upload(wide))
        self.gemmctl("model", "create", "gone", "--b", self.upload(bias))
        self.gemmctl("model", "delete", "gone")
        before = self.product({"A": a}, "mlp")
        listed = self.gemmctl("model", "list", "--json")
        self.stop()
        self.assertEqual(len(self.files()), 2)
        self.assertEqual(self.models.stat().st_mode & 0o777, 0o700)
        self.start()
        self.assertEqual(self.names(), ["mlp", "wide"])
        self.assertEqual(self.gemmctl("model", "list", "--json"), listed)
        after = self.product({"A": a}, "mlp")
        self.assertEqual(before.tobytes(), after.tobytes())
        row = np.array([1, -2, 3], np.int8)
        d = self.product({"A": row}, "wide")
        for i in range(3):
            np.testing.assert_array_equal(d[i], row.astype(np.int32) @ wide[i])
        self.gemmctl("model", "delete", "wide", "mlp")
        self.assertEqual(self.files(), [])
        self.stop()
        self.start()
        self.assertEqual(self.names(), [])
        self.stop()

    def test_a_damaged_file_costs_its_model_alone(self):
        self.start()
        for name in ("a", "b", "c", "d", "e", "f"):
            self.gemmctl("model", "create", name, "--b",
                         self.upload(values(30, 20)))
        self.stop()
        files = self.files()
        self.assertEqual(len(files), 6)
        whole = [file.read_bytes() for file in files]
        files[0].write_bytes(whole[0][:-1])  # Cut off,
        files[1].write_bytes(whole[1] + b"x")
        flipped = bytearray(whole[2])
        flipped[5000] ^= 1  # a bit of the weights,
        files[2].write_bytes(flipped)
        flipped = bytearray(whole[3])
        flipped[100] ^= 1  # or of the header,
        files[3].write_bytes(flipped)
        files[4].write_bytes(whole[5])  # another's name,
        (self.models / f"{'0' * 64}.model").symlink_to(files[5])
        (self.models / f"{'1' * 64}.model").mkdir()
        (self.models / f"{'2' * 64}.model").write_bytes(b"")
        (self.models / f"{'3' * 64}.model.new").write_bytes(whole[5])
        self.start()
        self.assertEqual(len(self.names()), 1)
        d = self.product({"A": values(3, 30)}, self.names()[0])
        self.assertEqual(d.shape, (3, 20))
        log = self.daemon.log()
        self.assertEqual(log.count("event=model_not_loaded"), 8, log)
        for text in ("bytes and not", "has another checksum",
                     "has the name of another model", "is cut off"):
            self.assertIn(text, log)
        self.stop()
        self.assertFalse((self.models / f"{'3' * 64}.model.new").exists())

    def test_limits(self):
        self.start("--model-repository-limit-bytes=200KiB")
        big = self.upload(values(200, 200))
        self.gemmctl("model", "create", "one", "--b", big)
        self.assertIn("its limit is 204800 (--model-repository-limit-bytes)",
                      self.gemmctl("model", "create", "two", "--b", big,
                                   code=1))
        self.assertEqual(len(self.files()), 1)
        self.gemmctl("model", "delete", "one")
        self.gemmctl("model", "create", "two", "--b", big)
        self.stop()
        # Where there is less room than there was.
        self.start("--model-repository-limit-bytes=100KiB")
        self.assertEqual(self.names(), [])
        self.assertIn("event=model_not_loaded", self.daemon.log())
        self.stop()
        self.start("--max-tensor-bytes=100000")
        self.assertEqual(self.names(), [])
        self.stop()

    def test_as_many_models_as_may_be(self):
        self.start()
        small = self.upload(values(1, 1))
        with gemmd.Client(self.target):
            call = self.client._channel.unary_unary(
                "/gemmd.v1.ModelService/CreateModel")
            def create(name):
                # CreateModelRequest{name = 1, b = 4}.
                call(bytes([0x0a, len(name)]) + name.encode()
                     + bytes([0x22, len(small)]) + small.encode())
            for i in range(256):
                create(f"m{i}")
            with self.assertRaises(grpc.RpcError) as caught:
                create("last")
        self.assertIn("as many models as may be: 256",
                      caught.exception.details())
        self.stop()

    def test_a_folder_that_cannot_be_used_ends_the_start(self):
        self.models.parent.mkdir()
        self.models.write_text("no folder")
        with self.assertRaisesRegex(RuntimeError, "folder"):
            self.start()


class PolicyTest(TritonCase):
    """A model is its principal's, as tensors are."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    def setUp(self):
        self.daemon = SecureDaemon(
            f"--model-repository={self.folder}/repository")
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__)
        daemon = self.daemon
        every = ["compute", "tensors", "kernels"]
        self.tokens = {"alice": "a-token-that-no-log-may-hold-0123456789"}
        self.write_policy([
            {"name": "alice", "roles": every},
            {"name": "bob", "roles": every,
             "certificates": ["URI:spiffe://bob"]},
            {"name": "ops", "roles": [*every, "admin"],
             "certificates": ["URI:spiffe://ops"]},
            {"name": "deputy", "roles": ["tensors", "admin"],
             "certificates": ["URI:spiffe://deputy"]},
            {"name": "reader", "roles": [],
             "certificates": ["URI:spiffe://reader"]}])
        for name in ("bob", "ops", "deputy", "reader"):
            daemon.certificate(name, "authority", f"URI:spiffe://{name}")

    def write_policy(self, principals):
        self.daemon.write("policy", json.dumps({"principals": principals}))
        end = time.monotonic() + 30
        while "event=reloaded what=policy" not in self.daemon.log():
            self.assertLess(time.monotonic(), end, self.daemon.log())
            time.sleep(0.05)

    def as_one(self, name):
        """A client of Triton's, as that principal."""
        path = self.daemon.path
        words = {"ssl": True, "root_certificates": path("authority.pem")}
        if name != "alice":
            words |= {"private_key": path(f"{name}.key"),
                      "certificate_chain": path(f"{name}.pem")}
        client = triton.InferenceServerClient(self.daemon.target, **words)
        self.addCleanup(client.close)
        if name == "alice":
            token = self.tokens["alice"]
            headers = {"authorization": f"Bearer {token}"}
        else:
            headers = {}
        return client, headers

    def gemmctl_as(self, name, *words, code=0):
        path = self.daemon.path
        flags = ["--ca-file", path("authority.pem")]
        if name == "alice":
            flags += ["--token-file", path("token")]
        else:
            flags += ["--certificate-file", path(f"{name}.pem"), "--key-file",
                      path(f"{name}.key")]
        return self.gemmctl(*words, *flags, code=code,
                            target=self.daemon.target)

    def upload_as(self, name, array):
        path = os.path.join(self.folder, "b.npy")
        np.save(path, array)
        return self.gemmctl_as(name, "tensor", "upload", path)

    def test_isolation(self):
        a, b = values(3, 30), values(30, 20)
        handle = self.upload_as("alice", b)
        self.gemmctl_as("alice", "model", "create", "secret", "--b", handle)
        def infer(who, model="secret"):
            client, headers = self.as_one(who)
            return array_of(client.infer(model, [given("A", a)],
                                         headers=headers))
        own = infer("alice")
        unknown = "Request for unknown model: 'secret' is not found"
        for who in ("bob", "ops"):
            client, headers = self.as_one(who)
            self.refuse("NOT_FOUND", unknown, infer, who)
            self.assertFalse(client.is_model_ready("secret", headers=headers))
            for call in (client.get_model_metadata, client.get_model_config,
                         client.get_inference_statistics):
                self.refuse("NOT_FOUND", unknown, call, "secret",
                            headers=headers)
            index = client.get_model_repository_index(headers=headers)
            self.assertEqual([m.name for m in index.models], ["matmul"])
            self.assertEqual(self.gemmctl_as(who, "model", "list"), "")
            self.assertIn("NOT_FOUND", self.gemmctl_as(
                who, "model", "delete", "secret", code=1))
            self.assertIn("NOT_FOUND: no tensor", self.gemmctl_as(
                who, "model", "create", "mine", "--b", handle, code=1))
        # Each has names of his own.
        other = values(30, 20, seed=5)
        self.gemmctl_as("bob", "model", "create", "secret", "--b",
                        self.upload_as("bob", other))
        self.assertEqual(infer("alice").tobytes(), own.tobytes())
        self.assertNotEqual(infer("bob").tobytes(), own.tobytes())
        # Statistics are one's own; who administers sees all.
        def count(who, model="matmul"):
            client, headers = self.as_one(who)
            stats = client.get_inference_statistics(model, headers=headers)
            return stats.model_stats[0].inference_count
        client, headers = self.as_one("alice")
        for _ in range(2):
            client.infer("matmul", [given("A", a), given("B", b)],
                         headers=headers)
        self.assertEqual([count("alice"), count("bob"), count("ops")],
                         [2, 0, 2])
        self.assertEqual(count("alice", "secret"), 2)
        self.assertEqual(count("bob", "secret"), 1)
        # Shared by who may.
        refusal = self.gemmctl_as("bob", "model", "create", "common", "--b",
                                  self.upload_as("bob", b), "--shared", code=1)
        self.assertIn("needs the role admin", refusal)
        self.gemmctl_as("ops", "model", "create", "common", "--b",
                        self.upload_as("ops", b), "--shared")
        self.assertEqual(infer("bob", "common").tobytes(), own.tobytes())
        self.assertIn("NOT_FOUND", self.gemmctl_as(
            "bob", "model", "delete", "common", code=1))
        self.gemmctl_as("bob", "model", "create", "common", "--b",
                        self.upload_as("bob", other))
        self.assertNotEqual(infer("bob", "common").tobytes(), own.tobytes())
        self.assertEqual(infer("alice", "common").tobytes(), own.tobytes())
        # Who administers deletes what others shared.
        self.gemmctl_as("ops", "model", "create", "left", "--b",
                        self.upload_as("ops", b), "--shared")
        self.gemmctl_as("deputy", "model", "delete", "left")
        self.assertIn("NOT_FOUND", self.gemmctl_as(
            "ops", "model", "delete", "left", code=1))
        # Without the role.
        client, headers = self.as_one("reader")
        self.assertTrue(client.is_model_ready("common"))
        self.refuse("PERMISSION_DENIED", "needs the role compute", infer,
                    "reader", "common")
        self.assertIn("needs the role tensors", self.gemmctl_as(
            "reader", "model", "delete", "common", code=1))
        # A stranger learns whether the daemon serves, and no more.
        stranger = triton.InferenceServerClient(
            self.daemon.target, ssl=True,
            root_certificates=self.daemon.path("authority.pem"))
        self.addCleanup(stranger.close)
        self.assertTrue(stranger.is_server_live())
        self.assertTrue(stranger.is_server_ready())
        for call in (stranger.get_server_metadata,
                     stranger.get_model_repository_index,
                     stranger.get_trace_settings,
                     lambda: stranger.get_model_metadata("matmul"),
                     lambda: stranger.infer("matmul", [given("A", a)])):
            self.refuse("UNAUTHENTICATED", "", call)
        # A restart brings back what belongs to principals that there are.
        self.daemon.__exit__()
        self.daemon.__enter__()
        log = self.daemon.log()
        self.assertEqual(log.count("event=model_loaded"), 1, log)
        self.assertEqual(log.count("event=model_not_loaded"), 3, log)
        self.assertIn("bob, which this daemon does not know", log)
        self.assertEqual(infer("alice").tobytes(), own.tobytes())


class WithoutAdminCallsTest(TritonCase):
    daemon_flags = ()

    def test_models_of_everybody_need_the_flag(self):
        handle = self.upload(values(3, 3))
        for words in (("create", "m", "--b", handle), ("delete", "m")):
            self.assertIn("PERMISSION_DENIED: models belong to all clients "
                          "here; allowed with --admin-calls",
                          self.gemmctl("model", *words, code=1))
        self.assertEqual(self.gemmctl("model", "list"), "")


if __name__ == "__main__":
    unittest.main()
