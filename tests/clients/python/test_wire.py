"""Encoding and decoding by hand against protobuf's own."""

import unittest

from gemmd import api, wire


class WireTest(unittest.TestCase):
    def test_request_parses_as_the_proto_says(self):
        header = api.MatmulHeader(device="cuda:0")
        header.problem.m = 1 << 20
        data = wire.matmul_request(header, a=b"aa" * 100, b=None, c=b"",
                                   d_scale=b"1234")
        request = api.message("MatmulRequest").FromString(data)
        self.assertEqual(request.header, header)
        self.assertEqual((request.a, request.b, request.c),
                         (b"aa" * 100, b"", b""))
        self.assertEqual(request.d_scale, b"1234")

    def test_response_is_viewed_in_place(self):
        response = api.message("MatmulResponse")(d=bytes(range(256)) * 2)
        response.execution.kernel = "k"
        data = response.SerializeToString()
        execution, d, *_ = wire.parse_matmul_response(data)
        self.assertEqual(execution.kernel, "k")
        self.assertEqual(bytes(d), response.d)
        self.assertIs(d.obj, data)

    def test_second_results_come_with_d(self):
        response = api.message("MatmulResponse")(d=b"d", auxiliary=b"aux",
                                                 amax=2.5)
        parsed = wire.parse_matmul_response(response.SerializeToString())
        self.assertEqual(bytes(parsed.auxiliary), b"aux")
        self.assertEqual(parsed.amax, 2.5)

    def test_fields_in_any_order_and_unknown_ones(self):
        data = (b"\x18\x05" + b"\x21" + b"8bytes.." + b"\x12\x01x"
                + b"\x2d4444" + b"\x22\x01y" + b"\x0a\x00")
        execution, d, *_ = wire.parse_matmul_response(data)
        self.assertEqual(bytes(d), b"x")
        self.assertEqual(execution, api.Execution())

    def test_malformed_messages(self):
        for data in (b"\x12\x05abc", b"\x80", b"\x12", b"\x0b",
                     b"\xff" * 12):
            with self.assertRaises(ValueError):
                wire.parse_matmul_response(data)

    def test_steps_say_how_they_ran_or_share_it(self):
        response = api.SequenceResponse()
        for i in range(3):
            response.steps.add(d=bytes([i]))
        response.phases.plan_us = 7
        for device in ("first", "others"):
            response.executions.add(device=device)
        response.step_executions[:] = [0, 1, 1]
        steps, phases = wire.parse_sequence_response(
            response.SerializeToString())
        self.assertEqual([step.execution.device for step in steps],
                         ["first", "others", "others"])
        self.assertEqual(bytes(steps[2].d), b"\2")
        self.assertEqual(phases.plan_us, 7)
        for wrong in ([0, 1], [0, 1, 2], [0, 1, 1, 0], []):
            response.step_executions[:] = wrong
            with self.assertRaises(ValueError):
                wire.parse_sequence_response(response.SerializeToString())

        del response.executions[:], response.step_executions[:]
        response.steps[1].execution.device = "own"
        steps, _ = wire.parse_sequence_response(response.SerializeToString())
        self.assertEqual([step.execution.device for step in steps],
                         ["", "own", ""])

    def test_sequences_ask_for_shared_executions(self):
        request = api.SequenceRequest.FromString(
            wire.sequence_request([api.MatmulHeader()], [], "here"))
        self.assertEqual(len(request.steps), 1)
        self.assertEqual(request.device, "here")
        self.assertTrue(request.shared_executions)

    def test_varint_round_trip(self):
        for value in (0, 1, 127, 128, 300, 2 ** 31, 2 ** 63 - 1):
            data = wire.varint(value)
            self.assertEqual(wire.read_varint(data, 0), (value, len(data)))

    def test_upload_stream(self):
        messages = [api.UploadTensorRequest.FromString(data) for data in
                    wire.upload_requests("h", api.Layout(), b"abcde", 2)]
        self.assertEqual(messages[0].header.handle, "h")
        self.assertEqual([m.data for m in messages[1:]], [b"ab", b"cd", b"e"])


if __name__ == "__main__":
    unittest.main()
