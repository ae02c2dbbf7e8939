"""Google's BERT on today's TensorFlow and Keras.

The public names are loaded when first used, so that the tokenizer and the
data tools never wait for TensorFlow.
"""

import importlib

__version__ = "0.1.0"

_HOME = {
    "BertConfig": "config",
    "FullTokenizer": "tokenization",
    "BertModel": "modeling",
    "BertForPreTraining": "heads",
    "BertForMaskedLM": "heads",
    "BertForNextSentencePrediction": "heads",
    "BertForSequenceClassification": "heads",
    "BertForTokenClassification": "heads",
    "BertForQuestionAnswering": "heads",
    "BertForMultipleChoice": "heads",
    "load_checkpoint": "checkpoint",
    "save_checkpoint": "checkpoint",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'bert_tf' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"bert_tf.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return __all__
