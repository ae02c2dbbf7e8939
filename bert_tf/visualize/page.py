"""The attention of one input as one self-contained HTML page."""

import base64
import html
import importlib.resources
import json
import re

import numpy as np

from bert_tf.visualize.attention import Attention

SCALE = 1000  # values are kept to three digits after the point


def quantise(values: np.ndarray) -> str:
    """Base64 of little-endian uint16: probabilities in thousandths."""
    return base64.b64encode(
        np.rint(values * SCALE).astype("<u2").tobytes()
    ).decode("ascii")


def embed_json(value) -> str:
    """JSON that may stand inside a script element, whatever it holds."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def create_page(attention: Attention, layer: int = 0, head: int = 0) -> str:
    """Makes the page.

    Args:
      attention: what to show.
      layer: number of the layer shown first.
      head: number of the head shown first, from 0.

    Returns:
      HTML without any reference to another file or address.
    """
    data = {
        "model": attention.model,
        "tokens": attention.tokens,
        "segments": attention.segment_ids,
        "mask": attention.input_mask,
        "layers": attention.layers,
        "heads": attention.values.shape[1],
        "scale": SCALE,
        "layer": layer,
        "head": head,
        "attention": [quantise(values) for values in attention.values],
    }
    parts = {
        "title": html.escape(f"Attention of {attention.model}"),
        "style": _read("page.css"),
        "script": _read("page.js"),
        "data": embed_json(data),
    }
    # In one pass: a text that looks like a place to fill is not filled.
    return re.sub(
        r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _read("page.html")
    )


def _read(name: str) -> str:
    folder = importlib.resources.files("bert_tf.visualize")
    return folder.joinpath(name).read_text(encoding="utf-8")
