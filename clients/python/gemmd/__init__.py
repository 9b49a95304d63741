"""Client of gemmd, a daemon that multiplies matrices on Hopper GPUs.

    import gemmd, ml_dtypes, numpy as np
    with gemmd.Client("localhost:50051") as client:
        a = np.random.randn(300, 500).astype(ml_dtypes.bfloat16)
        b = np.random.randn(500, 200).astype(ml_dtypes.bfloat16)
        d = client.matmul(a, b)  # (300, 200), bfloat16

AsyncClient is the same for asyncio.
"""

import pkgutil

# The descriptors of a build tree lie in a folder of the same name elsewhere
# on sys.path when the package is used in place.
__path__ = pkgutil.extend_path(__path__, __name__)

from ._version import __version__  # noqa: E402
from .aio import AsyncClient, AsyncTensor  # noqa: E402
from .bits import Bits  # noqa: E402
from .client import Client  # noqa: E402
from .errors import (  # noqa: E402
    Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, Error,
    FailedPrecondition, Internal, InvalidArgument, MissingPackage, NotFound,
    OutOfRange, PermissionDenied, ResourceExhausted, Unauthenticated,
    Unavailable, Unimplemented, Unknown)
from .packings import from_awq, from_gptq  # noqa: E402
from .product import Product  # noqa: E402
from .quantized import (  # noqa: E402
    Quantization, QuantizedMatrix, quantize, quantized)
from .sequence import AsyncSequence, Pending, Sequence  # noqa: E402
from .sparse import SparseMatrix, sparse24  # noqa: E402
from .tensor import Tensor  # noqa: E402

__all__ = [
    "AsyncClient", "AsyncSequence", "AsyncTensor", "Bits", "Client", "Pending",
    "Product", "Quantization", "QuantizedMatrix", "Sequence", "SparseMatrix",
    "Tensor", "__version__", "from_awq", "from_gptq", "quantize", "quantized",
    "sparse24",
    "Aborted", "AlreadyExists", "Cancelled", "DataLoss", "DeadlineExceeded",
    "Error", "FailedPrecondition", "Internal", "InvalidArgument",
    "MissingPackage", "NotFound", "OutOfRange", "PermissionDenied",
    "ResourceExhausted", "Unauthenticated", "Unavailable", "Unimplemented",
    "Unknown",
]
