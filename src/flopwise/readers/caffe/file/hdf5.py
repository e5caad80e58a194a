"""Caffe's weights in HDF5 (.caffemodel.h5): groups ``data/<layer>/<index>``; only shapes are read.

Source: BVLC Caffe, src/caffe/net.cpp (ToHDF5).
"""

from __future__ import annotations

from typing import Any

from flopwise.errors import ModelError
from flopwise.readers.caffe.file.binary import Blob, Caffemodel
from flopwise.readers.caffe.file.message import Message
from flopwise.readers.source.source import FileSource, Source

#: First bytes of an HDF5 file.
SIGNATURE = b"\x89HDF\r\n"


def read_h5(source: Source) -> Caffemodel:
    """The shapes of the blobs of each layer; such a file has neither types nor connections.

    Raises:
        ModelError: h5py is not installed, or the file is damaged or no such file.
    """
    try:
        import h5py
    except ImportError:
        raise ModelError(f"{source.name}: reading HDF5 needs h5py; pip install 'flopwise[h5]'") from None
    try:
        with h5py.File(opened(source), "r") as file:
            blobs = {}
            for name, members in file["data"].items():
                held = [members[key] for key in sorted(members, key=int)]
                blobs[name] = tuple(Blob(tuple(map(int, b.shape)), (), b.dtype.str) for b in held)
    except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise ModelError(f"{source.name}: not Caffe weights, or damaged ({why})") from error
    return Caffemodel(Message([]), blobs, {}, hdf5=True)


def opened(source: Source) -> Any:
    """What h5py opens: the path of a file, a stream of anything else."""
    from flopwise.readers.weights.zip import Reading

    return source.name if isinstance(source, FileSource) else Reading(source)
