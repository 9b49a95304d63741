"""Adds gemmd/api.binpb, the compiled proto files, to the package.

In a checkout it is made from proto/ at the top of the repository. A source
distribution carries the file itself.
"""

import pathlib

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"


def compile_protos(target):
    """Writes the descriptors of every proto file to `target`."""
    if not PROTO.is_dir():
        if not (HERE / "gemmd" / "api.binpb").exists():
            raise SystemExit(f"neither {PROTO} nor gemmd/api.binpb is there")
        return
    import grpc_tools
    from grpc_tools import protoc

    target.parent.mkdir(parents=True, exist_ok=True)
    bundled = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    sources = sorted((PROTO / "gemmd" / "v1").glob("*.proto"))
    arguments = ["protoc", f"-I{PROTO}", f"-I{bundled}", "--include_imports",
                 f"--descriptor_set_out={target}", *map(str, sources)]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed")


class BuildPy(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            compile_protos(HERE / "gemmd" / "api.binpb")
        else:
            compile_protos(pathlib.Path(self.build_lib) / "gemmd/api.binpb")


class Sdist(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        compile_protos(pathlib.Path(base_dir) / "gemmd" / "api.binpb")


setup(cmdclass={"build_py": BuildPy, "sdist": Sdist})
