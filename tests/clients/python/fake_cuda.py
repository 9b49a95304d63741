"""A driver, arrays in its memory, and the daemon's door for that: what
clients of a GPU meet, without one."""

import os
import socket
import threading

UUID = "GPU-01010101-0101-0101-0101-010101010101"


class FakeCuda:
    """As libcuda: blocks of addresses that nobody reads."""

    def __init__(self):
        self.blocks = {}      # First address -> (bytes, number).
        self.mapped = set()   # Of these, by virtual memory management,
        self.private = set()  # and what cannot be shared.
        self.handle, self.held = 5, 0
        self.numbers = iter(range(1, 1000))
        self.waited = []
        self.bound = []

    def add(self, base, size):
        self.blocks[base] = (size, next(self.numbers))
        return base

    def _of(self, address):
        for base, (size, number) in self.blocks.items():
            if base <= address < base + size:
                return base, size, number
        return None

    def cuInit(self, flags):
        return 0

    def cuGetErrorName(self, code, name):
        name._obj.value = b"CUDA_ERROR_FAKE"
        return 0

    def cuDevicePrimaryCtxRetain(self, context, device):
        context._obj.value = 77 + device
        return 0

    def cuCtxPushCurrent_v2(self, context):
        self.bound.append(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, context):
        self.bound.pop()
        return 0

    def cuCtxSynchronize(self):
        self.waited.append(None)
        return 0

    def cuStreamSynchronize(self, stream):
        self.waited.append(stream.value)
        return 0

    def cuDeviceGetUuid_v2(self, uuid, device):
        uuid._obj[:] = [1] * 16
        return 0

    def cuMemGetAddressRange_v2(self, base, size, address):
        found = self._of(address.value)
        if found is None or not self.bound:
            return 1
        base._obj.value, size._obj.value = found[:2]
        return 0

    def cuPointerGetAttribute(self, value, attribute, address):
        found = self._of(address.value)
        if found is None:
            return 1
        value._obj.value = {7: 0 if found[0] in self.mapped else found[2], 9: 0, 18: found[1],
                            19: found[0]}[attribute]
        return 0

    def cuMemRetainAllocationHandle(self, handle, address):
        found = self._of(address.value)
        if found is None or found[0] not in self.mapped:
            return 1
        handle._obj.value = self.handle
        self.held += 1
        return 0

    def cuMemExportToShareableHandle(self, descriptor, handle, kind, flags):
        descriptor._obj.value = os.memfd_create("fake")
        return 0

    def cuMemRelease(self, handle):
        self.held -= 1
        return 0

    def cuIpcGetMemHandle(self, handle, base):
        if base.value in self.private:
            return 1
        handle._obj[:] = list(base.value.to_bytes(64, "little"))
        return 0


class OnDevice:
    """An array at `address` with the shape of one of numpy's, by DLPack."""

    def __init__(self, like, device=0):
        self.like, self.device = like, device
        self.address = like.ctypes.data
        self.streams = []

    @property
    def dtype(self):
        return self.like.dtype

    def __dlpack_device__(self):
        return (2, self.device)

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        return self.like.__dlpack__()


class ByInterface:
    """As numba has them."""

    def __init__(self, address, shape, typestr="<f4", strides=None, **more):
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": shape, "typestr": typestr,
            "strides": strides, "version": 3, **more}


class Door:
    """PATH.memory: notes what comes, and answers with handles."""

    def __init__(self, path):
        self.came = []
        self.guests = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(path + ".memory")
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                guest, _ = self._socket.accept()
                said, fds, _, _ = socket.recv_fds(guest, 1, 2)
            except OSError:
                return
            for fd in fds:
                os.close(fd)
            self.came.append((said, len(fds)))
            self.guests.append(guest)
            guest.sendall(b"%032x" % len(self.came))

    def open(self):
        """Guests that are still there."""
        return sum(self._is_open(guest) for guest in self.guests)

    @staticmethod
    def _is_open(guest):
        try:
            return bool(guest.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for guest in self.guests:
            guest.close()
