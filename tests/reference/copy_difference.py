"""How far the pixels of a copied data set differ: python copy_difference.py ORIGINAL COPY (folders of WebDataset shards).
Prints the number of images, the mean difference in levels of 255, and the PSNR of all pixels together. Needs Pillow."""
import io
import pathlib
import sys
import tarfile

import numpy
from PIL import Image


def images(folder):
    found = {}
    for shard in sorted(pathlib.Path(folder).glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                key, suffix = member.name.rsplit(".", 1)
                if suffix in ("png", "jpg", "jpeg"):
                    pixels = Image.open(io.BytesIO(tar.extractfile(member).read())).convert("RGB")
                    found[key] = numpy.asarray(pixels, dtype=float)
    return found


original, copy = (images(folder) for folder in sys.argv[1:3])
if not original or original.keys() != copy.keys():
    sys.exit("the folders do not hold the same images")
differences = numpy.concatenate([(original[key] - copy[key]).ravel() for key in original])
psnr = 10 * numpy.log10(255**2 / numpy.mean(differences**2))
print(f"{len(original)} images, {numpy.abs(differences).mean():.2f} levels, {psnr:.1f} dB")
