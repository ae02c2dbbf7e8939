"""Installs bert-tf: the library, and the scripts as commands."""

import pathlib

from setuptools import find_packages, setup

SCRIPTS = [
    "convert_checkpoint",
    "create_pretraining_data",
    "extract_features",
    "run_classifier",
    "run_multiple_choice",
    "run_pretraining",
    "run_squad",
    "run_tagging",
]

setup(
    name="bert-tf",
    version="0.1.0",
    description="Google's BERT on today's TensorFlow and Keras",
    long_description=pathlib.Path(__file__)
    .with_name("README.md")
    .read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=["bert_tf", "bert_tf.*"]),
    py_modules=SCRIPTS,
    package_data={"bert_tf.visualize": ["page.html", "page.css", "page.js"]},
    entry_points={
        "console_scripts": [f"{name}={name}:command" for name in SCRIPTS]
    },
    # TensorFlow comes first and pinned: another order makes pip try the
    # next release, which tf-models-official does not accept.
    install_requires=[
        "tensorflow~=2.20.0",
        "keras>=3.10,<4",
        'tensorflow-text~=2.20.0; platform_system != "Windows"',
        "tf-models-official~=2.20.0",
        "absl-py>=1.4",
        "google-crc32c>=1.5",
        "matplotlib>=3.5",
        "ml-dtypes>=0.4",
        "numpy>=1.26",
        "tqdm>=4.60",
    ],
    extras_require={
        "test": [
            "pytest>=8",
            "ruff>=0.6",
            "safetensors>=0.4",
            "seqeval>=1.2",
        ],
        "beam": ["apache-beam>=2.60"],
        "chinese": ["jieba>=0.42"],
        "litert": ["ai-edge-litert>=1.2"],
        "onnx": ["tf2onnx>=1.16", "onnx>=1.16", "onnxruntime>=1.18"],
    },
)
