"""Names of variables and of models in transformers' BERT.

Names there are PyTorch's: dots for slashes, `weight` for `kernel`, `gamma` and
tables; dense kernels are stored transposed. Source: transformers,
`modeling_bert.py` and its `load_tf_weights_in_bert`.
"""

import re

# Kind of head (see `architecture.HEADS`) -> class.
ARCHITECTURES: dict[str | None, str] = {
    None: "BertModel",
    "pre_training": "BertForPreTraining",
    "masked_lm": "BertForMaskedLM",
    "next_sentence": "BertForNextSentencePrediction",
    "sequence_classification": "BertForSequenceClassification",
    "token_classification": "BertForTokenClassification",
    "question_answering": "BertForQuestionAnswering",
    "multiple_choice": "BertForMultipleChoice",
}
_HEAD_NAMES = {
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
}


def huggingface_name(name: str) -> str:
    """The name there of an official name, with the prefix `bert.`."""
    if name in _HEAD_NAMES:
        return _HEAD_NAMES[name]
    name = re.sub(r"/layer_(\d+)/", r"/layer/\1/", name).replace("/", ".")
    if name.endswith("_embeddings"):
        return f"{name}.weight"
    for ours, theirs in (
        (".kernel", ".weight"),
        ("LayerNorm.gamma", "LayerNorm.weight"),
        ("LayerNorm.beta", "LayerNorm.bias"),
    ):
        if name.endswith(ours):
            return name.removesuffix(ours) + theirs
    return name
