"""NVIDIA DALI's CPU pipeline through a worker: AWS' SDK for C++, a HEAD before every GET."""

import io

import numpy as np
import pytest
from nvidia.dali import fn, pipeline_def, types
from PIL import Image
from worker import LIVE

IMAGES = 24
BATCH = 8


@pytest.fixture
def files(origin, prefix):
    """Images without loss, each with pixels of its own: their URLs, and the pixels."""
    files = {}
    for n in range(IMAGES):
        pixels = np.random.default_rng(n).integers(0, 256, (40 + n, 50, 3), dtype="uint8")
        encoded = io.BytesIO()
        Image.fromarray(pixels).save(encoded, "PNG")
        key = f"{prefix}{n:02}.png"
        origin.s3.put_object(Bucket=LIVE, Key=key, Body=encoded.getvalue())
        files[f"s3://{LIVE}/{key}"] = pixels
    return files


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
def decoded(urls):
    encoded, labels = fn.readers.file(
        files=urls, labels=list(range(len(urls))), random_shuffle=True, initial_fill=BATCH, name="reader"
    )
    return fn.decoders.image(encoded, device="cpu", output_type=types.RGB), labels


def epoch(urls):
    """The pixels of each image, by its label."""
    pipeline = decoded(urls)
    pipeline.build()
    read = {}
    for _ in range(len(urls) // BATCH):
        images, labels = pipeline.run()
        read |= {int(labels.at(n)[0]): images.at(n) for n in range(BATCH)}
    return read


@pytest.mark.usefixtures("in_environment")
def test_images_are_decoded_exactly_and_the_second_time_from_the_cache(files, asks_nothing):
    def check():
        read = epoch(list(files))
        assert sorted(read) == list(range(IMAGES))
        for label, pixels in enumerate(files.values()):
            assert (read[label] == pixels).all()

    check()
    with asks_nothing():
        check()
