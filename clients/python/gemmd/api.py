"""Message classes and enums of gemmd.v1, from the compiled proto files.

They are built from descriptors at import instead of generated code, because
generated code is tied to the protobuf release that made it while descriptors
work with every release.
"""

import functools
import pathlib
import types
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _find_descriptors() -> pathlib.Path:
    from gemmd import __path__ as folders

    for folder in folders:
        path = pathlib.Path(folder) / "api.binpb"
        if path.exists():
            return path
    raise ImportError(
        "gemmd/api.binpb is missing: install the package with "
        "'pip install ./clients/python', or add the build tree's 'python' "
        "folder to PYTHONPATH")


def _load_pool() -> Any:
    files = descriptor_pb2.FileDescriptorSet.FromString(
        _find_descriptors().read_bytes())
    # A pool of our own: other users of the default pool cannot collide.
    pool: Any = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


_pool: Any = _load_pool()


def class_of(pool: Any, name: str) -> Any:
    """The class of message `name` of a pool."""
    descriptor = pool.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    factory: Any = message_factory.MessageFactory(pool)  # Before 4.22.
    return factory.GetPrototype(descriptor)


def message(name: str) -> Any:
    """The class of message gemmd.v1.`name`."""
    return class_of(_pool, f"gemmd.v1.{name}")


@functools.cache
def enum(name: str) -> Mapping[str, int]:
    """Numbers of gemmd.v1.`name` by value name."""
    descriptor = _pool.FindEnumTypeByName(f"gemmd.v1.{name}")
    return types.MappingProxyType(
        {value.name: value.number for value in descriptor.values})


def enum_name(name: str, number: int) -> str:
    """Name of value `number` of enum gemmd.v1.`name`."""
    values = _pool.FindEnumTypeByName(f"gemmd.v1.{name}").values_by_number
    return str(values[number].name if number in values else number)


Problem = message("Problem")
Layout = message("Layout")
Execution = message("Execution")
MatmulHeader = message("MatmulHeader")
SequenceOperand = message("SequenceOperand")
SequenceRequest = message("SequenceRequest")
SequenceResponse = message("SequenceResponse")
Phases = message("Phases")

CreateTensorRequest = message("CreateTensorRequest")
TensorInfo = message("TensorInfo")
LineRange = message("LineRange")
UploadTensorRequest = message("UploadTensorRequest")
# As UploadTensorRequest.Part protobuf 4.21 in C++, Debian 12's, has it not.
UploadPart = message("UploadTensorRequest.Part")
DownloadTensorRequest = message("DownloadTensorRequest")
DescribeTensorRequest = message("DescribeTensorRequest")
ListTensorsRequest = message("ListTensorsRequest")
ListTensorsResponse = message("ListTensorsResponse")
DeleteTensorRequest = message("DeleteTensorRequest")
DeleteTensorResponse = message("DeleteTensorResponse")

CreateRegionRequest = message("CreateRegionRequest")
RegionInfo = message("RegionInfo")

ProblemGroup = message("ProblemGroup")
PrepareKernelsRequest = message("PrepareKernelsRequest")
PrepareKernelsResponse = message("PrepareKernelsResponse")
ListKernelsRequest = message("ListKernelsRequest")
ListKernelsResponse = message("ListKernelsResponse")
DescribeKernelRequest = message("DescribeKernelRequest")
KernelDescription = message("KernelDescription")
KernelSummary = message("KernelSummary")
EvictKernelRequest = message("EvictKernelRequest")
EvictKernelResponse = message("EvictKernelResponse")

GetServerInfoRequest = message("GetServerInfoRequest")
ServerInfo = message("ServerInfo")
GetStatisticsRequest = message("GetStatisticsRequest")
Statistics = message("Statistics")

ROW_MAJOR: int = enum("Order")["ORDER_ROW_MAJOR"]
COLUMN_MAJOR: int = enum("Order")["ORDER_COLUMN_MAJOR"]
DENSE: int = enum("Sparsity")["SPARSITY_UNSPECIFIED"]
SPARSE: int = enum("Sparsity")["SPARSITY_2_4"]
# Of one element, by DataType.
BITS: dict[int, int] = {
    number: {"F32": 32, "S32": 32, "F16": 16, "BF16": 16, "S4": 4, "U4": 4,
             "B1": 1}.get(name.removeprefix("DATA_TYPE_"), 8)
    for name, number in enum("DataType").items()}
