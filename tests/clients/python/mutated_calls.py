"""Sends mutated calls to a daemon, one after the other, and looks at what it
says."""

import time

import grpc

from mutations import Mutations

_OPTIONS = (("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1))
# What a client did wrong has one of the others.
NEVER = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL,
         grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
         grpc.StatusCode.CANCELLED)
_LONGEST_TEXT = 2000
_TIMEOUT_S = 30


class MutatedCalls:
    """`methods`: the class of the requests by the names of methods, and whether
    requests and answers are streams. `calls`: by the same names, lists of calls
    that are right, which are lists of messages."""

    def __init__(self, target, methods, calls, names, seed):
        self.complaints = []
        self.codes = {}  # By method, sets.
        self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        self._methods = methods
        self._calls = calls
        self._mutations = Mutations(seed, names)
        self._random = self._mutations.random

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._channel.close()

    def send(self, count):
        names = sorted(self._calls)
        for i in range(count):
            name = self._random.choice(names)
            messages = list(self._random.choice(self._calls[name]))
            self._mutate(self._methods[name][0], messages)
            self._send(f"call {i}", name, messages)

    def _mutate(self, kind, messages):
        if len(messages) > 1 and self._random.random() < 0.3:
            self._mutations.of_stream(messages)
        at = self._random.randrange(len(messages))
        if self._random.random() < 0.2:
            messages[at] = self._mutations.of_bytes(messages[at])
        else:
            message = kind.FromString(messages[at])
            self._mutations.of_message(message)
            messages[at] = message.SerializeToString()

    def _send(self, what, name, messages):
        _, sends_stream, gets_stream = self._methods[name]
        stub = getattr(self._channel, "_".join(
            "stream" if streams else "unary"
            for streams in (sends_stream, gets_stream)))(name)
        begin = time.monotonic()
        code, text = grpc.StatusCode.OK, ""
        try:
            answer = stub(iter(messages) if sends_stream else messages[0],
                          timeout=_TIMEOUT_S)
            for _ in answer if gets_stream else ():
                pass
        except grpc.RpcError as error:
            code, text = error.code(), error.details()
        self.codes.setdefault(name, set()).add(code)
        if (code in NEVER or len(text) > _LONGEST_TEXT
                or not text.isprintable()
                or (code is not grpc.StatusCode.OK and not text)):
            self.complaints.append(
                f"{what}, {name}: {code.name} {text!r} after "
                f"{time.monotonic() - begin:.1f} s")
