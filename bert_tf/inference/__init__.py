"""Models for use: load a folder once, call it many times with strings.

    from bert_tf.inference import FillMask

    fill_mask = FillMask("uncased_L-12_H-768_A-12")
    fill_mask("the [MASK] sat on the mat")

Every class takes one input and gives one result, or a list of inputs and
gives a list of results in the same order; `stream` takes any iterable and
never holds more than a part of it. A pair of texts is a tuple. Inputs are
computed in batches of like lengths. There are no flags; results show
themselves in a notebook.

Names are loaded when first used. If TensorFlow is not loaded before, the
first model switches oneDNN on for the process (see `environment.py`).
"""

import importlib

_HOME = {
    "Answer": "question_answerer",
    "Classification": "classifier",
    "Classifier": "classifier",
    "Embedder": "embedder",
    "FillMask": "fill_mask",
    "FilledText": "fill_mask",
    "ModelFolder": "model_folder",
    "NextSentence": "next_sentence",
    "NextSentencePrediction": "next_sentence",
    "QuestionAnswerer": "question_answerer",
    "Results": "results",
    "TaggedText": "tagger",
    "Tagger": "tagger",
    "open_model_folder": "model_folder",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOME[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return __all__
