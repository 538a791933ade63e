"""Writes decode_golden.txt: hashes of Pillow's results for files and boxes, for decode_test.cpp and resize_test.cpp.

    pip install 'pillow<13' numpy
    python tests/lab/data/golden.py > tests/lab/data/decode_golden.txt

Pillow 13 resizes the height first if that saves work; its levels then differ by about one.
"""
import io
import struct
import sys
import zlib

import numpy as np
from PIL import Image, __version__


def fnv(pixels):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in np.ascontiguousarray(pixels).tobytes():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def picture(height, width, channels=3):
    """The same formula as in the tests: wrapping slopes, and a step."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    return ((x * 7 + y * 5 + c * 60 + (x * y) // 9 + (x > y) * 90) % 256).astype(np.uint8)


def chunk(tag, data):
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


def png(width, height, bits, colors, rows, *more):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colors, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(more) + data + chunk(b"IEND", b"")


def rgb(image):
    """convert("RGB"), but the upper byte of 16-bit grayscale, whose levels above 255 Pillow makes equal."""
    if image.mode.startswith("I;16") or image.mode == "I":
        return np.repeat((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8)[..., None], 3, axis=2)
    return np.asarray(image.convert("RGB"))


def files():
    base = Image.fromarray(picture(45, 61))
    def jpeg(name, image, **settings):
        out = io.BytesIO()
        image.save(out, "JPEG", quality=90, **settings)
        return name, out.getvalue()
    yield jpeg("jpeg_444", base, subsampling=0)
    yield jpeg("jpeg_422", base, subsampling=1)
    yield jpeg("jpeg_420", base, subsampling=2)
    yield jpeg("jpeg_420_progressive", base, subsampling=2, progressive=True)
    yield jpeg("jpeg_gray", base.convert("L"))
    yield jpeg("jpeg_cmyk", Image.fromarray(picture(45, 61, 4), "CMYK"))
    yield "png_gray1", png(9, 1, 1, 0, [b"\xb1\x80"])
    yield "png_gray2", png(4, 1, 2, 0, [b"\x1b"])
    yield "png_gray4", png(4, 1, 4, 0, [b"\x0f\x37"])
    yield "png_gray16", png(4, 1, 16, 0, [struct.pack(">4H", 0, 200, 256, 65535)])
    yield "png_gray_alpha", png(2, 1, 8, 4, [bytes([10, 0, 200, 128])])
    yield "png_gray_alpha16", png(2, 1, 16, 4, [struct.pack(">4H", 0x1280, 0, 0xFF00, 0x8000)])
    yield "png_rgb16", png(2, 1, 16, 2, [struct.pack(">6H", 0, 0x1FF, 0x80FF, 0xFFFF, 0x7F80, 0xFF)])
    yield "png_rgba", png(2, 1, 8, 6, [bytes([1, 2, 3, 0, 4, 5, 6, 255])])
    short = chunk(b"PLTE", bytes([9, 8, 7, 6, 5, 4]))
    yield "png_palette8", png(4, 1, 8, 3, [bytes([0, 1, 2, 255])], short)
    yield "png_palette2", png(4, 1, 2, 3, [b"\x1b"], short)
    yield "png_transparent", png(2, 1, 8, 3, [bytes([0, 1])], short, chunk(b"tRNS", bytes([0, 128])))
    out = io.BytesIO()
    base.save(out, "PNG")
    yield "png_rgb", out.getvalue()


BOXES = [(0, 0, 45, 61), (3, 7, 20, 31), (10, 2, 9, 50), (44, 60, 1, 1), (5, 5, 40, 3)]
SIZES = [(16, 16), (45, 20), (90, 100), (20, 61), (7, 3)]


def main():
    print(f"# Pillow {__version__}; lines: decode NAME height width hash, file bytes in hexadecimal; "
          "resize METHOD top left height width out_height out_width hash")
    for name, data in files():
        pixels = rgb(Image.open(io.BytesIO(data)))
        print("decode", name, *pixels.shape[:2], fnv(pixels), data.hex())
    image = picture(45, 61)
    for name, method in (("nearest", 0), ("bilinear", 2), ("bicubic", 3), ("lanczos", 1)):
        for top, left, height, width in BOXES:
            for size in SIZES:
                cut = Image.fromarray(image[top:top + height, left:left + width])
                out = np.asarray(cut.resize(size[::-1], method))
                print("resize", name, top, left, height, width, *size, fnv(out))


if __name__ == "__main__":
    sys.exit(main())
