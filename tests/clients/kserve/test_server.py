"""Health, descriptions and statistics, and that what is said here is what
Triton's client understands."""

import time
import unittest

import numpy as np
from google.protobuf import descriptor_pb2
from tritonclient.grpc import model_config_pb2

from triton_case import TritonCase, given, service_pb2, values


class ServerTest(TritonCase):
    def test_health(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("matmul"))
        self.assertTrue(self.client.is_model_ready("matmul", "1"))
        self.assertFalse(self.client.is_model_ready("matmul", "2"))
        self.assertFalse(self.client.is_model_ready("nobody"))

    def test_metadata(self):
        server = self.client.get_server_metadata(as_json=True)
        self.assertEqual(server["name"], "gemmd")
        self.assertIn("statistics", server["extensions"])
        model = self.client.get_model_metadata("matmul", as_json=True)
        self.assertEqual(model["versions"], ["1"])
        self.assertEqual(model["outputs"], [
            {"name": "D", "datatype": "FP32", "shape": ["-1", "-1"]}])
        self.assertEqual([i["name"] for i in model["inputs"]],
                         ["A", "B", "C", "BIAS", "A_SCALE", "B_SCALE"])

    def test_config(self):
        config = self.client.get_model_config("matmul").config
        self.assertEqual(config.max_batch_size, 0)
        self.assertEqual([(i.name, i.optional) for i in config.input],
                         [("A", False), ("B", False), ("C", True),
                          ("BIAS", True), ("A_SCALE", True),
                          ("B_SCALE", True)])
        self.assertEqual(config.input[0].data_type, 11)
        metadata = self.client.get_model_metadata("matmul")
        self.assertEqual([(i.name, list(i.dims)) for i in config.input],
                         [(i.name, list(i.shape)) for i in metadata.inputs])

    def test_index(self):
        index = self.client.get_model_repository_index()
        self.assertEqual([(m.name, m.version, m.state) for m in index.models],
                         [("matmul", "1", "READY")])

    def statistics(self):
        return self.client.get_inference_statistics("matmul").model_stats[0]

    def test_statistics_count_what_was_done(self):
        before = self.statistics()
        start = time.time_ns()
        for _ in range(3):
            self.product({"A": values(8, 8), "B": values(8, 8)})
        took = time.time_ns() - start
        self.refuse("INVALID_ARGUMENT", "", self.product, {"A": values(8, 8)})
        # Of no model: counted nowhere.
        self.refuse("NOT_FOUND", "", self.product, {}, "nobody")
        after = self.statistics()
        self.assertEqual(after.inference_count - before.inference_count, 3)
        self.assertEqual(after.execution_count - before.execution_count, 3)
        self.assertLess(abs(after.last_inference - time.time() * 1000), 60_000)
        now, then = after.inference_stats, before.inference_stats
        self.assertEqual(now.success.count - then.success.count, 3)
        self.assertEqual(now.fail.count - then.fail.count, 1)
        self.assertGreater(now.fail.ns, then.fail.ns)
        whole = now.success.ns - then.success.ns
        self.assertLess(whole, took)
        parts = 0
        for name in ("queue", "compute_input", "compute_infer",
                     "compute_output"):
            part, past = getattr(now, name), getattr(then, name)
            self.assertEqual(part.count - past.count, 3)
            self.assertGreaterEqual(part.ns, past.ns)
            parts += part.ns - past.ns
        self.assertGreater(now.compute_infer.ns, then.compute_infer.ns)
        self.assertLessEqual(parts, whole)
        everything = self.client.get_inference_statistics()
        self.assertEqual([m.name for m in everything.model_stats], ["matmul"])

    def test_what_is_not_served_says_why(self):
        client = self.client
        for call, text in (
                (lambda: client.load_model("m"), "gemmctl model"),
                (lambda: client.unload_model("m"), "gemmctl model"),
                (client.get_system_shared_memory_status, "regions of memory"),
                (lambda: client.register_system_shared_memory("a", "b", 1),
                 "regions of memory"),
                (client.unregister_system_shared_memory, "regions of memory"),
                (client.get_cuda_shared_memory_status, "regions of memory"),
                (client.unregister_cuda_shared_memory, "regions of memory"),
                (client.get_trace_settings, "command line"),
                (client.get_log_settings, "command line")):
            self.refuse("UNIMPLEMENTED", text, call)

    def test_our_own_counts_are_theirs(self):
        before = self.gemmd.statistics()
        a = values(4, 4)
        self.product({"A": a, "B": a})
        self.refuse("INVALID_ARGUMENT", "", self.product, {"A": a})
        after = self.gemmd.statistics()
        self.assertEqual(after.requests - before.requests, 2)
        self.assertEqual(after.failed - before.failed, 1)
        self.assertEqual(after.received_bytes - before.received_bytes, 128)
        self.assertEqual(after.sent_bytes - before.sent_bytes, 64)


