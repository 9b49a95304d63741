"""Stands between a client and a daemon, passes messages of any method on as bytes,
and damages or loses what it is told to."""

import contextlib
import threading
from concurrent import futures

import grpc

_OPTIONS = (("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1))
# What gRPC says itself.
_NOT_PASSED = ("user-agent", "grpc-", "te", "content-type")


class Call:
    """What went through: method, metadata, and messages in both directions."""

    def __init__(self, method, metadata):
        self.method = method.removeprefix("/gemmd.v1.")
        self.metadata = metadata
        self.requests = []
        self.responses = []


class Proxy:
    """Between its `target` and a daemon's. A context manager.

    spoil_request and spoil_response(call, message) give what is passed on.
    """

    def __init__(self, daemon):
        self.calls = []  # All of them.
        self.spoil_request = self.spoil_response = lambda call, message: message
        # Of so many calls of a method the answers do not come: the connection
        # is lost.
        self.lose = {}
        self._daemon = daemon
        self._lock = threading.Lock()

    def __enter__(self):
        with contextlib.ExitStack() as kept:
            self._channel = kept.enter_context(
                grpc.insecure_channel(self._daemon, options=_OPTIONS))
            self._server = grpc.server(futures.ThreadPoolExecutor(16),
                                       options=_OPTIONS)
            self._server.add_generic_rpc_handlers([_Handlers(self._pass)])
            port = self._server.add_insecure_port("127.0.0.1:0")
            self._server.start()
            kept.callback(lambda: self._server.stop(None).wait())
            self.target = f"127.0.0.1:{port}"
            self._kept = kept.pop_all()
        return self

    def __exit__(self, *unused):
        self._kept.close()

    def of(self, method):
        """The calls of a method."""
        return [call for call in self.calls if call.method == method]

    def _loses(self, call):
        with self._lock:
            left = self.lose.get(call.method, 0)
            self.lose[call.method] = left - 1
            return left > 0

    def _pass(self, method, requests, context):
        metadata = tuple((name, value)
                         for name, value in context.invocation_metadata()
                         if not name.startswith(_NOT_PASSED))
        call = Call(method, dict(metadata))
        self.calls.append(call)

        def sent():
            for message in requests:
                call.requests.append(message)
                yield self.spoil_request(call, message)

        # Of a call without a deadline gRPC says centuries, and refuses them.
        left = context.time_remaining()
        onward = self._channel.stream_stream(method)(
            sent(), metadata=metadata,
            timeout=left if left is not None and left < 1e6 else None)
        context.add_callback(onward.cancel)
        loses = self._loses(call)
        try:
            for message in onward:
                call.responses.append(message)
                if not loses:
                    yield self.spoil_response(call, message)
        except grpc.RpcError as error:
            context.set_trailing_metadata(tuple(
                (name, value) for name, value in error.trailing_metadata()
                if name == "grpc-retry-pushback-ms"))
            context.abort(error.code(), error.details())
        if loses:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection is lost")


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, passed):
        self._passed = passed

    def service(self, details):
        def handle(requests, context):
            return self._passed(details.method, requests, context)
        return grpc.stream_stream_rpc_method_handler(handle)
