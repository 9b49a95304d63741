"""All that the daemon serves, from the proto files."""

import pathlib
import subprocess
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool

from gemmd import api

_PROTO = pathlib.Path(__file__).parents[3] / "proto"
_FOLDERS = "gemmd/v1", "inference"


class Services:
    def __init__(self):
        with tempfile.NamedTemporaryFile() as out:
            subprocess.run(
                ["protoc", f"-I{_PROTO}", "--include_imports",
                 f"--descriptor_set_out={out.name}",
                 *(path for folder in _FOLDERS
                   for path in sorted((_PROTO / folder).glob("*.proto")))],
                check=True)
            files = descriptor_pb2.FileDescriptorSet.FromString(out.read()).file
        self._pool = descriptor_pool.DescriptorPool()
        # "/package.Service/Method": class of the request, and whether requests
        # and answers are streams.
        self.methods = {}
        for file in files:
            self._pool.Add(file)
            for service in file.service:
                for method in service.method:
                    self.methods[
                        f"/{file.package}.{service.name}/{method.name}"] = (
                            self.message(method.input_type.removeprefix(".")),
                            method.client_streaming, method.server_streaming)

    def message(self, name):
        """Its class."""
        return api.class_of(self._pool, name)
