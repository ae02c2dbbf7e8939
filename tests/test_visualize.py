"""The page and the picture of attention, the page in a real browser."""

import base64
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from bert_tf.config import BertConfig
from bert_tf.inference.model_folder import open_model_folder
from bert_tf.visualize import attention as attention_module
from bert_tf.visualize import command
from bert_tf.visualize.attention import Attention, encode
from bert_tf.visualize.page import create_page, embed_json, quantise

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat"]
HOSTILE = "</script><script>document.documentElement.dataset.bad=1</script>"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    from bert_tf.checkpoint import save_checkpoint
    from bert_tf.modeling import BertModel

    folder = tmp_path_factory.mktemp("model")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    config = BertConfig(
        vocab_size=len(PIECES),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=160,
        type_vocab_size=2,
        initializer_range=0.5,
    )
    config.save(folder / "bert_config.json")
    save_checkpoint(BertModel(config), folder / "bert_model.ckpt")
    return folder


@pytest.fixture
def browse(tmp_path):
    found = [name for name in BROWSERS if shutil.which(name)]
    if not found:
        pytest.skip("no chromium to look at the page with")

    def run(*arguments):
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        result = subprocess.run(
            [found[0], *OPTIONS, profile, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return result.stdout

    return run


def example(tokens=("[CLS]", "the", "[SEP]", "sat", "[SEP]", "[PAD]")):
    size = len(tokens)
    values = np.random.default_rng(1).random((2, 3, size, size), np.float32)
    values[..., -1] = 0.0
    values /= values.sum(axis=-1, keepdims=True)
    return Attention(
        "a model",
        list(tokens),
        [0, 0, 0, 1, 1, 0][:size],
        [1, 1, 1, 1, 1, 0][:size],
        [4, 7],
        values,
    )


def data_of(page):
    (text,) = re.findall(r'id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_page_holds_the_values_to_three_digits():
    shown = example()
    data = data_of(create_page(shown, 7, 2))
    assert data["tokens"] == shown.tokens
    assert (data["layer"], data["head"], data["layers"]) == (7, 2, [4, 7])
    for text, values in zip(data["attention"], shown.values, strict=True):
        found = np.frombuffer(base64.b64decode(text), "<u2") / data["scale"]
        np.testing.assert_allclose(found, values.ravel(), atol=5.1e-4)
    assert quantise(np.array([1.0, 0.0125])) == "6AMMAA=="


def test_page_refers_to_nothing_outside():
    page = create_page(example())
    assert "default-src 'none'" in page
    addresses = set(re.findall(r"\w+://[^\s\"']+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert not re.findall(
        r"(?:src|@import|url\()\s*=?", page.split("<body>")[1]
    )


def test_text_cannot_leave_its_place():
    tokens = [HOSTILE, "<!--", "{{style}}", "&amp;", "\u2028", '"\\']
    page = create_page(example(tokens))
    assert data_of(page)["tokens"] == tokens
    assert page.count("</script>") == 2
    assert "<" not in embed_json(tokens) and "&" not in embed_json(tokens)


KEYS = """
<script>
const log = [];
const press = (key) => {
  document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  log.push(document.documentElement.dataset.shown);
};
["ArrowRight", "ArrowRight", "ArrowDown", "m", "j", "j", "s", "Escape"]
  .forEach(press);
document.querySelector("#lines .piece.second")
  .dispatchEvent(new PointerEvent("pointerenter"));
log.push(document.getElementById("readout").textContent);
document.documentElement.dataset.log = JSON.stringify(log);
</script>
"""


def test_page_in_a_browser(tmp_path, browse):
    tokens = ["[CLS]", HOSTILE, "[SEP]", "sat", "[SEP]", "[PAD]"]
    shown = example(tokens)
    page = create_page(shown, 4, 1).replace("</body>", f"{KEYS}</body>")
    path = tmp_path / "view.html"
    path.write_text(page, encoding="utf-8")
    dom = browse("--dump-dom", path.as_uri())
    opening = re.search("<html[^>]*>", dom)[0]
    assert 'data-ready="true"' in opening and "data-bad" not in opening
    (log,) = re.findall("data-log='([^']*)'|data-log=\"([^\"]*)\"", opening)
    log = json.loads(next(filter(None, log)).replace("&quot;", '"'))

    def lines(values):
        return int((values >= 0.02).sum())

    values = np.rint(shown.values.astype(np.float64) * 1000) / 1000
    mean = values[1].mean(axis=0)
    assert log[:8] == [
        f"layer 4, head 2, {lines(values[0, 2])} lines",
        f"layer 4, head 0, {lines(values[0, 0])} lines",
        f"layer 7, head 0, {lines(values[1, 0])} lines",
        f"layer 7, mean of heads, {lines(mean)} lines",
        f"layer 7, mean of heads, {lines(mean[0])} lines",
        f"layer 7, mean of heads, {lines(mean[1])} lines",
        f"layer 7, mean of heads, {lines(mean[:, 1])} lines",
        f"layer 7, mean of heads, {lines(mean)} lines",
    ]
    best = int(mean[3].argmax())
    assert log[8].startswith(f"sat → {tokens[best]} ")
    assert dom.count('class="piece second') == 4
    assert dom.count('class="piece padding') == 2
    assert len(re.findall("<button", dom)) == 6
    assert len(re.findall('<button[^>]*pressed="true"', dom)) == 3


def test_page_is_light_or_dark(tmp_path, browse):
    from matplotlib.image import imread

    path = tmp_path / "view.html"
    path.write_text(create_page(example()), encoding="utf-8")
    brightness = []
    for scheme in (1, 0):
        shot = tmp_path / f"{scheme}.png"
        browse(
            f"--screenshot={shot}",
            "--window-size=1200,900",
            f"--blink-settings=preferredColorScheme={scheme}",
            path.as_uri(),
        )
        brightness.append(float(imread(shot)[..., :3].mean()))
    light, dark = brightness
    assert light > 0.8 and dark < 0.25


def test_page_of_a_model(model_dir, tmp_path, capsys):
    output = tmp_path / "new" / "view.html"
    command.main(
        [
            *("--model_dir", str(model_dir), "--output", str(output)),
            *("--pad_to", "9", "--do_lower_case=true", "--layers=-1"),
            *("The [MASK] sat", "a cat"),
        ]
    )
    assert "9 pieces, 1 layers x 2 heads" in capsys.readouterr().out
    data = data_of(output.read_text(encoding="utf-8"))
    assert data["tokens"] == [
        *("[CLS]", "the", "[MASK]", "sat", "[SEP]"),
        *("[UNK]", "cat", "[SEP]", "[PAD]"),
    ]
    assert data["segments"] == [0, 0, 0, 0, 0, 1, 1, 1, 0]
    assert data["mask"] == [1] * 8 + [0]
    assert (data["layers"], data["layer"]) == ([1], 1)
    values = np.frombuffer(base64.b64decode(data["attention"][0]), "<u2")
    values = values.reshape(2, 9, 9)
    assert np.all(np.abs(values.sum(axis=-1) - 1000.0) <= 5)
    assert not values[:, :, 8].any()


def test_values_are_the_models(model_dir):
    from bert_tf.checkpoint import load_checkpoint
    from bert_tf.modeling import BertModel

    folder = open_model_folder(model_dir, do_lower_case=True)
    inputs = encode(folder, "the cat", "sat")
    found = attention_module.compute_attention(folder, inputs)
    model = BertModel(folder.config)
    load_checkpoint(model, folder.checkpoint)
    outputs = model(
        {name: np.array([row]) for name, row in inputs._asdict().items()},
        return_attention_probs=True,
    )
    expected = np.stack([x[0] for x in outputs["attention_probs"]])
    np.testing.assert_array_equal(found.values, expected)
    assert found.model == model_dir.name


def test_picture(model_dir, tmp_path):
    from matplotlib.image import imread

    output = tmp_path / "view.png"
    command.main(
        [
            *("--model_dir", str(model_dir), "--output", str(output)),
            *("--do_lower_case=true", "--head", "1", "the cat $x$ sat"),
        ]
    )
    pixels = imread(output)
    assert pixels.shape[1] > pixels.shape[0] > 300
    assert pixels[..., :3].std() > 0.05


def test_lengths_are_limited(model_dir, caplog):
    folder = open_model_folder(model_dir, do_lower_case=True)
    with pytest.raises(ValueError, match="152 pieces, expected at most 128"):
        encode(folder, "cat " * 150)
    short = open_model_folder(model_dir, do_lower_case=True, max_seq_length=10)
    assert len(encode(short, "cat " * 150, cut=True).input_ids) == 10
    assert "152 pieces and is cut to 10" in caplog.text
    with pytest.raises(
        ValueError, match=r"--pad_to is 3, expected 4 .* to 128"
    ):
        encode(folder, "the cat", length=3)


def test_values_are_limited(model_dir, monkeypatch):
    folder = open_model_folder(model_dir, do_lower_case=True)
    assert attention_module.choose_layers(folder, [-1, 0, 1], 8) == [0, 1]
    monkeypatch.setattr(attention_module, "MAX_VALUES", 255)
    assert attention_module.choose_layers(folder, [1], 8) == [1]
    with pytest.raises(ValueError, match=r"256 values, .*fewer --layers"):
        attention_module.choose_layers(folder, None, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--output=x.gif", "a"], "ends in .html or .png"),
        (["--output=x.png", "a", "b", "c"], "one or two texts, found 3"),
        (
            ["--output=x.png", "--layers=2", "the"],
            "no layer 2, expected 0 to 1",
        ),
        (["--output=x.png", "--head=2", "the"], "--head is 2, expected one of"),
        (["--output=x.png", "--layers=0", "--layer=1", "the"], "one of 0$"),
    ],
)
def test_mistakes(model_dir, arguments, message):
    with pytest.raises(SystemExit, match=message):
        command.main(
            ["--model_dir", str(model_dir), "--do_lower_case=true", *arguments]
        )