class StreamTest(TritonCase):
    def setUp(self):
        self.answers = []
        self.client.start_stream(
            lambda result, error: self.answers.append((result, error)))
        self.addCleanup(self.client.stop_stream)

    def send(self, a, b, name):
        self.client.async_stream_infer(
            "matmul", [given("A", a), given("B", b)], request_id=name)

    def wait(self, count):
        end = time.monotonic() + 600
        while len(self.answers) < count:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_requests_are_answered_in_order_and_errors_end_nothing(self):
        a, b = values(5, 6), values(6, 7)
        self.send(a, b, "1")
        self.send(a, a, "2")
        self.send(a[:3], b, "3")
        self.wait(3)
        first, wrong, last = self.answers
        np.testing.assert_array_equal(first[0].as_numpy("D"),
                                      self.gemmd.matmul(a, b))
        self.assertIn("rows", wrong[1].message())
        self.assertEqual(last[0].get_response().id, "3")
        np.testing.assert_array_equal(last[0].as_numpy("D"),
                                      self.gemmd.matmul(a[:3], b))

    def test_large_ones_give_their_room_back(self):
        # More than may be on its way at a time, one after the other.
        a = values(1024, 1024, dtype=np.float16)
        for i in range(12):
            self.send(a, a, str(i))
        self.wait(12)
        self.assertTrue(all(error is None for _, error in self.answers))

    daemon_flags = ("--max-message-bytes=8MiB", "--max-inflight-bytes=8MiB")


class ProtocolTest(TritonCase):
    """Our description of the protocol has the fields that theirs has."""

    def test_fields_are_numbered_alike(self):
        # Serialised by protoc for our build: what reflection answers.
        ours = self.reflected("inference.GRPCInferenceService")
        theirs = {}
        for module in (service_pb2, model_config_pb2):
            proto = descriptor_pb2.FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(proto)
            self.collect(proto.message_type, "", theirs)
            for enum in proto.enum_type:
                theirs[enum.name] = {(v.name, v.number) for v in enum.value}
        compared = 0
        for name, fields in ours.items():
            if name == "Unserved":
                continue
            with self.subTest(message=name):
                self.assertLessEqual(fields, theirs[name])
                compared += len(fields)
        self.assertGreater(compared, 90)

    def collect(self, messages, prefix, to):
        for message in messages:
            name = prefix + message.name
            to[name] = {(f.name, f.number, f.type, f.label,
                         f.type_name.rpartition(".")[2])
                        for f in message.field}
            self.collect(message.nested_type, name + ".", to)

    def reflected(self, symbol):
        # ServerReflectionRequest{file_containing_symbol = 4}.
        request = bytes([0x22, len(symbol)]) + symbol.encode()
        call = self.client._channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        answer = next(call(iter([request])))
        found = {}
        methods = set()
        for file in self.files_of(answer):
            proto = descriptor_pb2.FileDescriptorProto.FromString(file)
            self.collect(proto.message_type, "", found)
            for enum in proto.enum_type:
                found[enum.name] = {(v.name, v.number) for v in enum.value}
            for service in proto.service:
                methods |= {(m.name, m.client_streaming, m.server_streaming)
                            for m in service.method}
        theirs = service_pb2.DESCRIPTOR.services_by_name[
            "GRPCInferenceService"]
        self.assertEqual(methods, {
            (m.name, m.client_streaming, m.server_streaming)
            for m in theirs.methods})
        return found

    def files_of(self, message, wanted=(4, 1)):
        """The bytes of ServerReflectionResponse.file_descriptor_response
        .file_descriptor_proto."""
        at = 0
        def number():
            nonlocal at
            value = shift = 0
            while True:
                byte = message[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(message):
            tag, size = number(), number()
            if tag == wanted[0] << 3 | 2:
                part = message[at:at + size]
                if wanted[1:]:
                    yield from self.files_of(part, wanted[1:])
                else:
                    yield part
            at += size if tag & 7 == 2 else 0


if __name__ == "__main__":
    unittest.main()
