#!/usr/bin/env python3
"""Takes the kernel itself out of a bzImage: vmlinux.py VMLINUZ VMLINUX."""

import lzma
import sys
import zlib

FORMATS = [
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
    (b"\x5d\x00\x00", lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE)),
    (b"\x1f\x8b\x08", lambda: zlib.decompressobj(31)),
]


def kernel(image):
    """The kernel in an image; none where it is packed in another way."""
    for magic, unpack in FORMATS:
        at = image.find(magic)
        while at >= 0:
            try:
                unpacked = unpack().decompress(image[at:])
                if unpacked.startswith(b"\x7fELF"):
                    return unpacked
            except (lzma.LZMAError, zlib.error):
                pass
            at = image.find(magic, at + 1)
    return None


def main():
    source, target = sys.argv[1:]
    with open(source, "rb") as file:
        unpacked = kernel(file.read())
    if unpacked is None:
        sys.exit(f"vmlinux.py: {source}: no kernel in it that is packed by xz, lzma or gzip")
    with open(target, "wb") as file:
        file.write(unpacked)


main()
