"""Lists that come by pages, of daemons that would never end them."""

import contextlib
import time
import unittest
from concurrent import futures

import grpc

import gemmd
from both_clients import both_clients
from gemmd import api, arrays


@contextlib.contextmanager
def endless_daemon(next_token, pause_s=0.0):
    """Answers with one thing a page, and always with another page:
    next_token(token)."""
    pages = {"TensorService/ListTensors": (
                 api.ListTensorsRequest,
                 lambda token: api.ListTensorsResponse(
                     tensors=[api.TensorInfo(
                         handle="t", dtype=arrays.wire_type("f4"), rows=1,
                         columns=1, order=api.ROW_MAJOR)],
                     next_page_token=token)),
             "KernelService/ListKernels": (
                 api.ListKernelsRequest,
                 lambda token: api.ListKernelsResponse(
                     kernels=[api.KernelSummary(key="k")],
                     next_page_token=token))}

    def handler(request, answer):
        def call(message, _):
            time.sleep(pause_s)
            return answer(next_token(message.page_token)).SerializeToString()
        return grpc.unary_unary_rpc_method_handler(
            call, request_deserializer=request.FromString)

    server = grpc.server(futures.ThreadPoolExecutor(4))
    for method, page in pages.items():
        service, name = method.split("/")
        server.add_generic_rpc_handlers([
            grpc.method_handlers_generic_handler(
                f"gemmd.v1.{service}", {name: handler(*page)})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def lists(target, **options):
    """Each method that lists, of both clients."""
    for client in both_clients(target, **options):
        for name in ("tensors", "kernels"):
            if hasattr(client, name):
                yield f"{client!r}.{name}", getattr(client, name)


class PagesTest(unittest.TestCase):
    def test_a_page_that_is_the_next_of_itself_ends_a_list(self):
        with endless_daemon(lambda token: "same") as target:
            for name, all_of in lists(target, timeout=60):
                with self.subTest(name), self.assertRaisesRegex(
                        gemmd.Internal, "after 2 pages .* the same again"):
                    all_of()

    def test_a_list_has_no_more_pages_than_a_daemon_has_room_for(self):
        with endless_daemon(
                lambda token: str(int(token or 0) + 1)) as target:
            for name, all_of in lists(target, timeout=60):
                with self.subTest(name), self.assertRaisesRegex(
                        gemmd.Internal, "does not end: after 1000 pages"):
                    all_of()

    def test_the_timeout_is_that_of_all_pages(self):
        with endless_daemon(lambda token: str(int(token or 0) + 1),
                            pause_s=0.1) as target:
            for name, all_of in lists(target, timeout=0.55):
                start = time.monotonic()
                with self.subTest(name), self.assertRaises(
                        gemmd.DeadlineExceeded):
                    all_of()
                self.assertLess(time.monotonic() - start, 20)


if __name__ == "__main__":
    unittest.main()
