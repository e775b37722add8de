"""A worker process of the featuriser: a JSON request on standard input, arrays on standard output."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import numpy as np

from zoo.molecules.extract import Extract, extract


def pack(found: Extract) -> bytes:
    """Return an extract as the bytes of an ``.npz`` archive; its text parts go in as JSON (no pickle)."""
    text = json.dumps({"key": found.key, "problems": found.problems, "notes": found.notes}).encode()
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {**found.arrays, "_position": found.position, "_text": np.frombuffer(text, np.uint8)}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


if __name__ == "__main__":
    request = json.load(sys.stdin)
    sys.stdout.buffer.write(pack(extract(request["inputs"], request["options"])))
