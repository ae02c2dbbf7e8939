"""Writes arrays to a stream in pieces, so that no second copy is made."""

from collections.abc import Callable
from typing import IO

import numpy as np

_PIECE = 16 << 20  # bytes


def write_array(
    stream: IO[bytes],
    value: np.ndarray,
    seen: Callable[[bytes], None] = lambda piece: None,
) -> int:
    """Writes an array's values in row order.

    Args:
      stream: local or remote.
      value: of any shape and dtype.
      seen: called with each piece, for checksums.

    Returns:
      The number of bytes written.
    """
    data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    for start in range(0, data.size, _PIECE):
        piece = data[start : start + _PIECE].tobytes()
        seen(piece)
        stream.write(piece)
    return data.size
